"""whole_parameters: a unit's own parameters, whole, for reading, writing and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...nn.parameter import Parameter
from ...tensor.tensor import wrap
from .flat_handle import FLAT_PARAM, FlatParamHandle
from .flat_layout import Segment
from .gradient_reduction import give_segments


@contextmanager
def whole_parameters(
    handle: FlatParamHandle, writeback: bool, with_grads: bool = False
) -> Iterator[None]:
    """Make the modules' parameters whole inside, in their own dtype. All processes must enter."""
    flat = handle.whole()
    gradients = _gather_gradients(handle) if with_grads and handle.uses_sharded_strategy else None
    shown = _show_whole(handle, flat, gradients)
    try:
        yield
    finally:
        _end_whole(handle, flat, shown, writeback)
        if gradients is not None:
            for segment in handle.layout.segments:
                segment.parameter._grad = None
            start = handle.rank * handle.layout.shard_length
            give_segments(handle, gradients[start:][: handle.layout.shard_length])


def _show_whole(
    handle: FlatParamHandle, flat: np.ndarray, gradients: np.ndarray | None
) -> list[tuple[Segment, Parameter]]:
    """Register the whole parameters instead of the flat one."""
    shown: list[tuple[Segment, Parameter]] = []
    handle.module._parameters.pop(FLAT_PARAM, None)
    for segment in handle.layout.segments:
        if handle._use_orig_params:
            parameter = segment.parameter
            parameter._array = segment.of(flat)
            if gradients is not None and segment.requires_grad:
                parameter._grad = wrap(segment.of(gradients))
        else:
            parameter = Parameter(wrap(segment.of(flat)), segment.requires_grad)
        for module, name in segment.places:
            module.__dict__.pop(name, None)
            module._parameters[name] = parameter
        shown.append((segment, parameter))
    return shown


def _gather_gradients(handle: FlatParamHandle) -> np.ndarray:
    """Return all processes' gradients of the flat parameter."""
    shard = np.zeros_like(handle.shard)
    for segment in handle.layout.segments:
        gradient = segment.parameter._grad
        if gradient is not None:
            np.copyto(shard[handle.own_part(segment)], gradient._array, casting="unsafe")
    return handle.gather_flat(shard)


def _end_whole(
    handle: FlatParamHandle, flat: np.ndarray, shown: list[tuple[Segment, Parameter]],
    writeback: bool,
) -> None:
    """Take the whole parameters away, and keep what was written to them."""
    for segment, parameter in shown:
        module, name = segment.places[0]
        current = module._parameters.get(name)  # load_state_dict(assign=True) replaces it
        array = (parameter if current is None else current)._array
        if writeback and not np.may_share_memory(array, flat):
            np.copyto(segment.of(flat), array, casting="unsafe")
        for module, name in segment.places:
            if handle._use_orig_params:
                module._parameters[name] = parameter
            else:
                module._parameters.pop(name, None)
    if not handle._use_orig_params:
        handle.module._parameters[FLAT_PARAM] = handle.flat_param
    if writeback:
        length = handle.layout.shard_length
        np.copyto(handle.shard, flat[handle.rank * length :][:length])
    handle.show_shards()
