"""Copies: clone, contiguous and copy_."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.inplace import bump
from ...autograd.mode import MODE
from ...native.foundation.public_names import c_class_name
from ...native.target.eager_costs import MIN_STRIDED_COPY_BYTES
from ...tensor.layout import (
    allocate_copy, contiguous_format, copy_in_format, get_channels_last_format, is_channels_last,
    is_plain, preserve_format,
)
from ...tensor.layout import memory_format as MemoryFormat
from ...tensor.meta import MetaArray
from ...tensor.overlap import (
    check_no_internal_overlap, check_no_overlap, overlaps_other_window,
)
from ...tensor.tensor import Tensor, wrap
from ..core.errors import broadcast_mismatch
from ..core.operator import Array
from ..core.output_layout import Layout
from ..core.registry import opaque, writes_by_operators
from ..core.sample_inputs import real_line
from ..native.row_copies import fill, try_copy_kernel
from ..native.transpose import copy_to_rows
from .conversion import cast
from .creation import public


@opaque(leading=True, extents_follow=True,
        linear_in="input", layout=Layout.FREE, ref=lambda x: x + 0, samples=real_line)
def clone(input: Array, *, memory_format: Any = preserve_format) -> Array:
    """Return a copy that gradients flow through.

    `detach().clone()` copies without the autograd history.

    >>> x = torch.zeros(2)
    >>> y = x.clone().fill_(1)
    >>> x, y
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if input.__class__ is MetaArray:
        return input.copy()
    if memory_format is contiguous_format:
        return copy_to_rows(input)
    in_order_anyway = memory_format is preserve_format and is_plain(input)
    if in_order_anyway:
        if (y := try_copy_kernel(input)) is not None:
            return y
    elif input.nbytes >= MIN_STRIDED_COPY_BYTES and memory_format is preserve_format:
        y = allocate_copy(input, input.dtype)
        fill(y, input)
        return y
    return input.copy() if in_order_anyway else copy_in_format(input, memory_format)


@clone.vjp
def _(g: Tensor) -> Tensor:
    return g


@public(spaces=("Tensor",))
def contiguous(self: Tensor, *, memory_format: Any = contiguous_format) -> Tensor:
    """Return this tensor if it is contiguous in memory, else a contiguous copy.

    >>> x = torch.zeros(2, 3)
    >>> x.contiguous() is x, x.T.is_contiguous(), x.T.contiguous().is_contiguous()
    (True, False, True)
    """
    if self.is_contiguous(memory_format=memory_format):
        if memory_format.__class__ is not MemoryFormat:
            raise TypeError("contiguous(): argument 'memory_format' must be torch.memory_format, "
                            f"not {c_class_name(memory_format)}")
        return self
    return clone(self, memory_format=memory_format)


def in_format(y: Tensor, form: MemoryFormat) -> Tensor:
    """Return `y`, or a copy if its elements lie in another order, in a memory format."""
    if form is contiguous_format and y._array.flags.c_contiguous:
        return y
    return contiguous(y, memory_format=form)


def in_suggested_format(y: Tensor, input: Tensor) -> Tensor:
    """Return `y`, or a copy if it is a view, in the memory format of `input`.

    The format is channels last if `input` is, else row-major.
    """
    last = is_channels_last(input._array.shape, input.stride())
    form = (get_channels_last_format(input._array.ndim) if last else None) or contiguous_format
    y = contiguous(y, memory_format=form)
    return clone(y, memory_format=form) if y._base is not None else y


@writes_by_operators
@public(spaces=("Tensor",))
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy `src` into this tensor, broadcasting and casting it.

    >>> torch.zeros(2).copy_(torch.tensor(5))
    tensor([5., 5.])
    """
    if isinstance(src, (bool, int, float, complex)):
        src = wrap(np.asarray(src))  # cast as a tensor is: it wraps around and overflows
    if not isinstance(src, Tensor):
        raise TypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not "
            f"{c_class_name(src)}"
        )
    if self._array.__class__ is MetaArray:
        return self
    if MODE.grad and (self._tracked or src._tracked) and (self.requires_grad or src.requires_grad):
        from ..indexing.index import overwrite

        return overwrite(self, src, "copy_")
    if overlaps_other_window(self._array, src._array):
        from ..indexing.overlapping_copy import copy_as_read

        check_copy(self._array, src._array)
        src = copy_as_read(self, src)
    copy_array(self, src)
    bump(self)
    return self


def copy_array(target: Tensor, src: Tensor) -> None:
    source, array = src._array, target._array
    check_copy(array, source)
    if source.dtype != array.dtype:
        with np.errstate(all="ignore"):
            source = cast(source, array.dtype)
    fill(array, source)


def check_copy(target: Any, source: Any) -> None:
    """Raise RuntimeError, before anything is written, if `source` cannot be copied to `target`."""
    if source.__class__ is MetaArray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    check_no_internal_overlap(target)
    check_no_overlap(target, source)
    shape, extents = target.shape, source.shape
    if extents == shape:
        return
    skipped = len(shape) - len(extents)
    if skipped < 0 or any(n not in (1, m) for n, m in zip(extents, shape[skipped:], strict=True)):
        raise RuntimeError(_describe_shape_error(shape, extents))


def _describe_shape_error(target: tuple[int, ...], source: tuple[int, ...]) -> str:
    return broadcast_mismatch([target, source]) or (
        f"output with shape {list(target)} doesn't match the broadcast shape "
        f"{list(np.broadcast_shapes(target, source))}"
    )
