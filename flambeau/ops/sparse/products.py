"""Matrix products with sparse operands, computed by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.tangents import skip_missing, sum_terms
from ...tensor.layout import sparse_coo, sparse_csr, strided
from ...tensor.sparse import CompressedArray, CooArray, SparseTensor, layout_name, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array, Number
from ..linalg.matrix_checks import check_product
from . import formats
from .dispatch import implements, is_sparse_array, refuse, register_in_place, sparse_operator
from .masked_arrays import apply_mask
from .masking import mask_by_pattern


def to_scipy(a: Any) -> Any:
    """Return the matrix as SciPy CSR, in a dtype that SciPy multiplies."""
    import scipy.sparse

    values = a.values
    if values.dtype.kind in "V" or values.dtype == np.float16:
        values = values.astype(np.float32)
    if isinstance(a, CompressedArray) and not a.blocked and not a.batch_dim:
        kind = scipy.sparse.csr_array if a.by_row else scipy.sparse.csc_array
        return kind((values, a.plain, a.compressed), shape=a.shape)
    a = formats.to_coo(a)
    if a.values is not values and values.shape != a.values.shape:
        values = a.values
    return scipy.sparse.coo_array((values, tuple(a.indices)), shape=a.shape).tocsr()


def convert_from_scipy(matrix: Any, like: Any, kind: np.dtype) -> Any:
    """Convert a SciPy matrix to the layout of an operand."""
    matrix = matrix.tocsr()
    matrix.sort_indices()
    form = like.layout
    result = CompressedArray(
        sparse_csr, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64),
        matrix.data.astype(kind, copy=False), matrix.shape,
    )
    if form is sparse_coo:
        return formats.convert_compressed_to_coo(result)
    block = like.block if like.blocked else None
    result = formats.to_layout(result, form, block)
    result.compressed = result.compressed.astype(like.compressed.dtype, copy=False)
    result.plain = result.plain.astype(like.plain.dtype, copy=False)
    return result


def _widen(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) if a.dtype.kind == "V" or a.dtype == np.float16 else a


def multiply(a: Any, b: Any) -> Any:
    """Multiply two matrices, at least one of them sparse; the result is sparse if both are."""
    if is_sparse_array(a) and is_sparse_array(b):
        y = convert_from_scipy(to_scipy(a) @ to_scipy(b), a, a.dtype)
        by_rows = isinstance(a, CooArray) or isinstance(b, CooArray) or y.blocked or y.by_row
        return y if by_rows else formats.to_layout(y, sparse_csr, None)
    if _is_batch(a) or _is_batch(b):
        return _multiply_batches(a, b)
    if is_sparse_array(a):
        if isinstance(a, CooArray) and a.sparse_dim == 1:
            return (_widen(formats.convert_coo_to_dense(a)) @ _widen(b)).astype(a.dtype)
        return np.ascontiguousarray(to_scipy(a) @ _widen(b)).astype(a.dtype, copy=False)
    result = (to_scipy(b).T @ _widen(a).swapaxes(-1, -2)).swapaxes(-1, -2) if a.ndim > 1 \
        else to_scipy(b).T @ _widen(a)
    return np.ascontiguousarray(result).astype(b.dtype, copy=False)


def _is_batch(a: Any) -> bool:
    return is_sparse_array(a) and a.ndim > 2


def _multiply_batches(a: Any, b: Any) -> np.ndarray:
    """Multiply batches of matrices after converting them to dense."""
    x = formats.to_dense(a) if is_sparse_array(a) else a
    y = formats.to_dense(b) if is_sparse_array(b) else b
    return np.matmul(_widen(x), _widen(y)).astype(x.dtype, copy=False)


def _check_product(name: str, a: Tensor, b: Tensor) -> None:
    for label, x in (("mat1", a), ("mat2", b)):
        if isinstance(x._array, CooArray) and x.sparse_dim() != x.dim():
            raise RuntimeError(f"addmm: matrices expected, got {x.sparse_dim()}D tensor")
        if x.dim() != 2:
            raise RuntimeError(f"{label} must be a matrix, got {x.dim()}-D tensor"
                               if x.layout is strided
                               else f"{name}: Matrices expected, got {x.dim()}D tensor")
    check_product(a.shape, b.shape)
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected scalar type {_name_scalar_type(a)} but found {_name_scalar_type(b)}"
            if layout_name(a.layout) != "Sparse" else
            f"{name}: expected 'mat1' and 'mat2' to have the same dtype, but got "
            f"{_name_scalar_type(a)} and {_name_scalar_type(b)}")


def _name_scalar_type(x: Tensor) -> str:
    return {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int",
            "float16": "Half", "bfloat16": "BFloat16"}.get(x.dtype.name, x.dtype.name)


# ------------------------------------------------------------------------------ dense result


@sparse_operator(node="MmBackward0", linear_in="input * mat2")
def _mm(input: Array, mat2: Array) -> Array:
    return multiply(input, mat2)


@_mm.vjp("input")
def _(g: Any, mat2: Any) -> Any:
    return g @ mat2.transpose(-1, -2)


@_mm.vjp("mat2")
def _(g: Any, input: Any) -> Any:
    return input.transpose(-1, -2) @ g


@sparse_operator(node="SparseSparseMatmulBackward0", linear_in="input * mat2")
def _sparse_sparse(input: Array, mat2: Array) -> Array:
    return multiply(input, mat2)


@_sparse_sparse.vjp("input")
def _(g: Any, input: Any, mat2: Any) -> Any:
    return _restrict_gradient(g @ mat2.t(), input)


@_sparse_sparse.vjp("mat2")
def _(g: Any, input: Any, mat2: Any) -> Any:
    return _restrict_gradient(input.t() @ g, mat2)


def _restrict_gradient(g: Tensor, x: Tensor) -> Tensor:
    """Restrict a gradient to the coordinates of its operand; dense operands keep all of it."""
    pattern: Any = x._array
    if not is_sparse_array(pattern):
        return g
    pattern = formats.coalesce(pattern) if isinstance(pattern, CooArray) else pattern
    return mask_by_pattern(g, pattern)


@implements("mm")
def mm(input: Tensor, mat2: Tensor, *, out_dtype: Any = None, out: Any = None) -> Tensor:
    """Multiply two matrices; the result is sparse if both are."""
    _check_product("addmm", input, mat2)
    return _mm(input, mat2, out=out)


@sparse_operator(node="MvBackward0", linear_in="input * vec")
def _mv(input: Array, vec: Array) -> Array:
    return multiply(input, vec)


@_mv.vjp("input")
def _(g: Any, vec: Any) -> Any:
    return g.ger(vec)


@_mv.vjp("vec")
def _(g: Any, input: Any) -> Any:
    return input.t().mv(g)


@implements("mv")
def mv(input: Tensor, vec: Tensor, *, out: Any = None) -> Tensor:
    """Multiply a matrix by a vector."""
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {vec.dim()}, {input.dim()}, {vec.dim()}")
    if input.shape[1] != vec.shape[0]:
        rows, columns = input.shape
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({rows}x{columns}), vec ({vec.shape[0]})")
    vec = vec.to_dense() if isinstance(vec, SparseTensor) else vec
    return _mv(input, vec, out=out)


@implements("addmv")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """Return beta * input + alpha * (mat @ vec)."""
    product = mv(mat, vec) * alpha
    result = product if beta == 0 else product + input * beta
    return result if out is None else out.copy_(result)


@implements("bmm")
def bmm(input: Tensor, mat2: Tensor, *, out_dtype: Any = None, out: Any = None) -> Tensor:
    """Multiply batches of matrices."""
    if input.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError("bmm_sparse: Tensor 'self' must have 3 dimensions")
    if input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError("bmm_sparse: 'self' and 'mat2' do not match: "
                           f"{list(input.shape)} and {list(mat2.shape)}")
    return _mm(input, mat2, out=out)


@implements("matmul", "__matmul__")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Multiply vectors, matrices or batches, according to the operands' ranks."""
    ranks = input.dim(), other.dim()
    if ranks == (2, 2):
        return mm(input, other, out=out)
    if ranks == (2, 1):
        return mv(input, other, out=out)
    if ranks == (1, 2):
        return mv(other.transpose(0, 1), input, out=out)
    if ranks == (3, 3):
        return bmm(input, other, out=out)
    if ranks == (1, 1):
        refuse("dot", (input, other))
    if isinstance(input._array, CompressedArray) or isinstance(other._array, CompressedArray):
        return _mm(input, other, out=out)
    return refuse("as_strided", (input, other))


@implements("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input @ weight.T + bias, for a sparse weight."""
    result = matmul(input, weight.t())
    return result if bias is None else result + bias


@implements("__rmatmul__")
def rmatmul(self: Tensor, other: Tensor) -> Tensor:
    """Return other @ self."""
    return matmul(other, self)


# ------------------------------------------------------------------------------ addmm


def _addmm(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    result = multiply(mat1, mat2)
    if is_sparse_array(result):
        raise RuntimeError("addmm: the product of two sparse matrices is no dense matrix")
    result = (
        result if alpha == 1 else (result * np.asarray(alpha, result.dtype)).astype(result.dtype)
    )
    if beta == 0:
        return np.broadcast_to(result, np.broadcast_shapes(result.shape, input.shape)).copy()
    return result + (input if beta == 1 else (input * np.asarray(beta, input.dtype)))


@sparse_operator(node="AddmmBackward0")
def _addmm_dense(
    input: Array, mat1: Array, mat2: Array, beta: Number | Tensor, alpha: Number | Tensor
) -> Array:
    return _addmm(input, mat1, mat2, beta, alpha)


@_addmm_dense.vjp("mat1")
def _(g: Any, mat2: Any, alpha: Any) -> Any:
    return _scale(g @ mat2.t(), alpha)


@sparse_operator(node="SparseAddmmBackward0")
def _sparse_addmm(
    input: Array, mat1: Array, mat2: Array, beta: Number | Tensor, alpha: Number | Tensor
) -> Array:
    return _addmm(input, mat1, mat2, beta, alpha)


@_sparse_addmm.vjp("mat1")
def _(g: Any, mat1: Any, mat2: Any, alpha: Any) -> Any:
    return _restrict_gradient(_scale(g @ mat2.t(), alpha), mat1)


def _scale(x: Tensor, number: Any) -> Tensor:
    return x if number == 1 else x * number


for _operator in (_addmm_dense, _sparse_addmm):

    @_operator.vjp("input")
    def _(g: Any, beta: Any, input_shape: Any) -> Any:
        return _scale(g, beta).sum_to_size(input_shape)

    @_operator.vjp("mat2")
    def _(g: Any, mat1: Any, alpha: Any) -> Any:
        return _scale(mat1.t() @ g, alpha)

    @_operator.jvp
    def _(
        input_t: Any, mat1_t: Any, mat2_t: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any
    ) -> Any:
        product = sum_terms(skip_missing(lambda t: mm(t, mat2), mat1_t),
                            skip_missing(lambda t: mm(mat1, t), mat2_t))
        total: Any = sum_terms(skip_missing(lambda t: _scale(t, beta), input_t),
                               skip_missing(lambda t: _scale(t, alpha), product))
        return total.expand(mat1.shape[0], mat2.shape[1])


@implements("addmm")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2)."""
    _check_product("addmm", mat1, mat2)
    if isinstance(input, SparseTensor):
        if isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor):
            return input * beta + mm(mat1, mat2) * alpha
        if isinstance(input._array, CooArray):
            raise RuntimeError("addmm: Expected self to be a dense tensor, but got a sparse one")
        input = input.to_dense()
    if isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor):
        result = input * beta + (mm(mat1, mat2) * alpha).to_dense()
        return result if out is None else out.copy_(result)
    return _addmm_dense(input, mat1, mat2, beta, alpha, out=out)


register_in_place("addmm")


def sparse_addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0
) -> Tensor:
    """`addmm` whose gradient with respect to a sparse `mat1` keeps its sparsity pattern."""
    _check_product("addmm", mat1, mat2)
    return _sparse_addmm(mat, mat1, mat2, beta, alpha)


def sparse_mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """`mm` whose gradient with respect to a sparse operand keeps its sparsity pattern."""
    if isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor):
        _check_product("mm", mat1, mat2)
        return _sparse_sparse(mat1, mat2)
    if not isinstance(mat1, SparseTensor):
        turned = sparse_mm(mat2.transpose(0, 1), mat1.transpose(0, 1))
        return turned.transpose(0, 1)
    _check_product("addmm", mat1, mat2)
    zero = wrap(np.zeros((mat1.shape[0], mat2.shape[1]), mat1._array.dtype))
    return _sparse_addmm(zero, mat1, mat2, 0, 1)


# ------------------------------------------------------------------------------ sparse result


def _as_coo(matrix: np.ndarray, rows: np.ndarray) -> CooArray:
    indices = np.stack([
        np.repeat(rows, matrix.shape[1]), np.tile(np.arange(matrix.shape[1]), rows.size)])
    return CooArray(indices, matrix[rows].reshape(-1), matrix.shape)


@implements("sspaddmm")
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """Return sparse beta * input + alpha * (mat1 @ mat2), for sparse `input` and `mat1`."""
    _check_product("sspaddmm", mat1, mat2)
    a: Any = mat1._array
    full = multiply(a, mat2._array)
    result = wrap_sparse(_as_coo(full, np.unique(a.indices[0])))
    result = input * beta + result * alpha
    return result if out is None else out.copy_(result)


@implements("smm")
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """Return the product of a sparse and a dense matrix as a sparse matrix."""
    from .empty import allocate_coo

    zero = wrap_sparse(allocate_coo((input.shape[0], mat.shape[1]), input._array.dtype))
    return sspaddmm(zero, input, mat)


@implements("hspmm")
def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """Multiply a sparse by a dense matrix; the result has sparse rows and dense columns."""
    _check_product("hspmm", mat1, mat2)
    if mat1.is_meta:
        refuse("hspmm", (mat1,))
    a: Any = mat1._array
    rows = np.unique(a.indices[0])
    full = multiply(a, mat2._array)
    result = wrap_sparse(CooArray(rows[None], full[rows], full.shape))
    return result if out is None else out.copy_(result)


@sparse_operator(node="SparseSampledAddmmBackward0")
def _sampled(
    input: Array, mat1: Array, mat2: Array, beta: Number | Tensor, alpha: Number | Tensor
) -> Array:
    a: Any = input
    sampled = apply_mask(mat1 @ mat2, a)
    return a.like((a.values * beta + sampled.values * alpha).astype(a.dtype))


@_sampled.vjp
def _(g: Any, input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    sampled = g.sparse_mask(input)
    return (_scale(g, beta), _scale(sampled @ mat2.transpose(-1, -2), alpha),
            _scale(mat1.transpose(-1, -2) @ sampled, alpha))


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Tensor:
    """Return alpha * (mat1 @ mat2) at the positions of `input`, plus beta * input."""
    if not isinstance(input, SparseTensor) or input.layout is not sparse_csr:
        raise RuntimeError(
            "Expected self to have sparse csr layout, but got " + str(input.layout).removeprefix(
                "torch.").capitalize())
    check_product(mat1.shape, mat2.shape)
    if input.shape[-2:] != (mat1.shape[-2], mat2.shape[-1]):
        raise RuntimeError("self.shape[-2] must match mat1.shape[-2]"
                           if input.shape[-2] != mat1.shape[-2]
                           else "self.shape[-1] must match mat2.shape[-1]")
    return _sampled(input, mat1, mat2, beta, alpha, out=out)
