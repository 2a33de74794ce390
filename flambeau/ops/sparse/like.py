"""Sparse tensors like others: their shape, dtype and layout, with other values or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...autograd.inplace import bump, check_writable
from ...tensor.devices import device as as_place
from ...tensor.dtypes import as_dtype
from ...tensor.layout import empty_strided_array, format_strides, layout, sparse_coo, strided
from ...tensor.size import Size
from ...tensor.sparse import (
    COMPRESSED, CompressedArray, CooArray, SparseTensor, layout_name, wrap_sparse,
)
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from .dispatch import implements, refuse
from .empty import allocate_coo, allocate_in_layout
from .meta_device import find_target, move_to_meta


def _choose_dtype(input: Tensor, dtype: Any) -> np.dtype:
    return input._array.dtype if dtype is None else as_dtype(dtype).numpy


@implements("zeros_like")
def zeros_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:
    """Return a sparse tensor without values, in the layout of `input` or a given one."""
    a: Any = input._array
    kind, form = _choose_dtype(input, dtype), layout or input.layout
    if form is sparse_coo:
        _check_without_format(memory_format)
        sparse = a.sparse_dim if isinstance(a, CooArray) else a.ndim - a.dense_dim
        result: Tensor = wrap_sparse(allocate_coo(a.shape, kind, sparse))
    elif form is strided:
        _check_same_layout(input, form)
        result = wrap(_allocate_zeros(a.shape, kind, memory_format))
    else:
        result = _drop_values(a, form, kind)
    if find_target(input, device):
        result._array = move_to_meta(result._array)
    return require_gradients(result) if requires_grad else result


def _check_without_format(memory_format: Any) -> None:
    if memory_format is not None:
        raise RuntimeError("memory format option is only supported by strided tensors")


def _allocate_zeros(shape: tuple[int, ...], kind: np.dtype, memory_format: Any) -> np.ndarray:
    """Return zeros in a memory format; a sparse tensor has no strides that could be preserved."""
    if memory_format is None:
        return np.zeros(shape, kind)
    result = empty_strided_array(shape, format_strides(shape, memory_format), kind)
    result[...] = 0
    return result


def _drop_values(a: Any, form: layout, kind: np.dtype) -> Tensor:
    """Return a compressed tensor of this layout and of the shape of `a` that stores nothing."""
    needs_blocks = COMPRESSED[form][1]
    has_blocks = isinstance(a, CompressedArray) and a.blocked
    if needs_blocks and not has_blocks:
        raise RuntimeError("sparse_compressed_tensor_with_dims: blocksize needs to be a tuple of "
                           "size 2, but got 0")
    if has_blocks and not needs_blocks:
        raise RuntimeError("sparse_compressed_tensor_with_dims: blocksize cannot be specified for "
                           f"non-block layout {layout_name(form)}")
    if not isinstance(a, CompressedArray):
        return allocate_in_layout(a.shape, kind, form)
    row_axis, block, index_dtype = a.batch_dim, a.block, a.plain.dtype
    batch = a.shape[:row_axis]
    by_row = COMPRESSED[form][0]
    lines = a.shape[row_axis] // block[0] if by_row else a.shape[row_axis + 1] // block[1]
    return wrap_sparse(CompressedArray(
        form, np.zeros((*batch, lines + 1), index_dtype), np.empty((*batch, 0), index_dtype),
        np.empty((*batch, 0, *a.values.shape[row_axis + 1 :]), kind), a.shape))


def _check_same_layout(input: Tensor, form: layout) -> None:
    if isinstance(input._array, CompressedArray) and form is not input.layout:
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is "
            f"{layout_name(input.layout)} but you requested {layout_name(form)})"
        )


@implements("empty_like")
def empty_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:
    """Return uninitialized values: at a compressed tensor's positions, at none of a COO tensor."""
    a: Any = input._array
    form = layout or input.layout
    to_meta = find_target(input, device)
    _check_same_layout(input, form)
    if form is input.layout and isinstance(a, CompressedArray):
        if a.on_meta and not to_meta:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        result: Tensor = wrap_sparse(CompressedArray(
            form, a.compressed.copy(), a.plain.copy(),
            np.zeros(a.values.shape, _choose_dtype(input, dtype)), a.shape))
        if to_meta:
            result._array = move_to_meta(result._array)
    else:
        if isinstance(a, CooArray) and form is not strided:
            _check_without_format(memory_format)
        result = zeros_like(input, dtype=dtype, layout=form, device=device,
                            memory_format=memory_format)
    return require_gradients(result) if requires_grad else result


@implements("ones_like")
def ones_like(input: Tensor, *, requires_grad: bool = False, **options: Any) -> Tensor:
    """As `empty_like`, then `fill_(1)`."""
    return full_like(input, 1, requires_grad=requires_grad, **options)


@implements("full_like")
def full_like(
    input: Tensor, fill_value: Any, *, requires_grad: bool = False, **options: Any
) -> Tensor:
    """As `empty_like`, then `fill_`."""
    result: Tensor = empty_like(input, **options).fill_(fill_value)
    return require_gradients(result) if requires_grad else result


@implements("randn_like")
def randn_like(
    input: Tensor, *, generator: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """As `empty_like`, then `normal_`."""
    result: Tensor = empty_like(input, **options).normal_(generator=generator)
    return require_gradients(result) if requires_grad else result


@implements("rand_like")
def rand_like(
    input: Tensor, *, generator: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """As `empty_like`, then `uniform_`."""
    result: Tensor = empty_like(input, **options).uniform_(generator=generator)
    return require_gradients(result) if requires_grad else result


@implements("fill_")
def fill_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`fill_` on the stored values of a compressed tensor."""
    return _write_stored_values(self, "fill_", "fill_.Scalar", args, kwargs)


@implements("normal_")
def normal_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`normal_` on the stored values of a compressed tensor."""
    return _write_stored_values(self, "normal_", "normal_", args, kwargs)


@implements("uniform_")
def uniform_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raise NotImplementedError, as PyTorch does."""
    refuse("uniform_", (self,))
    return self


def _write_stored_values(
    self: Tensor, name: str, refused: str, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Call a method of the stored values; a tensor that is not compressed refuses as `refused`."""
    a: Any = self._array
    if not isinstance(self, SparseTensor) or isinstance(a, CooArray):
        refuse(refused, (self,))
    check_writable(self, name)
    getattr(wrap(a.values), name)(*args, **kwargs)
    bump(self)
    return self


@implements("new")
def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """Return a COO tensor of indices and values, or one of a size without values."""
    place = self.device if device is None else as_place(device)
    if place.type != self.device.type:
        raise RuntimeError(f"legacy constructor expects device type: {self.device.type} but device "
                           f"type: {place.type} was passed")
    if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
        result: Tensor = PUBLIC["torch"]["sparse_coo_tensor"](*args)
        return result
    is_size = not args or isinstance(args[0], (int, list, tuple))
    if not is_size:
        raise TypeError("new() received an invalid combination of arguments - got "
                        f"({', '.join(type(a).__name__ for a in args)}), but expected indices and "
                        "values, or a size")
    if args and isinstance(args[0], (list, tuple)) and not isinstance(args[0], Size):
        raise TypeError("SparseTensor.new(sequence) only accepts sizes.  Please use "
                        "torch.sparse_coo_tensor() or construct a strided tensor and convert it to "
                        "sparse via to_sparse.")
    return new_zeros(self, *(args or (0,) if size is None else (size,)))


@implements("new_zeros", "new_empty")
def new_zeros(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """Return a sparse tensor of the same layout and dtype without values."""
    from ..creation.creation import get_numpy_dtype, parse_shape

    kind = self._array.dtype if dtype is None else get_numpy_dtype(dtype)
    return allocate_in_layout(parse_shape(size, kwargs.get("size")), kind, self.layout,
                              find_target(self, device))
