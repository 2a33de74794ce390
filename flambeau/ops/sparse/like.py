"""Sparse tensors like others: their shape, dtype and layout, with other values or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...autograd.inplace import bump, check_writable
from ...tensor.dtypes import as_dtype
from ...tensor.layout import layout, sparse_coo, strided
from ...tensor.sparse import (
    COMPRESSED, CompressedArray, CooArray, SparseTensor, layout_name, wrap_sparse,
)
from ...tensor.tensor import Tensor, wrap
from .construction import allocate_coo, allocate_in_layout
from .dispatch import implements, refuse
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
        sparse = a.sparse_dim if isinstance(a, CooArray) else a.ndim - a.dense_dim
        result: Tensor = wrap_sparse(allocate_coo(a.shape, kind, sparse))
    elif form is strided:
        _check_same_layout(input, form)
        result = wrap(np.zeros(a.shape, kind))
    else:
        result = _drop_values(a, form, kind)
    if find_target(input, device):
        result._array = move_to_meta(result._array)
    return require_gradients(result) if requires_grad else result


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
        result = zeros_like(input, dtype=dtype, layout=form, device=device)
    return require_gradients(result) if requires_grad else result


def _declare_fill_like(name: str, fill: str, arguments: tuple[Any, ...] = ()) -> None:
    def function(input: Tensor, *args: Any, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        generator = kwargs.pop("generator", None)
        options = {} if generator is None else {"generator": generator}
        if "fill_value" in kwargs:
            args = (kwargs.pop("fill_value"),)
        result = getattr(empty_like(input, **kwargs), fill)(*(args or arguments), **options)
        return require_gradients(result) if requires_grad else result

    function.__name__ = name
    function.__doc__ = f"As `empty_like`, then `{fill}`."
    implements(name)(function)


_declare_fill_like("ones_like", "fill_", (1,))
_declare_fill_like("full_like", "fill_")
_declare_fill_like("randn_like", "normal_")
_declare_fill_like("rand_like", "uniform_")


def _declare_fill_in_place(name: str, refused: str, compressed: bool = True) -> None:
    """Declare a method that sets the stored values of a compressed tensor; PyTorch has a few."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        a: Any = self._array
        if not isinstance(self, SparseTensor) or not compressed or isinstance(a, CooArray):
            refuse(refused, (self,))
        check_writable(self, name)
        getattr(wrap(a.values), name)(*args, **kwargs)
        bump(self)
        return self

    method.__name__ = name
    method.__doc__ = f"`{name}` on the stored values of a compressed tensor."
    implements(name)(method)


_declare_fill_in_place("fill_", "fill_.Scalar")
_declare_fill_in_place("normal_", "normal_")
_declare_fill_in_place("uniform_", "uniform_", compressed=False)


@implements("new_zeros", "new_empty", "new")
def new_zeros(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """Return a sparse tensor of the same layout and dtype without values."""
    from ..creation.creation import get_numpy_dtype, parse_shape

    kind = self._array.dtype if dtype is None else get_numpy_dtype(dtype)
    return allocate_in_layout(parse_shape(size, kwargs.get("size")), kind, self.layout,
                              find_target(self, device))
