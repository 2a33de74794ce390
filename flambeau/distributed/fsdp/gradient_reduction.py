"""Average the gradient of a flat parameter over the processes; each one gets its shard's part."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ...tensor.tensor import wrap
from ..engines.engine import reduce_array
from ..reduce_op import ReduceOp
from .flat_handle import FlatParamHandle


def _choose_divisors(size: int) -> tuple[int, int]:
    """Return what gradients are divided by before and after they are summed over processes."""
    before = 1
    while size % before == 0 and size / before > before:
        before *= 2
    return before, size // before if size % before == 0 else 1


def start_reducing(handle: FlatParamHandle) -> None:
    """Start to average the gradient over the processes; each one gets its shard's part."""
    assert handle.gathered is not None
    gradient = handle.gathered._grad
    handle.gathered.grad = None
    if gradient is None:
        return
    finish_reducing(handle)
    array = gradient._array
    if handle.reduce_dtype is not None:
        array = array.astype(ops.empty(0, dtype=handle.reduce_dtype)._array.dtype, copy=False)
    if array is handle.shard or not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    work = handle.group._communicator.start(partial(_reduce, handle, array))
    handle.reducing = work, array


def _reduce(handle: FlatParamHandle, array: np.ndarray) -> None:
    """Average a gradient in place, over the shards' group and over the replicas."""
    for group in (handle.group, handle.replicas):
        if group is None or group.size() == 1:
            continue
        before, after = _choose_divisors(group.size())
        if before > 1:
            np.divide(array, array.dtype.type(before), out=array)
        reduce_array(array, ReduceOp.SUM, group._engine, group._engine.all_reduce)
        if after > 1:
            np.divide(array, array.dtype.type(after), out=array)


def finish_reducing(handle: FlatParamHandle) -> None:
    """Wait for the average and add it to the gradient of the shard."""
    if handle.reducing is None:
        return
    (work, array), handle.reducing = handle.reducing, None
    work.wait()
    length = handle.layout.shard_length
    part = array[handle.rank * length :][:length]
    dtype = part.dtype if handle.keeps_low_precision else handle.shard.dtype
    part = part.astype(dtype, copy=handle.uses_sharded_strategy)
    if handle._use_orig_params:
        give_segments(handle, part)
    elif handle.flat_param._grad is None:
        handle.flat_param._grad = wrap(part)
    else:
        handle.flat_param._grad._array += part


def give_segments(handle: FlatParamHandle, part: np.ndarray) -> None:
    """Give each parameter its part of the shard's gradient, added to what it has."""
    for segment in handle.layout.segments:
        own, parameter = handle.own_part(segment), segment.parameter
        if not segment.requires_grad or own.start == own.stop:
            continue
        array = part[own] if handle.uses_sharded_strategy else part[own].reshape(segment.shape)
        if parameter._grad is None:
            parameter._grad = wrap(array)
        else:
            parameter._grad._array += array
