"""Filling and re-seating: fill_, zero_, set_, resize_ change a tensor's memory as a whole."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.inplace import bump, check_writable
from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS, find_level
from ...native.foundation.allocation import check_countable
from ...native.target.eager_costs import MIN_FILL_BYTES
from ...tensor.determinism import alert_not_deterministic, new_memory
from ...tensor.dtypes import FLOATS
from ...tensor.exposed_memory import check_resizable
from ...tensor.layout import (
    compute_contiguous_strides, contiguous_format, find_owner, format_strides,
    get_channels_last_format, is_channels_last, preserve_format,
)
from ...tensor.meta import MetaArray, meta_array
from ...tensor.storage import TypedStorage, UntypedStorage, storage_name, window
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.lazy_window import LazyWindow
from ..core.errors import answer_failed, build_overload_error
from ..core.operator import Number
from ..core.registry import composite, writes_by_operators
from ..core.scalar_conversion import ORDINARY, convert_scalar, is_number
from ..indexing.index import overwrite
from ..native.row_copies import fill as fill_array
from .creation import parse_shape, public


@writes_by_operators
@public(spaces=("torch", "Tensor"))
def fill_(input: Tensor, value: Any) -> Tensor:
    """Fill this tensor with one value, in place.

    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    try:
        array = input._array
    except AttributeError as error:
        return answer_failed(error, "fill_", fill_, (input, value))
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value._array.ndim} dimensions."
            )
        source = value
    elif (value.__class__ is float or value.__class__ is int) and array.dtype in FLOATS \
            and -ORDINARY < value < ORDINARY:
        source = wrap(np.array(value, array.dtype))
    elif not is_number(value):
        raise build_overload_error("fill_", ("input", "value"), (input, value))
    else:
        source = wrap(convert_scalar(value, array.dtype))
    if MODE.grad and (check_writable(input, "fill_") or source.requires_grad):
        return overwrite(input, source, "fill_")
    if array.__class__ is not MetaArray:
        if array.nbytes < MIN_FILL_BYTES:
            array[...] = source._array
        else:
            fill_array(array, source._array.astype(array.dtype, copy=False))
    bump(input)
    return input


@writes_by_operators
@public(spaces=("torch", "Tensor"))
def zero_(input: Tensor) -> Tensor:
    """Fill this tensor with zeros, in place.

    >>> x = torch.ones(2)
    >>> torch.zero_(x)
    tensor([0., 0.])
    """
    try:
        if input._tracked and MODE.grad and check_writable(input, "zero_"):
            return fill_(input, 0)
        array: Any = input._array
    except AttributeError as error:
        return answer_failed(error, "zero_", zero_, (input,))
    if array.__class__ is LazyWindow:
        return fill_(input, 0)
    if array.__class__ is not MetaArray:
        if array.nbytes < MIN_FILL_BYTES:
            array.fill(0)
        else:
            fill_array(array, np.zeros((), array.dtype))
    bump(input)
    return input


@composite(expose=("torch",), explains=True)
def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """Return a tensor filled with one value, with the shape and dtype of `input`.

    Args:
        input: The tensor whose shape and dtype to take.

    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    return fill_(input.clone(), value)


def _resize_window(array: np.ndarray, shape: tuple[int, ...], form: Any) -> np.ndarray:
    """Return a window of another shape on an array's memory, or on new memory with its elements."""
    memory = find_owner(array)
    check_countable(shape, array.dtype)
    count = math.prod(shape)
    check_resizable(array, count)
    flat = memory.reshape(-1, order="A") if memory.dtype == array.dtype else array.reshape(-1)
    if count > flat.size:
        larger = new_memory(count, array.dtype)
        larger[: flat.size] = flat
        flat = larger
    if form is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if form is contiguous_format:
        return flat[:count].reshape(shape)
    return window(flat.view(np.uint8), array.dtype, 0, shape, format_strides(shape, form))


@public(spaces=("Tensor",))
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Change the shape in place; the first elements are kept, new ones are uninitialized.

    >>> torch.tensor([1, 2, 3]).resize_(2)
    tensor([1, 2])
    """
    shape = parse_shape(sizes)
    if self.is_quantized:
        alert_not_deterministic("quantized_resize_cpu_")
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if LEVELS.active and find_level(self) is not None:
        raise RuntimeError("cannot resize variables that has a forward grad")
    array: Any = self._array
    if shape == array.shape and memory_format is None:
        return self
    if array.__class__ is MetaArray:
        bump(self)
        self._array = meta_array(shape, array.dtype)
        return self
    if array.__class__ is LazyWindow:  # which keeps its bits
        self._array = array.memory
        self._array = array.like(resize_(self, shape, memory_format=memory_format)._array)
        return self
    self._array = _resize_window(array, shape, memory_format or contiguous_format)
    bump(self)
    return self


@public(spaces=("torch", "Tensor"), explains=True)
def resize_as_(input: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """Change the shape to that of another tensor, in place.

    >>> torch.tensor([1, 2, 3]).resize_as_(torch.zeros(2))
    tensor([1, 2])
    """
    shape = the_template._array.shape
    if memory_format is preserve_format:
        last = is_channels_last(shape, the_template.stride())
        memory_format = get_channels_last_format(len(shape)) if last else contiguous_format
    return resize_(input, shape, memory_format=memory_format)


@public(spaces=("Tensor",))
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Make this tensor a view of another tensor's or storage's memory.

    >>> x = torch.tensor([1, 2, 3])
    >>> torch.tensor([], dtype=torch.int64).set_(x).data_ptr() == x.data_ptr()
    True
    """
    if source is None:
        self._array = np.empty(0, self._array.dtype)
    elif isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        self._array = source._array
        if size is not None:
            return self.set_(source.untyped_storage(), storage_offset, size, stride)
    elif isinstance(source, (UntypedStorage, TypedStorage)):
        if isinstance(source, TypedStorage) and source.dtype is not self.dtype:
            expected, has = storage_name(self.dtype), storage_name(source.dtype)
            raise RuntimeError(
                f"Expected a Storage of type {expected} or an UntypedStorage, but got type {has} "
                "for argument 1 'storage'"
            )
        memory = source.untyped()
        kind = self._array.dtype
        shape = (memory.nbytes() // kind.itemsize,) if size is None else tuple(size)
        strides = compute_contiguous_strides(shape) if stride is None else tuple(stride)
        self._array = window(memory, kind, storage_offset, shape, strides)
    else:
        raise TypeError(f"set_(): expected a tensor or a storage, not {type(source).__name__}")
    bump(self)
    return self
