"""Matrix products: matmul and its special cases, with broadcasting over batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.tape import record_binary
from ...autograd.unbroadcast import sum_to_shape
from ...native.target.eager_costs import MAX_COUNTED_ROW_ELEMENTS, MIN_PRODUCT_LHS_ELEMENTS
from ...tensor.dtypes import FLOATS, FROM_NUMPY, HALF, dtype as Dtype
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import build_missing_kernel_error, legacy_name
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch
from ..core.autocast import AUTOCAST, Policy
from ..core.errors import answer_failed
from ..core.operator import Array
from ..core.out_dtypes import check_out_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native.matmul import try_product
from ..native.rows import sum_of, multiply_by_vector
from ..quantized.integer_matmul import multiply_int8
from .matrix_checks import check_batches


def multiply_matrices(a: Array, b: Array) -> Array:
    """Return a @ b in the dtype of `a`. Half precision accumulates in float32."""
    if a.dtype != b.dtype:
        names = [legacy_name(FROM_NUMPY[x.dtype]).lower() for x in (a, b)]
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}"
        )
    if b.ndim == 2 < a.ndim and a.size > MIN_PRODUCT_LHS_ELEMENTS \
            and a.flags.c_contiguous:  # one large product
        return multiply_matrices(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if FROM_NUMPY[a.dtype] in HALF:
        if a.size > MIN_PRODUCT_LHS_ELEMENTS and (y := try_product(a, b)) is not None:
            return y
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    if a.dtype.kind == "b":
        raise build_missing_kernel_error("addmm_impl_cpu_", a.dtype)
    if a.size > MIN_PRODUCT_LHS_ELEMENTS and (y := try_product(a, b)) is not None:
        return y
    if a.size > MAX_COUNTED_ROW_ELEMENTS and (y := _multiply_vector(a, b)) is not None:
        return y
    return np.matmul(a, b)


def _multiply_vector(a: Array, b: Array) -> Array | None:
    """Return a large product with a vector, computed on all threads; None for other operands."""
    if a.ndim == 2 and b.ndim == 1 and a.shape[0] > 1:
        return multiply_by_vector(a, b)
    return _multiply_large_vectors(a, b) if a.size == b.size else None


def _multiply_large_vectors(a: Array, b: Array) -> Array | None:
    """Return the product of a large row and a column, or of two vectors, computed on all threads;
    None for other operands."""
    if a.size != a.shape[-1] or max(a.ndim, b.ndim) > 2 or a.dtype not in FLOATS \
            or a.__class__ is not np.ndarray or b.__class__ is not np.ndarray:
        return None
    y = sum_of(np.multiply, a.reshape(-1), b.reshape(-1))
    return None if y is None else np.full(a.shape[:-1] + b.shape[1:], y, a.dtype)


def _try_small_product(a: Array, b: Array) -> Array | None:
    """Return a @ b by NumPy's cheapest call, or None for other ranks and shapes that do not fit."""
    try:
        if 0 < a.ndim < 3 and 0 < b.ndim < 3:
            return np.asarray(a.dot(b))
        return np.matmul(a, b) if a.ndim == 3 == b.ndim else None
    except ValueError:  # shapes do not fit; reported elsewhere
        return None


def _check_inner(a: Array, b: Array) -> None:
    n = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.shape[-1] == n:
        return
    if a.ndim == 1 and b.ndim == 1:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to "
            "have the same number of elements, but got "
            f"{a.shape[0]} and {b.shape[0]} elements respectively"
        )
    if b.ndim == 1:
        rows = math.prod(a.shape[:-1])
        raise RuntimeError(f"size mismatch, got input ({rows}), mat ({_format_shape(a)}), vec "
                           f"({b.shape[0]})")
    raise RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({_format_shape(a)} and {_format_shape(b)})"
    )


def _format_shape(a: Array) -> str:
    if a.ndim <= 2:
        return "x".join(map(str, a.shape if a.ndim == 2 else (1, *a.shape)))
    rows = 1
    for n in a.shape[:-1]:
        rows *= n
    return f"{rows}x{a.shape[-1]}"


def _batches(rng: Rng) -> Iterator[Sample]:
    for a, b in (((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)),
                 ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,))):
        yield (rng.normal(size=a), rng.normal(size=b)), {}


_NODES = {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (2, 2): "MmBackward0",
          (1, 2): "SqueezeBackward4", (3, 3): "UnsafeViewBackward0"}  # (3, 3): all others


def _find_overload(input: Tensor, other: Tensor) -> tuple[int, int]:
    ranks = input._array.ndim, other._array.ndim
    return ranks if ranks in _NODES else (3, 3)


@opaque(extents_follow=True, autocast=Policy.LOWER, linear_in="input * other",
        node=_NODES, overload=_find_overload,
        ref=lambda a, b: np.einsum("...ij,...jk->...ik", a, b) if min(a.ndim, b.ndim) > 1
        else np.dot(a, b) if a.ndim > 1 or b.ndim == 1 else np.dot(b.swapaxes(-1, -2), a),
        samples=_batches, aliases=("linalg.matmul",))
def matmul(input: Array, other: Array) -> Array:
    """Compute the matrix product; vectors act as rows or columns, and batch axes broadcast.

    Args:
        input: The first factor, (m,) or (..., n, m).
        other: The second factor, (m,) or (..., m, p).

    >>> torch.tensor([[1., 2.], [3., 4.]]) @ torch.tensor([1., 1.])
    tensor([3., 7.])
    """
    small = input.size <= MIN_PRODUCT_LHS_ELEMENTS \
        and input.dtype is other.dtype and input.dtype in FLOATS
    if small and input.__class__ is Array and (y := _try_small_product(input, other)) is not None:
        return y
    if not input.ndim or not other.ndim:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and "
            f"{other.ndim}D"
        )
    _check_inner(input, other)
    if input.ndim > 2 and other.ndim == 2 and input.flags.c_contiguous and input.dtype.kind == "f":
        rows = math.prod(input.shape[:-1])
        y = multiply_matrices(input.reshape(rows, input.shape[-1]), other)  # one large product
        return y.reshape(*input.shape[:-1], other.shape[-1])
    return multiply_matrices(input, other)


@matmul.batch
def _(batch: Batch, input: Tensor, other: Tensor) -> Tensor:
    ranks = input.dim(), other.dim()
    if not batch.holds(other) and 0 < ranks[1] < 3:
        return matmul(batch.lower(input), batch.lower(other))
    rank = max(*ranks, 2)
    left, right = (batch.view(x, *[1] * (rank - max(n, 2))) if batch.holds(x) else batch.lower(x)
                   for x, n in zip((input, other), ranks, strict=True))
    if ranks[0] == 1:
        left = left.unsqueeze(-2)
    if ranks[1] == 1:
        right = right.unsqueeze(-1)
    y = matmul(left, right)
    if ranks[1] == 1:
        y = y.squeeze(-1)
    return y.squeeze(-1 if ranks[1] == 1 else -2) if ranks[0] == 1 else y


@matmul.vjp("input")
def _(g: Tensor, other: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    if len(input_shape) == 1:
        if other.dim() == 1:
            return g * other
        if g.dim() == 1:
            return other @ g
        y = (g.unsqueeze(-2) @ other.transpose(-2, -1)).squeeze(-2)
        return sum_to_shape(y, input_shape)
    if other.dim() == 1:
        return sum_to_shape(g.unsqueeze(-1) * other, input_shape)
    return sum_to_shape(g @ other.transpose(-2, -1), input_shape)


@matmul.vjp("other")
def _(g: Tensor, input: Tensor, other_shape: tuple[int, ...]) -> Tensor:
    if len(other_shape) == 1:
        if input.dim() == 1:
            return g * input
        if g.dim() == 1:
            return input.t() @ g
        y = input.transpose(-2, -1) @ g.unsqueeze(-1)
        return sum_to_shape(y.squeeze(-1), other_shape)
    if input.dim() == 1:
        return sum_to_shape(input.unsqueeze(-1) * g.unsqueeze(-2), other_shape)
    if len(other_shape) == 2 and input.dim() > 2:  # one product over the rows of all batches
        return input.flatten(0, -2).t() @ g.flatten(0, -2)
    return sum_to_shape(input.transpose(-2, -1) @ g, other_shape)


@composite()
def mm(
    input: Tensor, mat2: Tensor, *, out_dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Compute the product of two matrices.

    (n, m) and (m, p) give (n, p), without broadcasting (see `matmul`). Raises RuntimeError if the
    shapes do not fit.

    Args:
        input: The first matrix, (n, m).

    >>> torch.mm(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1], [10]]))
    tensor([[21],
            [43]])
    """
    try:
        ranks = input._array.ndim, mat2._array.ndim
    except AttributeError as error:
        return answer_failed(error, "mm", mm, (input, mat2))
    if ranks != (2, 2):
        raise RuntimeError(f"{'self' if ranks[0] != 2 else 'mat2'} must be a matrix")
    return matmul(input, mat2, out=out)


@composite(node="BmmBackward0")
def bmm(
    input: Tensor, mat2: Tensor, *, out_dtype: Dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """Compute the products of two batches of matrices.

    (b, n, m) and (b, m, p) give (b, n, p), without broadcasting. Raises RuntimeError if the shapes
    do not fit.

    Args:
        input: The first matrices, (b, n, m).
        mat2: The second matrices, (b, m, p).

    >>> torch.bmm(torch.ones(3, 2, 4), torch.ones(3, 4, 5)).shape
    torch.Size([3, 2, 5])
    """
    try:
        a, b = input._array.shape, mat2._array.shape
    except AttributeError as error:
        return answer_failed(error, "bmm", bmm, (input, mat2))
    if len(a) != 3 or len(b) != 3:
        raise RuntimeError(f"batch{1 if len(a) != 3 else 2} must be a 3D tensor")
    check_batches(a, b)
    refuse_eight_bit(input._array, "bmm")
    return matmul(input, mat2, out=out)


@composite(autocast=Policy.AS_IS)
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the product of a matrix and a vector.

    Args:
        input: The matrix, (n, m).

    >>> torch.mv(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 10]))
    tensor([21, 43])
    """
    if input._array.ndim != 2 or vec._array.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got 1, {input._array.ndim}, {vec._array.ndim}"
        )
    return matmul(input, vec, out=out)


@composite(autocast=Policy.AS_IS)
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the dot product of two vectors.

    Raises RuntimeError unless both are vectors of the same length and dtype.

    Args:
        input: The first vector, (n,).

    >>> torch.dot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)
    """
    if input._array.ndim != 1 or tensor._array.ndim != 1:
        raise RuntimeError(
            f"1D tensors expected, but got {input._array.ndim}D and {tensor._array.ndim}D tensors"
        )
    refuse_eight_bit(input._array, "dot")
    if input._array.dtype != tensor._array.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{legacy_name(input.dtype)} and {legacy_name(tensor.dtype)}"
        )
    if out is not None:
        check_out_dtype("dot", input.dtype, out.dtype)
    return matmul(input, tensor, out=out)


def _run_matmul_operator(self: Tensor, other: Tensor) -> Tensor:
    try:
        a, b = self._array, other._array
        kind = a.dtype
        if AUTOCAST.count or not (
            (a.ndim == 2 == b.ndim
             or a.size <= MIN_PRODUCT_LHS_ELEMENTS and 0 < a.ndim < 3 and 0 < b.ndim < 3)
            and kind is b.dtype and kind in FLOATS
        ):
            return matmul(self, other)
        if a.size <= MIN_PRODUCT_LHS_ELEMENTS or (y := try_product(a, b)) is None:
            y = a.dot(b)  # half of np.matmul's overhead
    except AttributeError:
        return NotImplemented
    except (ValueError, RuntimeWarning, MemoryError):
        return matmul(self, other)  # reports what does not fit
    result = wrap(y)
    if self._tracked or other._tracked:
        record_binary(matmul.operator, result, self, other)
    return result


def _reflect_matmul(self: Tensor, other: Tensor) -> Tensor:
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


_methods: Any = Tensor
_methods.__matmul__, _methods.__rmatmul__ = _run_matmul_operator, _reflect_matmul


@composite(expose=("torch",), explains=True)
def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Multiply two int8 or uint8 matrices, with an int32 result.

    >>> torch._int_mm(torch.full((1, 2), 100, dtype=torch.int8), torch.ones(2, 1, dtype=torch.int8))
    tensor([[200]], dtype=torch.int32)
    """
    for name, x in (("self", input), ("mat2", mat2)):
        if x._array.ndim != 2:
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got "
                               f"{x._array.ndim}")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got "
            f"{input.shape[1]} and {mat2.shape[0]}"
        )
    for name, x in (("self", input), ("mat2", mat2)):
        if x._array.dtype not in (np.int8, np.uint8):
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} dtype to be int8 or uint8 but got "
                               f"{legacy_name(x.dtype).lower()}")
    a, b = input._array, mat2._array
    if out is None and a.__class__ is b.__class__ is np.ndarray and a.dtype == b.dtype == np.int8:
        return wrap(multiply_int8(np.ascontiguousarray(a), b))
    return matmul(input.int(), mat2.int(), out=out)
