"""Orthogonal polynomials of degree n, by their three-term recurrences."""

from __future__ import annotations

from typing import Any
from collections.abc import Callable, Iterator

import numpy as np

from ..core import dtype_refusals
from ..core.operator import Array, Number, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample

Step = Callable[[int, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _degrees(rng: Rng) -> Iterator[Sample]:
    for left, right in (((5,), (5,)), ((3, 4), (4,)), ((), (3,))):
        yield (rng.uniform(0.05, 0.95, left), rng.integers(0, 6, right) * 1.0), {}


def _evaluate_recurrence(x: Any, n: Any, first: Callable, step: Step) -> np.ndarray:
    """P_n(x), with P_0 = 1, P_1 = first(x), P_(k+1) = step(k, x, P_k, P_(k-1)); 0 for n < 0."""
    degree = np.trunc(n)
    x, degree = np.broadcast_arrays(x, degree)
    y = np.where(degree == 0, x.dtype.type(1), x.dtype.type(0))
    highest = int(degree.max()) if degree.size else 0
    before, now = np.ones_like(x), first(x)
    for k in range(1, highest + 1):
        y = np.where(degree == k, now, y)
        if k < highest:
            before, now = now, step(k, x, now, before)
    return y


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
    return _evaluate_recurrence(input, n, lambda x: x, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 1) * a) / np.sin(a)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_u(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the second kind and degree n.

    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos((n + 0.5) * a) / np.cos(a / 2)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_v(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the third kind and degree n.

    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x - 1, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 0.5) * a) / np.sin(a / 2)),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def chebyshev_polynomial_w(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the fourth kind and degree n.

    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x + 1, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos(n * a), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_t(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the first kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5]), 3)
    tensor([-0.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: x, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 1) * a) / np.sin(a), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_u(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the second kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5]), 3)
    tensor([-0.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.cos((n + 0.5) * a) / np.cos(a / 2), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_v(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the third kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5]), 3)
    tensor([1.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x - 1, _chebyshev)


@pointwise(ref=_create_angle_oracle(lambda a, n: np.sin((n + 0.5) * a) / np.sin(a / 2), True),
           samples=_degrees, promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def shifted_chebyshev_polynomial_w(input: Array | Number, n: Array | Number) -> Array:
    """Chebyshev polynomial of the fourth kind and degree n, at 2 * input - 1.

    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _evaluate_recurrence(2 * input - 1, n, lambda x: 2 * x + 1, _chebyshev)


@pointwise(ref=_create_series_oracle("hermite", "hermval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def hermite_polynomial_h(input: Array | Number, n: Array | Number) -> Array:
    """Hermite polynomial of degree n (physicists').

    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5]), 3)
    tensor([-5.])
    """
    return _evaluate_recurrence(input, n, lambda x: 2 * x, _hermite)


@pointwise(ref=_create_series_oracle("hermite_e", "hermeval"), samples=_degrees,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def hermite_polynomial_he(input: Array | Number, n: Array | Number) -> Array:
    """Hermite polynomial of degree n (probabilists').

    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5]), 3)
    tensor([-1.3750])
    """
    return _evaluate_recurrence(input, n, lambda x: x, _hermite_e)


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
