"""Vectors along an axis: cross products, distances between two sets, norms held below a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...autograd.unbroadcast import sum_to_shape
from ...native.foundation.user_frames import warn
from ...native.target.eager_costs import DIFFERENCES_PER_BLOCK
from ...tensor.dtypes import FROM_NUMPY, HALF
from ...tensor.tensor import Tensor
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim
from ..core.inplace import overwrite
from ..core.operator import Array, Number, publish
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..pointwise.selection import select
from ..reduction.vector_norms import _vector_norm
from .declarations import mT
from .matmul import matmul
from .matrix_checks import get_kind_name

# ------------------------------------------------------------------------------------ cross


def _triples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
    yield (rng.normal(size=(3, 2)), rng.normal(size=(3, 1))), {"dim": 0}


@opaque(linear_in="input * other",
        layout=Layout.FREE, name="linalg_cross", expose=(), samples=_triples,
        ref=lambda x, y, dim=-1: np.moveaxis(np.cross(np.moveaxis(x, dim, -1), np.moveaxis(
            np.broadcast_to(y, x.shape), dim, -1)), -1, dim))
def linalg_cross(input: Array, other: Array, *, dim: int = -1) -> Array:
    """Compute cross products of vectors of length 3 along an axis.

    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = canonicalize_dim(dim, input.ndim)
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"expected scalar type {get_kind_name(input)} but found {get_kind_name(other)}")
    if not input.ndim or input.shape[axis] != 3 or other.shape[axis] != 3:
        m, n = (x.shape[axis] if x.ndim else 1 for x in (input, other))
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {m} and {n}"
        )
    x, y = (np.moveaxis(t, axis, 0) for t in np.broadcast_arrays(input, other))
    result = np.empty(np.broadcast_shapes(input.shape, other.shape), input.dtype)
    target = np.moveaxis(result, axis, 0)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.subtract(x[j] * y[k], x[k] * y[j], out=target[i, ...])
    return result


@linalg_cross.vjp("input")
def _(g: Tensor, other: Tensor, input_shape: tuple[int, ...], dim: int) -> Tensor:
    return sum_to_shape(linalg_cross(other.expand(g.shape), g, dim=dim), input_shape)


@linalg_cross.vjp("other")
def _(g: Tensor, input: Tensor, other_shape: tuple[int, ...], dim: int) -> Tensor:
    return sum_to_shape(linalg_cross(g, input.expand(g.shape), dim=dim), other_shape)


publish(linalg_cross, ("cross",), ("linalg",))


@composite(explains=True)
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Compute cross products along `dim`, by default the first axis of length 3.

    >>> torch.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        shape = input._array.shape
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
        if dim != len(shape) - 1:
            warn(
                "Using torch.cross without specifying the dim arg is deprecated.\nPlease either "
                "pass the dim explicitly or simply use torch.linalg.cross.\nThe default value of "
                "dim will change to agree with that of linalg.cross in a future release.",
                UserWarning,
            )
    return linalg_cross(input, other, dim=dim, out=out)


# -------------------------------------------------------------------------------- distances

_MAX_ROWS_WITHOUT_PRODUCT = 25  # above it distances come from one matrix product, as in PyTorch
_MODES = {None: 0, "use_mm_for_euclid_dist_if_necessary": 0, "use_mm_for_euclid_dist": 1,
          "donot_use_mm_for_euclid_dist": 2}


def _measure_by_product(x: Array, y: Array) -> Array:
    """Euclidean distances from |x|^2 + |y|^2 - 2 x y."""
    squares = np.matmul(x, np.swapaxes(y, -1, -2))
    squares *= -2
    squares += np.einsum("...i,...i->...", x, x)[..., :, None]
    squares += np.einsum("...i,...i->...", y, y)[..., None, :]
    np.maximum(squares, 0, out=squares)
    return np.sqrt(squares, out=squares)


def _measure(difference: Array, p: float) -> Array:
    size = np.abs(difference, out=difference)
    if p == 1:
        return np.add.reduce(size, -1)
    if p == 0:
        return np.add.reduce((size != 0).astype(size.dtype), -1)
    if p == math.inf:
        return np.maximum.reduce(size, -1, initial=0)
    if p == 2:
        return np.sqrt(np.add.reduce(np.multiply(size, size, out=size), -1))
    return np.add.reduce(size**p, -1) ** size.dtype.type(1 / p)


def _measure_by_differences(x: Array, y: Array, p: float) -> Array:
    result = np.empty((*x.shape[:-1], y.shape[-2]), x.dtype)
    pair_count = max(y.size, 1)
    step = max(1, DIFFERENCES_PER_BLOCK // pair_count)
    for start in range(0, x.shape[-2], step):
        rows = slice(start, start + step)
        result[..., rows, :] = _measure(x[..., rows, None, :] - y[..., None, :, :], p)
    return result


def _sets(rng: Rng) -> Iterator[Sample]:
    for p in (2.0, 1.0, 3.0, math.inf):
        yield (rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), p, 0), {}
    yield (rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 4, 2)), 2.0, 1), {}


@opaque(name="_cdist", node="CdistBackward0", expose=(), samples=_sets,
        ref=lambda x, y, p, mode: np.linalg.norm(
            x[..., :, None, :] - y[..., None, :, :], p, -1))
def _cdist(x1: Array, x2: Array, p: float, mode: int) -> Array:
    """The distances between each row of x1 and each of x2, batches of one shape."""
    inside = np.float32 if FROM_NUMPY[x1.dtype] in HALF else x1.dtype
    x, y = x1.astype(inside, copy=False), x2.astype(inside, copy=False)
    is_long = max(x.shape[-2], y.shape[-2]) > _MAX_ROWS_WITHOUT_PRODUCT
    if p == 2 and (mode == 1 or (mode == 0 and is_long)):
        result = _measure_by_product(x, y)
    else:
        result = _measure_by_differences(x, y, p)
    return result.astype(x1.dtype, copy=False)


@_cdist.vjp
def _(g: Tensor, x1: Tensor, x2: Tensor, y: Tensor, p: float) -> tuple[Tensor | None, ...]:
    if p == 0:
        return x1 * 0, x2 * 0
    if p == 2:
        weights = select(y == 0, 0, g / y)
        first = weights.sum(-1).unsqueeze(-1) * x1 - matmul(weights, x2)
        second = weights.sum(-2).unsqueeze(-1) * x2 - matmul(mT(weights), x1)
        return first, second
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    size, g, y = difference.abs(), g.unsqueeze(-1), y.unsqueeze(-1)
    if p == 1:
        share = difference.sign() * g
    elif p == math.inf:
        share = difference.sign() * (size == y).to(g.dtype) * g
    else:
        scaled = difference.sign() * select(size == 0, 0, size.pow(p - 1))
        share = scaled * select(y == 0, 0, g / y.pow(p - 1))
    return share.sum(-2), -share.sum(-3)


def _check_sets(x: Array, y: Array, p: float) -> None:
    for name, t in (("X1", x), ("X2", y)):
        if t.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {t.ndim}D")
        if t.dtype.kind not in "fV":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {get_kind_name(t)}"
            )
    if x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x.shape[-1]} X2: "
                           f"{y.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected scalar type {get_kind_name(x)} but found {get_kind_name(y)}")


@composite(autocast=Policy.FULL, expose=("torch",))
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """Compute the p-norm distance between each row of x1 and each row of x2, batched.

    x1 (..., m, d), x2 (..., n, d): result (..., m, n).

    >>> torch.cdist(torch.tensor([[0., 0.]]), torch.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    a, b = x1._array, x2._array
    _check_sets(a, b, p)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[:-2] != batch:
        x1 = x1.expand((*batch, *a.shape[-2:]))
    if b.shape[:-2] != batch:
        x2 = x2.expand((*batch, *b.shape[-2:]))
    return _cdist(x1, x2, float(p), _MODES[compute_mode])


# ----------------------------------------------------------------------------------- renorm


@composite(explains=True, node="RenormBackward0")
def renorm(
    input: Tensor, p: Number, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """Return `input` with slices along `dim` scaled down to a p-norm of at most `maxnorm`.

    Args:
        dim: The axis whose slices are scaled.

    >>> torch.renorm(torch.tensor([[3., 4.], [0., 1.]]), 2, 0, 1)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    rank = input._array.ndim
    if isinstance(p, complex) or p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if rank < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {rank} dimensions")
    axis = canonicalize_dim(dim, rank)
    axes = tuple(i for i in range(rank) if i != axis)
    size = _vector_norm(input, float(p), axes, True)
    factor = select(size > maxnorm, maxnorm / (size + 1e-7), size.new_ones(()))
    y = (input * factor.to(input.dtype)).contiguous()
    return y if out is None else write_result("renorm", y, out)


@composite(expose=("Tensor",), explains=True)
def renorm_(self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """Scale slices down to a norm of at most `maxnorm`, in place.

    >>> torch.tensor([[3., 4.], [0.3, 0.4]]).renorm_(2, 0, 1.)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    return overwrite(self, "renorm_", renorm, p, dim, maxnorm)
