"""Convert between layouts, coalesce, and access the parts of a sparse tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.dtypes import as_dtype, dtype as Dtype
from ...tensor.layout import layout, sparse_coo, strided
from ...tensor.meta import meta_array
from ...tensor.sparse import (
    COMPRESSED, CompressedArray, CooArray, SparseTensor, layout_name,
)
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..interception.window_stubs import select_functions
from . import formats
from .assembly import create_compressed, create_coo
from .conversion_checks import check_conversion, check_sparse_dim
from .dispatch import implements, implements_each, sparse_operator
from .masking import mask_by_pattern
from .meta_device import NO_DATA, RULES, convert_on_meta, forget_places


def require_coo(x: Tensor, subject: str) -> CooArray:
    """Return the coordinates of a tensor; RuntimeError, naming the method, for other layouts."""
    array: Any = x._array
    if not isinstance(array, CooArray):
        raise RuntimeError(
            f"{subject} expected sparse coordinate tensor layout but got {layout_name(x.layout)}"
        )
    return array


# ------------------------------------------------------------------------------ its parts


@sparse_operator(node="CoalesceBackward0", linear_in="input")
def _coalesce(input: Array) -> Array:
    return formats.coalesce(input)  # type: ignore[arg-type,return-value]


@_coalesce.vjp
def _(g: Any) -> Any:
    return g


@implements("coalesce")
def coalesce(self: Tensor) -> Tensor:
    """Sort the indices and merge duplicates; a coalesced tensor is returned unchanged."""
    return self if require_coo(self, "coalesce").coalesced else _coalesce(self)


@implements("is_coalesced")
def is_coalesced(self: Tensor) -> bool:
    """Test whether the indices are sorted and unique."""
    return require_coo(self, "is_coalesced").coalesced


@implements("_coalesced_")
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    require_coo(self, "_coalesced_").coalesced = coalesced
    return self


@implements("_indices")
def _indices(self: Tensor) -> Tensor:
    """Return the indices (sparse axes, nnz), coalesced or not."""
    return wrap(require_coo(self, "_indices").indices)


@implements("_values")
def _values(self: Tensor) -> Tensor:
    """Return the values, coalesced or not, detached from the graph."""
    return wrap(require_coo(self, "_values").values)


@implements("indices")
def indices(self: Tensor) -> Tensor:
    """Return the indices of a coalesced tensor."""
    if not require_coo(self, "indices").coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return _indices(self)


@implements("values")
def values(self: Tensor) -> Tensor:
    """Return the values of a coalesced or compressed tensor, differentiably."""
    array: Any = self._array
    if isinstance(array, CooArray) and not array.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return get_values(self)


@sparse_operator(node="ValuesBackward0", linear_in="input")
def get_values(input: Array) -> Array:
    return input.values  # type: ignore[attr-defined]


@get_values.vjp("input")
def _(g: Any, input: Any) -> Any:
    return with_values(input, g)


def with_values(x: Tensor, values: Tensor) -> Tensor:
    """Return a tensor with the pattern of `x` and other values, differentiably."""
    a: Any = x._array
    if isinstance(a, CooArray):
        shape = a.shape[: a.sparse_dim] + tuple(values.shape[1:])
        return create_coo(values, a.indices, shape, a.coalesced)
    return create_compressed(
        values, a.layout, a.compressed, a.plain, a.shape)


@implements("_nnz")
def _nnz(self: Tensor) -> int:
    """Return the number of stored values, per matrix for a batch."""
    array: Any = self._array
    return int(array.nnz)


@implements("sparse_dim", "_dimI")
def sparse_dim(self: Tensor) -> int:
    """Return the number of sparse axes."""
    array: Any = self._array
    return array.sparse_dim if isinstance(array, CooArray) else 2


@implements("dense_dim", "_dimV")
def dense_dim(self: Tensor) -> int:
    """Return the number of dense axes."""
    array: Any = self._array
    return array.values.ndim - 1 if isinstance(array, CooArray) else array.dense_dim


def _require_compressed(x: Tensor, name: str, by_row: bool) -> CompressedArray:
    array: Any = x._array
    if not isinstance(array, CompressedArray) or array.by_row is not by_row:
        raise RuntimeError(
            f"{name} expected sparse {'row' if by_row else 'column'} compressed tensor layout but "
            f"got {layout_name(x.layout)}"
        )
    return array


@implements("crow_indices")
def crow_indices(self: Tensor) -> Tensor:
    """Return where each row begins."""
    return wrap(_require_compressed(self, "crow_indices", True).compressed)


@implements("col_indices")
def col_indices(self: Tensor) -> Tensor:
    """Return the column of each value."""
    return wrap(_require_compressed(self, "col_indices", True).plain)


@implements("ccol_indices")
def ccol_indices(self: Tensor) -> Tensor:
    """Return where each column begins."""
    return wrap(_require_compressed(self, "ccol_indices", False).compressed)


@implements("row_indices")
def row_indices(self: Tensor) -> Tensor:
    """Return the row of each value."""
    return wrap(_require_compressed(self, "row_indices", False).plain)


# ------------------------------------------------------------------------------ other layouts


@sparse_operator(node="ToDenseBackward0", linear_in="input")
def _to_dense(input: Array, dtype: np.dtype | None, masked_grad: bool | None) -> Array:
    array = formats.to_dense(input)  # type: ignore[arg-type]
    return array if dtype is None else array.astype(dtype)


@_to_dense.vjp("input")
def _(g: Any, input: Any, masked_grad: Any) -> Any:
    array = input._array
    if masked_grad is not False:
        pattern = formats.coalesce(array) if isinstance(array, CooArray) else array
        return mask_by_pattern(g, pattern)
    sparse = array.sparse_dim if isinstance(array, CooArray) else None
    return convert(g, array.layout, sparse_dim=sparse, block=getattr(array, "block", None))


@implements("to_dense")
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """Convert to a dense tensor."""
    kind = None if dtype is None else as_dtype(dtype).numpy
    return _to_dense(self, kind, masked_grad)


_NODES = {"sparse_coo": "ToSparseBackward1", "sparse_csr": "ToSparseCsrBackward0",
          "sparse_csc": "ToSparseCscBackward0", "sparse_bsr": "ToSparseBsrBackward0",
          "sparse_bsc": "ToSparseBscBackward0"}


def _create_converter(form: layout) -> Any:
    @sparse_operator(node=_NODES[form.name], linear_in="input")
    def to_layout(input: Array, sparse_dim: Any, block: Any, dense_dim: Any) -> Array:
        if sparse_dim is not None and isinstance(input, np.ndarray):
            return formats.convert_dense_to_coo(input, sparse_dim)  # type: ignore[return-value]
        return formats.to_layout(input, form, block, dense_dim)

    @to_layout.vjp("input")
    def _(g: Any, input: Any) -> Any:
        source = input._array
        if isinstance(source, np.ndarray):
            return g.to_dense()
        if isinstance(source, CooArray):
            return g if g._array.__class__ is CooArray else convert(g, sparse_coo)
        return convert(g, source.layout, block=source.block if source.blocked else None)

    to_layout.operator.name = f"_to_{form.name}"
    RULES[to_layout.operator.name] = lambda input, *_: convert_on_meta(input, form)
    return to_layout


_CONVERTERS = {form: _create_converter(form) for form in (sparse_coo, *COMPRESSED)}


def convert(
    x: Tensor, form: layout, sparse_dim: int | None = None, block: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Convert a tensor to another layout, differentiably."""
    if form is strided:
        return x.to_dense()
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    array: Any = x._array
    if getattr(array, "layout", None) is form and (block is None or not array.blocked
                                                   or array.block == tuple(block)):
        return x
    return _CONVERTERS[form](x, sparse_dim, block, dense_dim)


def to_sparse(
    self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """A sparse tensor of the same elements: see `flambeau.ops.sparse.entry`."""
    if sparse_dim is not None:
        check_sparse_dim(self, sparse_dim)
        return convert(self, sparse_coo, sparse_dim=sparse_dim)
    form = sparse_coo if layout is None else layout
    check_conversion(self, form, blocksize, dense_dim)
    if self.layout is form:
        return self
    return convert(self, form, block=None if blocksize is None else tuple(blocksize),
                   dense_dim=dense_dim)


def _to_layout_method(form: layout) -> Any:
    blocked = COMPRESSED.get(form, (True, False))[1]

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args and blocked:
            size, args = args[0], args[1:]
            kwargs["blocksize"] = (size, size) if isinstance(size, int) else size
        if args:
            kwargs["dense_dim"] = args[0]
        return to_sparse(self, layout=form, **kwargs)

    return method


TO_LAYOUT = {f"to_{form.name}": _to_layout_method(form) for form in (sparse_coo, *COMPRESSED)}
implements("to_sparse")(to_sparse)
for _name, _function in TO_LAYOUT.items():
    implements(_name)(_function)


# ------------------------------------------------------------------------------ copies


@sparse_operator("clone", node="CloneBackward0", linear_in="input")
def clone(input: Array, *, memory_format: Any = None) -> Array:
    """Copy the indices and values."""
    return _copy(input, input.values.copy())  # type: ignore[attr-defined]


@clone.vjp("input")
def _(g: Any) -> Any:
    return g


def _copy(a: Any, new_values: np.ndarray) -> Any:
    if isinstance(a, CooArray):
        return CooArray(a.indices.copy(), new_values, a.shape, a.coalesced)
    return CompressedArray(
        a.layout, a.compressed.copy(), a.plain.copy(), new_values, a.shape)


@sparse_operator(node="ToCopyBackward0", linear_in="input")
def _to_copy(input: Array, dtype: Dtype | None, to_meta: bool) -> Array:
    if to_meta:
        return forget_places(input, dtype)  # type: ignore[arg-type]
    return _copy(input, input.values.astype(dtype))  # type: ignore[attr-defined]


@_to_copy.vjp("input")
def _(g: Any, input_dtype: Any) -> Any:
    return (g.real if g.is_complex() and not input_dtype.is_complex else g).to(input_dtype)


@implements("to")
def to(self: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """Cast to another dtype; a tensor that already has it is returned unchanged."""
    probe = _create_probe(self)
    if args and isinstance(args[0], Tensor):  # may be sparse: only its device and dtype matter
        args = (args[0].device, args[0].dtype, *args[1:])
    result = probe.to(*args, copy=copy, **kwargs)
    if result is probe:
        return self
    return _to_copy(self, result._array.dtype, result.is_meta)


def _create_probe(x: Tensor) -> Tensor:
    """Return a dense tensor without elements, of the dtype and on the device of `x`."""
    kind = x._array.dtype
    return wrap(meta_array((0,), kind) if x.is_meta else np.empty(0, kind))


@implements_each(select_functions(vars(Tensor), "half float double bfloat16 char short int long "
                                  "byte bool cfloat cdouble type_as"))
def cast_as(original: Callable, self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Cast to the dtype that the dense method casts to."""
    return to(self, original(_create_probe(self), *args, **kwargs).dtype)


@implements("cpu")
def cpu(self: Tensor, *args: Any, **named: Any) -> Tensor:
    """Return the tensor unchanged: it is on the CPU, or cannot get there."""
    if self.is_meta:
        raise NotImplementedError(NO_DATA)
    return self


@implements("contiguous", "pin_memory", "resolve_conj", "resolve_neg", "positive",
            "share_memory_")
def itself(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the tensor unchanged."""
    return self


@implements("type")
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Return the name of the tensor's legacy type, or convert the tensor to another."""
    array: Any = self._array
    if dtype is None and array.on_meta:
        raise RuntimeError(f"Unrecognized tensor type ID: {array.backend}")
    if dtype is None:
        probe: Any = wrap(np.empty(0, self._array.dtype))
        return probe.type().replace("torch.", "torch.sparse.")
    if isinstance(dtype, str):
        dtype = dtype.replace("torch.sparse.", "torch.")
    probe = wrap(np.empty(0, self._array.dtype))
    return to(self, probe.type(dtype).dtype)


@implements("detach")
def detach(self: Tensor) -> Tensor:
    """Return the same values, detached from the graph."""
    return self._alias()


def _check_compressed_copy(self: Tensor, src: Tensor) -> None:
    """Raise RuntimeError unless both tensors have the same compressed structure."""
    a: Any = self._array
    b: Any = src._array
    if not isinstance(a, CompressedArray):
        raise RuntimeError("copy_sparse_compressed_ expected sparse compressed tensor layout but "
                           f"got {layout_name(self.layout)}")
    message = "torch.copy_: copy of sparse compressed tensors having different"
    if self.layout is not src.layout:
        raise RuntimeError(f"{message} layouts is not supported. self layout is "
                           f"{layout_name(self.layout)} and src layout is "
                           f"{layout_name(src.layout)}")
    if a.plain.shape[-1] != b.plain.shape[-1]:
        raise RuntimeError("torch.copy_: only sparse compressed tensors with the same number of "
                           "specified elements are supported.")
    for dim in (a.batch_dim, a.batch_dim + 1):
        if a.shape != b.shape and (a.ndim != b.ndim or a.shape[dim] != b.shape[dim]):
            raise RuntimeError("torch.copy_: expected shapes of self and src to match along "
                               f"dimension {dim} for {layout_name(self.layout)} layout but the "
                               "corresponding dimensions of self and src are "
                               f"{a.shape[dim]} and {b.shape[dim]}, respectively.")
    if a.block != b.block:
        raise RuntimeError(f"{message} block sizes is not supported. self and src block sizes are "
                           f"{list(a.block)} and {list(b.block)}, respectively.")


@implements("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy the indices and values of another sparse tensor."""
    from .dispatch import write_over

    if any(isinstance(x._array, CompressedArray) for x in (self, src)):
        _check_compressed_copy(self, src)
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        kinds: list[Any] = [self.type(), src.type()]
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found "
                           f"self type = {kinds[0]} and src type = {kinds[1]}")
    if self is src:
        return self
    return write_over(self, clone(to(src, self.device, self.dtype)))
