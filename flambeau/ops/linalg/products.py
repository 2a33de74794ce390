"""Products added to tensors (addmm and variants), products of vectors, tensordot, kron."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...autograd.unbroadcast import sum_to_shape
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import legacy_name, result_dtype
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.arguments.legacy_order import in_order
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim
from ..core.inplace import assign
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.out_dtypes import check_out_dtype
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, writes_by_operators
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import convert_scalar
from .declarations import linalg_function
from .matmul import dot, matmul, multiply_matrices
from .matrix_checks import check_batches, check_product, get_kind_name


def _check_expandable(input: Array, shape: Sequence[int]) -> None:
    """Raise RuntimeError unless `input` can be expanded to `shape`."""
    new = len(shape) - input.ndim
    if new < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({input.ndim})"
        )
    for i, (have, want) in enumerate(zip(input.shape, shape[new:], strict=True)):
        if have not in (1, want):
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) must match the existing size ({have}) "
                f"at non-singleton dimension {i + new}.  Target sizes: {list(shape)}.  Tensor "
                f"sizes: {list(input.shape)}"
            )


def _check_factors(kind: np.dtype, **factors: Any) -> None:
    for name, value in factors.items():
        if isinstance(value, bool) and kind.kind != "b":
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if kind.kind in "biu" and isinstance(value, (float, complex)):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
        if isinstance(value, complex):
            convert_scalar(value, kind)  # RuntimeError for a real result


def _add_scaled(y: Array, input: Array, beta: Any, alpha: Any) -> Array:
    """Return beta * input + alpha * y, written over y if y owns its memory."""
    kind = y.dtype
    if kind.kind in "biu":  # truncates, as in C
        beta, alpha = (convert_scalar(v, kind).item() for v in (beta, alpha))
    if not y.ndim:
        y = np.asarray(y)
    if alpha != 1:
        y = np.multiply(y, convert_scalar(alpha, kind))
    if beta == 0:
        return y
    if beta == 1:
        return np.add(y, input)
    return np.add(y, np.multiply(input, convert_scalar(beta, kind)))


def _check_same_kinds(input: Array, *others: tuple[Array, str]) -> None:
    for other, name in others:
        if other.dtype != input.dtype:
            raise RuntimeError(f"self and {name} must have the same dtype, but got "
                               f"{get_kind_name(input)} and {get_kind_name(other)}")


def _matrix_sums(rng: Rng) -> Iterator[Sample]:
    for shape in ((2, 4), (4,), (2, 1), ()):
        yield (rng.normal(size=shape), rng.normal(size=(2, 3)), rng.normal(size=(3, 4))), {}
    yield (rng.normal(size=(2, 4)), rng.normal(size=(2, 3)), rng.normal(size=(3, 4))), {
        "beta": 0.5, "alpha": 2.0}


@opaque(extents_follow=True, autocast=Policy.LOWER, layout=Layout.FREE,
        samples=_matrix_sums, inplace=True, ref=lambda x, a, b, beta=1, alpha=1: beta * x
        + alpha * np.einsum("ij,jk", a, b))
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """Compute beta * input + alpha * (mat1 @ mat2).

    >>> torch.addmm(torch.ones(1, 1), torch.ones(1, 2), torch.ones(2, 1))
    tensor([[3.]])
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"mat1 must be a matrix, got {mat1.ndim}-D tensor" if mat1.ndim != 2
                           else f"mat2 must be a matrix, got {mat2.ndim}-D tensor")
    _check_same_kinds(input, (mat1, "mat1"), (mat2, "mat2"))
    check_product(mat1.shape, mat2.shape)
    _check_expandable(input, (mat1.shape[0], mat2.shape[1]))
    return _add_scaled(multiply_matrices(mat1, mat2), input, beta, alpha)


@addmm.batch
def _(
    batch: Batch, input: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number
) -> Tensor:
    if mat1.dim() != 2 or mat2.dim() != 2:
        return NotImplemented
    x, a, b = map(batch.plain, (input, mat1, mat2))
    y = _scale(a @ b, alpha)
    return batch.expand(y if beta == 0 else _scale(x, beta) + y)


def _scale(g: Tensor, factor: Any) -> Tensor:
    return g if factor == 1 else g * factor


def _push_sum(
    operator: Any, input_t: Tensor | None, pairs: list[tuple[Tensor | None, Tensor | None]],
    factors: tuple[Any, Any], shape: tuple[int, ...],
) -> Tensor | None:
    """Return beta * input_t + alpha * the sum of the pairs' products, skipping missing tangents."""
    beta, alpha = factors
    total = None if input_t is None else _scale(input_t, beta).expand(shape)
    for a, b in pairs:
        if a is not None and b is not None:
            total = _scale(matmul(a, b), alpha) if total is None \
                else operator(total, a, b, alpha=alpha)
    return total


@addmm.jvp
def _(
    input_t: Tensor | None, mat1_t: Tensor | None, mat2_t: Tensor | None, y: Tensor, mat1: Tensor,
    mat2: Tensor, beta: Number, alpha: Number
) -> Tensor | None:
    return _push_sum(addmm, input_t, [(mat1_t, mat2), (mat1, mat2_t)], (beta, alpha), y.shape)


@addmm.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], beta: Number) -> Tensor:
    return sum_to_shape(_scale(g, beta), input_shape)


@addmm.vjp("mat1")
def _(g: Tensor, mat2: Tensor, alpha: Number) -> Tensor:
    return _scale(matmul(g, mat2.t()), alpha)


@addmm.vjp("mat2")
def _(g: Tensor, mat1: Tensor, alpha: Number) -> Tensor:
    return _scale(matmul(mat1.t(), g), alpha)


def _vector_sums(rng: Rng) -> Iterator[Sample]:
    for shape in ((2,), (1,), ()):
        yield (rng.normal(size=shape), rng.normal(size=(2, 3)), rng.normal(size=3)), {"alpha": 2.0}


@opaque(layout=Layout.FREE, samples=_vector_sums, inplace=True,
        ref=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.einsum("ij,j", a, b))
def addmv(input: Array, mat: Array, vec: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """Compute beta * input + alpha * (mat @ vec).

    >>> torch.addmv(torch.ones(1), torch.ones(1, 2), torch.ones(2))
    tensor([3.])
    """
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}"
        )
    if mat.shape[1] != vec.shape[0] or input.shape not in ((), (1,), (mat.shape[0],)):
        size = input.shape[0] if input.ndim else 1
        raise RuntimeError(f"size mismatch, got input ({size}), mat "
                           f"({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})")
    _check_same_kinds(input, (mat, "mat"), (vec, "vec"))
    return _add_scaled(multiply_matrices(mat, vec), input, beta, alpha)


@addmv.jvp
def _(
    input_t: Tensor | None, mat_t: Tensor | None, vec_t: Tensor | None, y: Tensor, mat: Tensor,
    vec: Tensor, beta: Number, alpha: Number
) -> Tensor | None:
    return _push_sum(addmv, input_t, [(mat_t, vec), (mat, vec_t)], (beta, alpha), y.shape)


@addmv.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], beta: Number) -> Tensor:
    return sum_to_shape(_scale(g, beta), input_shape)


@addmv.vjp("mat")
def _(g: Tensor, vec: Tensor, alpha: Number) -> Tensor:
    return _scale(g.unsqueeze(-1) * vec, alpha)


@addmv.vjp("vec")
def _(g: Tensor, mat: Tensor, alpha: Number) -> Tensor:
    return _scale(matmul(mat.t(), g), alpha)


def _batch_sums(rng: Rng) -> Iterator[Sample]:
    for shape in ((2, 2, 4), (2, 4), (4,)):
        yield (rng.normal(size=shape), rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 3, 4))), {
            "beta": 2.0}


@opaque(extents_follow=True,
        autocast=Policy.LOWER, layout=Layout.FREE, samples=_batch_sums, inplace=True,
        ref=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.einsum("bij,bjk->bik", a, b))
def baddbmm(
    input: Array, batch1: Array, batch2: Array, *, beta: Number = 1, alpha: Number = 1
) -> Array:
    """Compute beta * input + alpha * bmm(batch1, batch2).

    `batch1` (b, n, m) and `batch2` (b, m, p) give (b, n, p), to which `input` broadcasts. With
    beta=0 `input` is not read.

    >>> torch.baddbmm(torch.zeros(()), torch.ones(2, 1, 3), torch.ones(2, 3, 1), alpha=2).flatten()
    tensor([6., 6.])
    """
    _check_batches(batch1, batch2)
    check_batches(batch1.shape, batch2.shape)
    if not input.dtype == batch1.dtype == batch2.dtype:
        kinds = [legacy_name(FROM_NUMPY[x.dtype]) for x in (input, batch1, batch2)]
        raise RuntimeError("Input dtypes must be the same, got: input "
                           f"{kinds[0]}, batch1: {kinds[1]}, batch2: {kinds[2]}")
    _check_expandable(input, (*batch1.shape[:2], batch2.shape[2]))
    return _add_scaled(multiply_matrices(batch1, batch2), input, beta, alpha)


def _check_batches(batch1: Array, batch2: Array) -> None:
    for name, batch in (("batch1", batch1), ("batch2", batch2)):
        if batch.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")


@baddbmm.jvp
def _(
    input_t: Tensor | None, batch1_t: Tensor | None, batch2_t: Tensor | None, y: Tensor,
    batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number
) -> Tensor | None:
    pairs = [(batch1_t, batch2), (batch1, batch2_t)]
    return _push_sum(baddbmm, input_t, pairs, (beta, alpha), y.shape)


@baddbmm.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], beta: Number) -> Tensor:
    return sum_to_shape(_scale(g, beta), input_shape)


@baddbmm.vjp("batch1")
def _(g: Tensor, batch2: Tensor, alpha: Number) -> Tensor:
    return _scale(matmul(g, batch2.transpose(1, 2)), alpha)


@baddbmm.vjp("batch2")
def _(g: Tensor, batch1: Tensor, alpha: Number) -> Tensor:
    return _scale(matmul(batch1.transpose(1, 2), g), alpha)


@composite(autocast=Policy.LOWER, node="AddbmmBackward0")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: Number = 1, alpha: Number = 1,
    out: Tensor | None = None
) -> Tensor:
    """Compute beta * input + alpha * the sum of bmm(batch1, batch2) over the batch.

    `batch1` (b, n, m), `batch2` (b, m, p), and `input` broadcastable to the result (n, p).

    >>> torch.addbmm(torch.zeros(()), torch.ones(3, 2, 4), torch.ones(3, 4, 1))
    tensor([[12.],
            [12.]])
    """
    if old:
        options = {"beta": beta, "alpha": alpha, "out": out}
        return in_order(addbmm, "addbmm", (input, batch1, batch2, *old), options)
    a, b = batch1._array, batch2._array
    _check_batches(a, b)
    if a.shape[0] != b.shape[0]:
        raise RuntimeError("batch1 and batch2 must have same number of batches, got "
                           f"{a.shape[0]} and {b.shape[0]}")
    if a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({a.shape[1]}x{a.shape[2]} and "
            f"{b.shape[1]}x{b.shape[2]})"
        )
    _check_expandable(input._array, (a.shape[1], b.shape[2]))
    # A single product: the batch becomes one more axis to sum over.
    rows = batch1.transpose(0, 1).reshape(a.shape[1], -1) if a.size else \
        batch1.new_zeros(a.shape[1], a.shape[0] * a.shape[2])
    columns = batch2.reshape(a.shape[0] * a.shape[2], b.shape[2])
    return addmm(input, rows, columns, beta=beta, alpha=alpha, out=out)


@writes_by_operators
@composite(expose=("Tensor",))
def addbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """`addbmm` in place."""
    if old:
        options = {"beta": beta, "alpha": alpha}
        return in_order(addbmm_, "addbmm_", (self, batch1, batch2, *old), options)
    return assign(self, addbmm(self, batch1, batch2, beta=beta, alpha=alpha), "addbmm_")


@composite(explains=True, node="AddrBackward0")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *old: Any, beta: Number = 1, alpha: Number = 1,
    out: Tensor | None = None
) -> Tensor:
    """Compute beta * input + alpha * outer(vec1, vec2).

    >>> torch.addr(torch.zeros(1, 2), torch.ones(1), torch.ones(2))
    tensor([[1., 1.]])
    """
    if old:
        options = {"beta": beta, "alpha": alpha, "out": out}
        return in_order(addr, "addr", (input, vec1, vec2, *old), options)
    for name, v in (("vec1", vec1), ("vec2", vec2)):
        if v._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {v._array.ndim}-D")
    _check_expandable(input._array, (vec1.shape[0], vec2.shape[0]))
    y = outer(vec1, vec2)
    kind = result_dtype((y, input)).numpy
    _check_factors(kind, beta=beta, alpha=alpha)
    if kind.kind == "b":
        y = y if alpha else y & False
        y = (input | y) if beta else y
    else:
        y = _scale(y, alpha)
        y = (_scale(input, beta) + y) if beta != 0 else y
    if y.shape != (vec1.shape[0], vec2.shape[0]):
        y = y.expand(vec1.shape[0], vec2.shape[0])
    return y if out is None else write_result("addr", y, out)


@writes_by_operators
@composite(expose=("Tensor",))
def addr_(
    self: Tensor, vec1: Tensor, vec2: Tensor, *old: Any, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """`addr` in place."""
    if old:
        options = {"beta": beta, "alpha": alpha}
        return in_order(addr_, "addr_", (self, vec1, vec2, *old), options)
    return assign(self, addr(self, vec1, vec2, beta=beta, alpha=alpha), "addr_")


# --------------------------------------------------------------------------------- vectors


@composite(autocast=Policy.AS_IS, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the outer product of two vectors.

    Args:
        input: The first vector, (n,).

    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    for name, v in (("self", input), ("vec2", vec2)):
        if v._array.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {v._array.ndim}-D")
    column = input.unsqueeze(-1)
    if not column.requires_grad:  # expanded to the result's shape, for the kernels
        column = column.expand(-1, vec2._array.size)
    y = column * vec2
    return y if out is None else write_result("outer", y, out)


@composite(explains=True)
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute inner products over the last axes; with a number, the plain product.

    Args:
        input: The first factor.

    >>> torch.inner(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)
    """
    a, b = input._array, other._array
    if not a.ndim or not b.ndim:
        y = input * other
    elif a.shape[-1] != b.shape[-1]:
        raise RuntimeError("inner() the last dimension must match on both input tensors but got "
                           f"shapes {list(a.shape)} and {list(b.shape)}")
    else:
        y = tensordot(input, other, ([-1], [-1]))
    return y if out is None else write_result("tensordot", y, out)


@composite(autocast=Policy.AS_IS, node="VdotBackward0")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the dot product of two vectors, conjugating the first.

    Args:
        input: The first vector, (n,), conjugated.
        other: The second vector, (n,).

    >>> torch.vdot(torch.tensor([1j]), torch.tensor([1j]))
    tensor(1.+0.j)
    """
    return dot(input.conj() if input.is_complex() else input, other, out=out)


@linalg_function(autocast=Policy.LOWER)
def vecdot(x: Tensor, y: Tensor, *, dim: Any = -1, out: Any = None) -> Tensor:
    """Compute dot products along an axis, conjugating the first tensor.

    >>> torch.linalg.vecdot(torch.tensor([1., 2.]), torch.tensor([3., 4.]))
    tensor(11.)
    """
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError("linalg.vecdot: Expected a floating point or complex tensor as input. "
                           f"Got {get_kind_name(x._array)}")
    left = x.conj() if x.is_complex() else x
    if out is not None:
        check_out_dtype("linalg_vecdot", x.dtype, out.dtype)
    if x._array.ndim == y._array.ndim == 1:
        return dot(left, y, out=out)
    result = (left * y).sum(dim)
    return result if out is None else write_result("linalg_vecdot", result, out)


# -------------------------------------------------------------------------------- tensors


def _choose_contracted_axes(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims._array.size != 1 else dims.item()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a._array.ndim, b._array.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    return ([canonicalize_dim(d, a._array.ndim) for d in first],
            [canonicalize_dim(d, b._array.ndim) for d in second])


@composite(expose=("torch",), explains=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """Sum products over `dims`: the last n axes of a and first n of b, or two lists of axes.

    Args:
        dims (int or two lists of ints): How many axes to sum, or those of `a` and those of `b`.

    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    if a._array.dtype != b._array.dtype:
        raise RuntimeError("both inputs should have same dtype")
    first, second = _choose_contracted_axes(a, b, dims)
    shapes = a._array.shape, b._array.shape
    for i, j in zip(first, second, strict=True):
        m, n = shapes[0][i], shapes[1][j]
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {m} in dim {i} and "
                f"second has size {n} in dim {j}"
            )
        if m != n:  # length 1 on one side: sum the other side
            kind = a.dtype
            a, b = (a.sum(i, True, dtype=kind), b) if n == 1 else (a, b.sum(j, True, dtype=kind))
    shapes = a._array.shape, b._array.shape
    free = [i for i in range(len(shapes[0])) if i not in first]
    right = [j for j in range(len(shapes[1])) if j not in second]
    length = 1
    for i in first:
        length *= shapes[0][i]
    rows, columns = [shapes[0][i] for i in free], [shapes[1][j] for j in right]
    x = a.permute(free + first).reshape(int(np.prod(rows)), length)
    y = b.permute(second + right).reshape(length, int(np.prod(columns)))
    result = matmul(x, y).reshape(rows + columns)
    return result if out is None else write_result("tensordot", result, out)


@composite(explains=True, node="UnsafeViewBackward0")
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute the Kronecker product: blocks of `other` scaled by each element of `input`.

    Args:
        input: The first factor.

    >>> torch.kron(torch.tensor([1, 2]), torch.tensor([1, 1]))
    tensor([1, 1, 2, 2])
    """
    rank = max(input._array.ndim, other._array.ndim)
    a, b = ([1] * (rank - len(x.shape)) + list(x.shape) for x in (input, other))
    spread = [n for i in a for n in (i, 1)], [n for j in b for n in (1, j)]
    y = input.reshape(spread[0]) * other.reshape(spread[1])
    result = y.reshape([i * j for i, j in zip(a, b, strict=True)])
    return result if out is None else write_result("kron", result, out)
