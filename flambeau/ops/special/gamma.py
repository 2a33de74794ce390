"""The gamma function's relatives: its logarithm and derivatives, incomplete forms, zeta."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.operator import Array, Number, Promotion, publish
from ..core.registry import composite, pointwise
from ..core.sample_inputs import Rng, Sample, positive, positive_pairs
from ..pointwise.arithmetic import add
from .kernel_formulas import digamma_of_single, lgamma_of_single, of_single
from .scipy_special import get_special_function


@pointwise(ref=np.vectorize(math.lgamma), samples=positive,
           promotion=Promotion.FLOATING, aliases=("special.gammaln",),
           refuse=dtype_refusals.complex_numbers)
def lgamma(input: Array) -> Array:
    """Logarithm of the absolute value of the gamma function.

    >>> torch.lgamma(torch.tensor([1., 5.]))
    tensor([0.0000, 3.1781])
    """
    y = of_single(lgamma_of_single, "gammaln", input)
    return np.where(np.equal(input, -np.inf), np.inf, y)  # SciPy: -inf


@lgamma.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * digamma(input)


def _digamma_ref(x: np.ndarray) -> np.ndarray:
    """By the recurrence up to large arguments, and the asymptotic series there."""
    y = np.zeros_like(x)
    for _ in range(12):
        y = y - 1 / x
        x = x + 1
    series = sum(c / x**k for c, k in ((-1 / 12, 2), (1 / 120, 4), (-1 / 252, 6), (1 / 240, 8)))
    return y + np.log(x) - 1 / (2 * x) + series


@pointwise(ref=_digamma_ref, samples=positive, promotion=Promotion.FLOATING,
           aliases=("special.digamma", "special.psi"), refuse=dtype_refusals.complex_numbers)
def digamma(input: Array) -> Array:
    """Digamma function, the derivative of log(gamma).

    >>> torch.digamma(torch.tensor([1., 2.]))
    tensor([-0.5772,  0.4228])
    """
    return of_single(digamma_of_single, "digamma", input)


@digamma.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * derivative(input, 1)


def _orders(rng: Rng) -> Iterator[Sample]:
    for (x,), _ in positive(rng):
        yield (x, 1), {}
        yield (x, 2), {}


def _polygamma_ref(x: np.ndarray, n: int) -> np.ndarray:
    k = np.arange(200000.0)
    terms = (np.asarray(x)[..., None] + k) ** -(n + 1.0)
    rest = (np.asarray(x) + 200000.0 - 0.5) ** -float(n) / n  # the tail, by an integral
    return (-1) ** (n + 1) * math.factorial(n) * (terms.sum(-1) + rest)


@pointwise(name="_polygamma", node="PolygammaBackward0", ref=_polygamma_ref, samples=_orders,
           promotion=Promotion.FLOATING, expose=(), refuse=dtype_refusals.complex_numbers)
def derivative(input: Array, n: int) -> Array:
    """The n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return get_special_function("digamma")(input)
    scale = (-1) ** (n + 1) * math.factorial(n)
    return (get_special_function("zeta")(n + 1.0, input.astype(np.float64))
            * scale).astype(input.dtype)


@derivative.vjp
def _(g: Tensor, input: Tensor, n: int) -> Tensor:
    return g * derivative(input, n + 1)


@composite(expose=("torch",))
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Polygamma function, the n-th derivative of digamma; RuntimeError for negative n.

    >>> torch.polygamma(1, torch.tensor([1.]))
    tensor([1.6449])
    """
    return derivative(input, n, out=out)


@composite(name="Tensor.polygamma", expose=())
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma at each element.

    >>> torch.tensor([1.]).polygamma(1)
    tensor([1.6449])
    """
    return derivative(self, n)


@composite(name="polygamma_", expose=("Tensor",))
def _polygamma_in_place(self: Tensor, n: int) -> Tensor:
    """`polygamma` in place: self.polygamma_(n)."""
    return derivative.operator.twin(self, n)


publish(_polygamma_method, ("polygamma",), ("Tensor",))
publish(polygamma, ("polygamma",), ("special",))


@composite(aliases=("special.multigammaln",), explains=True, node="MvlgammaBackward0")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the p-dimensional gamma function; RuntimeError below (p - 1) / 2.

    Args:
        input: The input, above (p - 1) / 2.

    >>> torch.mvlgamma(torch.tensor([3.]), 2)
    tensor([1.5502])
    """
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, not {p}")
    if input.dtype.is_complex or input._array.dtype.kind == "b":
        raise dtype_refusals.build_dtype_error(lgamma.operator, input.dtype)
    y = lgamma(input)
    for j in range(1, p):
        y = y + lgamma(input - j / 2)
    return add(y.contiguous(), p * (p - 1) / 4 * math.log(math.pi), out=out)


@composite(expose=("Tensor",), explains=True)
def mvlgamma_(self: Tensor, p: int) -> Tensor:
    """`mvlgamma` in place."""
    from ..core.inplace import overwrite

    return overwrite(self, "mvlgamma_", mvlgamma, p)


# ------------------------------------------------------------------------------- incomplete


def _igamma_ref(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The series x^a e^-x sum x^k / Gamma(a + k + 1)."""
    gamma = np.vectorize(math.gamma)
    terms = sum(x**k / gamma(a + k + 1) for k in range(60))
    return x**a * np.exp(-x) * terms


def _refuse(operator: Any, operands: Any, common: Any) -> None:
    if not common.is_floating_point:
        raise dtype_refusals.build_dtype_error(operator, common)


@pointwise(ref=_igamma_ref, samples=positive_pairs, refuse=_refuse, torch_kernel="igamma: input",
           aliases=("special.gammainc",))
def igamma(input: Array, other: Array) -> Array:
    """Regularized lower incomplete gamma function P(input, other); differentiable in `other`.

    >>> torch.igamma(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.8647])
    """
    return get_special_function("gammainc")(input, other)


@pointwise(ref=lambda a, x: 1 - _igamma_ref(a, x), samples=positive_pairs, refuse=_refuse,
           torch_kernel="igammac: input",
           aliases=("special.gammaincc",))
def igammac(input: Array, other: Array) -> Array:
    """Regularized upper incomplete gamma function 1 - P(input, other); differentiable in `other`.

    >>> torch.igammac(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.1353])
    """
    return get_special_function("gammaincc")(input, other)


def _density(input: Any, other: Any) -> Any:
    return ((input - 1) * other.log() - other - lgamma(input)).exp()


@igamma.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g * _density(input, other)


@igammac.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return -g * _density(input, other)


# ------------------------------------------------------------------------------- zeta


def _above_one(rng: Rng) -> Iterator[Sample]:
    for (x, q), _ in positive_pairs(rng):
        yield (x + 3, q), {}


def _zeta_ref(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    x, q = np.broadcast_arrays(np.asarray(x, float), np.asarray(q, float))
    k = np.arange(20000.0)
    terms = (q[..., None] + k) ** -x[..., None]
    return terms.sum(-1) + (q + 20000.0 - 0.5) ** (1 - x) / (x - 1)


@pointwise(ref=_zeta_ref, samples=_above_one, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, refuse=dtype_refusals.complex_numbers, node="SpecialZetaBackward0")
def zeta(input: Array | Number, other: Array | Number) -> Array:
    """Hurwitz zeta function, the sum of (other + k)**-input; differentiable in `other`.

    >>> torch.special.zeta(torch.tensor([2.]), 1.)
    tensor([1.6449])
    """
    x, q = np.asanyarray(input), np.asanyarray(other)
    result = get_special_function("zeta")(x.astype(np.float64), q.astype(np.float64))
    return np.asanyarray(result).astype(x.dtype)


@zeta.vjp("other")
def _(g: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    return -g * input * zeta(input + 1, other)
