"""Orthogonal polynomials of degree n, by their three-term recurrences."""

from __future__ import annotations

from typing import Any, NamedTuple
from collections.abc import Callable, Iterator

import numpy as np

from ..core import dtype_refusals
from ..core.operator import Array, Number, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample

Step = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Angle(NamedTuple):
    """The closed form of a Chebyshev polynomial on -1..1, and the degrees it serves within."""

    evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray]
    above: int


def _degrees(rng: Rng) -> Iterator[Sample]:
    for left, right in (((5,), (5,)), ((3, 4), (4,)), ((), (3,))):
        yield (rng.uniform(0.05, 0.95, left), rng.integers(0, 6, right) * 1.0), {}


def _evaluate_recurrence(x: Any, n: Any, first: Callable, step: Step,
                         angle: Angle | None = None) -> np.ndarray:
    """P_n(x), with P_0 = 1, P_1 = first(x), P_(k+1) = step(k, x, P_k, P_(k-1)); 0 for n < 0.

    Within -1..1, high degrees of Chebyshev polynomials come from their angle. A recurrence ends
    where it has reached NaN, as PyTorch's does: its time is not that of the largest degree asked.
    """
    x, degree = np.broadcast_arrays(x, _truncate(n))
    y = np.where(degree == 0, x.dtype.type(1), x.dtype.type(0))
    pending = degree > 0
    if angle is not None:
        direct = pending & (np.abs(x) <= 1) & ((degree > angle.above) | (np.abs(x) == 1))
        y[direct] = angle.evaluate(x[direct], degree[direct])
        pending &= ~direct
    before, now = np.ones_like(x), first(x)
    k = 1
    while pending.any():
        reached = pending & ((degree == k) | np.isnan(now))
        y = np.where(reached, now, y)
        pending &= ~reached
        before, now, k = now, step(k, x, now, before), k + 1
    return y


def _evaluate_hermite(x: Any, n: Any, first: Callable, step: Step) -> np.ndarray:
    """A Hermite polynomial: NaN above the degree that PyTorch computes in a type at most."""
    degree = _truncate(n)
    beyond = degree > (512 if x.dtype == np.float64 else 128)
    y = _evaluate_recurrence(x, np.where(beyond, 0, degree), first, step)
    return np.where(beyond, x.dtype.type(np.nan), y)


def _truncate(n: Any) -> np.ndarray:
    """Degrees as C's conversion to int64 has them: the smallest for NaN and what is too large."""
    n = np.asarray(n)
    if n.dtype.kind != "f":
        return n.astype(np.int64)
    smallest = np.iinfo(np.int64).min
    fits = np.abs(n) < 2.0**63
    return np.where(fits, np.where(fits, n, 0).astype(np.int64), smallest)


def _take_sign(degree: np.ndarray, dtype: Any) -> np.ndarray:
    """(-1) ** degree."""
    return np.where(degree % 2 == 0, 1, -1).astype(dtype)


def _evaluate_t(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
    n = degree.astype(x.dtype)
    ends = np.where(x > 0, x.dtype.type(1), _take_sign(degree, x.dtype))
    return np.where(np.abs(x) == 1, ends, np.cos(n * np.arccos(x)))


def _evaluate_u(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
    n = degree.astype(x.dtype)
    ends = np.where(x > 0, n + 1, _take_sign(degree, x.dtype) * (n + 1))
    angle = np.arccos(x)
    return np.where(np.abs(x) == 1, ends, _divide(np.sin((n + 1) * angle), np.sin(angle)))


def _evaluate_v(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
    n, half = degree.astype(x.dtype), x.dtype.type(0.5)
    ends = np.where(x > 0, x.dtype.type(1), _take_sign(degree, x.dtype) * (n + n + 1))
    angle = np.arccos(x)
    inner = _divide(np.cos((n + half) * angle), np.cos(angle / 2))
    return np.where(np.abs(x) == 1, ends, inner)


def _evaluate_w(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
    n, half = degree.astype(x.dtype), x.dtype.type(0.5)
    ends = np.where(x > 0, n + n + 1, _take_sign(degree, x.dtype))
    angle = np.arccos(x)
    inner = _divide(np.sin((n + half) * angle), np.sin(angle / 2))
    return np.where(np.abs(x) == 1, ends, inner)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y, and 0 where y is 0, which only the ends of the interval have."""
    number, is_zero = x.dtype.type, y == 0
    return np.where(is_zero, number(0), x / np.where(is_zero, number(1), y))


def _chebyshev(k: int, x: np.ndarray, now: np.ndarray, before: np.ndarray) -> np.ndarray:
    return 2 * x * now - before


def _hermite(k: int, x: np.ndarray, now: np.ndarray, before: np.ndarray) -> np.ndarray:
    return 2 * x * now - 2 * k * before


def _hermite_e(k: int, x: np.ndarray, now: np.ndarray, before: np.ndarray) -> np.ndarray:
    return x * now - k * before


def _laguerre(k: int, x: np.ndarray, now: np.ndarray, before: np.ndarray) -> np.ndarray:
    return ((2 * k + 1 - x) * now - k * before) / (k + 1)


def _legendre(k: int, x: np.ndarray, now: np.ndarray, before: np.ndarray) -> np.ndarray:
    return ((2 * k + 1) * x * now - k * before) / (k + 1)


def _create_angle_oracle(form: Callable, shifted: bool = False) -> Callable:
    """An oracle for Chebyshev polynomials: their closed form in the angle acos(x)."""

    def ref(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        return form(np.arccos(2 * x - 1 if shifted else x), n)

    return ref


def _create_series_oracle(family: str, name: str) -> Callable:
    """An oracle: NumPy's evaluation of a series with a single term."""

    def ref(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        evaluate = getattr(getattr(np.polynomial, family), name)
        return np.vectorize(lambda a, k: evaluate(a, np.eye(int(k) + 1)[int(k)]))(x, n)

    return ref


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos(n * a)), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_t(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the first kind and degree n.

    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: x, _chebyshev,
                                Angle(_evaluate_t, above=6))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 1) * a) / np.sin(a)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_u(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the second kind and degree n.

    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x, _chebyshev,
                                Angle(_evaluate_u, above=8))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos((n + 0.5) * a) / np.cos(a / 2)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_v(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the third kind and degree n.

    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x - 1, _chebyshev,
                                Angle(_evaluate_v, above=8))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 0.5) * a) / np.sin(a / 2)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_w(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the fourth kind and degree n.

    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x + 1, _chebyshev,
                                Angle(_evaluate_w, above=8))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos(n * a), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_t(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the first kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5]), 3)
    tensor([-0.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: x, _chebyshev,
                                Angle(_evaluate_t, above=6))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 1) * a) / np.sin(a), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_u(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the second kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5]), 3)
    tensor([-0.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x, _chebyshev,
                                Angle(_evaluate_u, above=6))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos((n + 0.5) * a) / np.cos(a / 2), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_v(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the third kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5]), 3)
    tensor([1.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x - 1, _chebyshev,
                                Angle(_evaluate_v, above=6))


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 0.5) * a) / np.sin(a / 2), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_w(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the fourth kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x + 1, _chebyshev,
                                Angle(_evaluate_w, above=6))


@pointwise(ref=_create_series_oracle("hermite", "hermval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def hermite_polynomial_h(input: Array | Number, n: Array | Number) -> Array:
    """Hermite polynomial of degree n (physicists').

    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5]), 3)
    tensor([-5.])
    """
    return _evaluate_hermite(input, n, lambda x: 2 * x, _hermite)


@pointwise(ref=_create_series_oracle("hermite_e", "hermeval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def hermite_polynomial_he(input: Array | Number, n: Array | Number) -> Array:
    """Hermite polynomial of degree n (probabilists').

    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5]), 3)
    tensor([-1.3750])
    """
    return _evaluate_hermite(input, n, lambda x: x, _hermite_e)


@pointwise(ref=_create_series_oracle("laguerre", "lagval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def laguerre_polynomial_l(input: Array | Number, n: Array | Number) -> Array:
    """Laguerre polynomial of degree n.

    >>> torch.special.laguerre_polynomial_l(torch.tensor([0.5]), 3)
    tensor([-0.1458])
    """
    return _evaluate_recurrence(input, n, lambda x: 1 - x, _laguerre)


@pointwise(ref=_create_series_oracle("legendre", "legval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def legendre_polynomial_p(input: Array | Number, n: Array | Number) -> Array:
    """Legendre polynomial of degree n.

    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5]), 3)
    tensor([-0.4375])
    """
    return _evaluate_recurrence(input, n, lambda x: x, _legendre)
