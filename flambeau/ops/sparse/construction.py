"""Construct sparse tensors from indices and values, in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.backward import require_gradients
from ...autograd.tangents import carry
from ...tensor import layout as layouts
from ...tensor.dtypes import as_dtype
from ...tensor.layout import layout
from ...tensor.meta import MetaArray, meta_array
from ...tensor.sparse import COMPRESSED, CompressedArray, layout_name, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from ..creation.creation import is_on_meta
from .assembly import create_compressed, create_coo
from .empty import allocate_coo
from .invariants import CHECKS, as_indices, check_compressed, check_coo, infer_coo_shape
from .meta_device import check_common_compressed_device, check_common_device, move_to_meta


def as_values(values: Any, dtype: Any) -> Tensor:
    """Return the values as a tensor, cast to a dtype if one is given."""
    if not isinstance(values, Tensor):
        return PUBLIC["torch"]["tensor"](values, dtype=dtype)
    return values if dtype is None else values.to(as_dtype(dtype))


def sparse_coo_tensor(
    *args: Any, size: Any = None, dtype: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None, **kwargs: Any,
) -> Tensor:
    """`sparse_coo_tensor(indices, values, size)`: see `flambeau.ops.sparse.entry`."""
    if "indices" in kwargs:
        args = (kwargs["indices"], kwargs["values"], *args)
    elif "values" in kwargs:
        args = (*args, kwargs["values"])
    if len(args) == 3:
        *args, size = args  # type: ignore[assignment]
    if len(args) < 2:
        return _create_empty_coo(args, size, dtype, requires_grad, device)
    indices, values = as_indices(args[0]), as_values(args[1], dtype)
    indices, values = _place_parts(device, values, indices)
    check_common_device(indices=indices, values=values._array)
    array: Any = values._array
    if array.ndim == 0:
        array, values = array.reshape(1), values.reshape(1)
    shape = infer_coo_shape(indices, array, size)
    if CHECKS.on if check_invariants is None else check_invariants:
        check_coo(indices, array, shape, bool(is_coalesced))
    elif size is None and indices.size and indices.min() < 0:
        raise RuntimeError("found negative index")
    source = values if values._requires_grad or values._tracked else carry(values, wrap(array))
    if is_coalesced is None:
        is_coalesced = indices.shape[1] < 2
    result = create_coo(source, indices, shape, is_coalesced)
    if isinstance(args[1], Tensor) and requires_grad and result._node is not None:
        result = result.detach()
    return require_gradients(result) if requires_grad else result


def _place_parts(device: Any, values: Tensor, *indices: np.ndarray) -> tuple[Any, ...]:
    """Return indices and values on a device; None: where they are, or on the default device."""
    if not is_on_meta(device):
        return *indices, values if device is None else values.to(device)
    return *(meta_array(x.shape, x.dtype) for x in indices), values.to("meta")


def _create_empty_coo(
    args: Sequence[Any], size: Any, dtype: Any, requires_grad: bool, device: Any
) -> Tensor:
    shape = args[0] if args and size is None else size
    if isinstance(shape, Tensor) or not isinstance(shape, (tuple, list)):
        raise RuntimeError("indices must be sparse_dim x nnz, but got: []")
    kind = PUBLIC["torch"]["zeros"](0, dtype=dtype)._array.dtype
    empty: Any = allocate_coo(tuple(map(int, shape)), kind)
    result = wrap_sparse(move_to_meta(empty) if is_on_meta(device) else empty)
    return require_gradients(result) if requires_grad else result


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> Tensor:
    """A tensor in a compressed layout: see `flambeau.ops.sparse.entry`."""
    form = layout
    if form is None:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got Strided")
    if form not in COMPRESSED:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but "
                           f"got {layout_name(form)}")
    compressed = as_indices(compressed_indices, keep_int32=True)
    plain = as_indices(plain_indices, keep_int32=True)
    compressed, plain, values = _place_parts(
        device, as_values(values, dtype), compressed, plain)
    names = ("crow_indices", "col_indices") if COMPRESSED[form][0] else \
        ("ccol_indices", "row_indices")
    check_common_compressed_device(compressed, plain, values._array, names)
    shape = _infer_compressed_shape(form, compressed, plain, values._array) if size is None \
        else tuple(int(n) for n in size)
    array = CompressedArray(form, compressed, plain, values._array, shape)
    if CHECKS.on if check_invariants is None else check_invariants:
        check_compressed(array)
    result = create_compressed(values, form, compressed, plain, shape)
    if requires_grad and result._node is not None:
        result = result.detach()
    return require_gradients(result) if requires_grad else result


def _infer_compressed_shape(
    form: layout, compressed: np.ndarray, plain: np.ndarray, values: np.ndarray
) -> tuple[int, ...]:
    by_row, blocked = COMPRESSED[form]
    batch = compressed.shape[:-1]
    first = len(batch) + 1
    height, width = values.shape[first : first + 2] if blocked else (1, 1)
    lines = compressed.shape[-1] - 1
    if plain.__class__ is MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    across = int(plain.max()) + 1 if plain.size else 0
    rows, columns = (lines, across) if by_row else (across, lines)
    return (*batch, rows * height, columns * width, *values.shape[first + (2 if blocked else 0) :])


def _construct_in_layout(form: layout, first: str, second: str, args: tuple, kwargs: dict[str, Any]
                         ) -> Tensor:
    """Call the general function for one layout; `first`, `second`: names of the indices."""
    parts = [kwargs.pop(n) for n in (first, second, "values") if n in kwargs]
    if kwargs.get("layout") not in (None, form):
        raise RuntimeError(f"{str(form).removeprefix('torch.')}_tensor expected {form} layout but "
                           f"got {kwargs['layout']}")
    kwargs["layout"] = form
    return sparse_compressed_tensor(*args[: 3 - len(parts)], *parts, *args[3 - len(parts) :],
                                    **kwargs)


def sparse_csr_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """See `flambeau.ops.sparse.entry`."""
    return _construct_in_layout(layouts.sparse_csr, "crow_indices", "col_indices", args, kwargs)


def sparse_csc_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """See `flambeau.ops.sparse.entry`."""
    return _construct_in_layout(layouts.sparse_csc, "ccol_indices", "row_indices", args, kwargs)


def sparse_bsr_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """See `flambeau.ops.sparse.entry`."""
    return _construct_in_layout(layouts.sparse_bsr, "crow_indices", "col_indices", args, kwargs)


def sparse_bsc_tensor(*args: Any, **kwargs: Any) -> Tensor:
    """See `flambeau.ops.sparse.entry`."""
    return _construct_in_layout(layouts.sparse_bsc, "ccol_indices", "row_indices", args, kwargs)
