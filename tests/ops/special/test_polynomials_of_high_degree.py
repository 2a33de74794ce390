"""Polynomials of special degrees and at the ends of their intervals, as PyTorch evaluates them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import flambeau

NAN, INF = math.nan, math.inf
NAMES = [
    *(f"{form}chebyshev_polynomial_{kind}" for form in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
POINTS = [-1.5, -1.0, -0.7, 0.0, 0.3, 1.0, 2.0, INF, -INF, NAN]
DEGREES = [-3.0, -0.5, 0.0, 1.0, 1.9, 3.0, 7.0, 9.0, 50.0, 512.0, 513.0, NAN, INF, 1e19]


def test_hermite_polynomials_above_the_highest_degree_are_nan() -> None:
    x = flambeau.tensor([0.5, 0.5], dtype=flambeau.float32)
    degrees = flambeau.tensor([3.0, 1e9])
    np.testing.assert_array_equal(flambeau.special.hermite_polynomial_h(x, degrees), [-5, NAN])


def test_recurrences_end_at_nan() -> None:
    x = flambeau.tensor([2.0, NAN])
    result = flambeau.special.legendre_polynomial_p(x, flambeau.tensor([1e9, 1e9]))
    np.testing.assert_array_equal(result, [NAN, NAN])


def test_degrees_that_are_no_integers_of_64_bits_are_negative() -> None:
    degrees = flambeau.tensor([NAN, INF, 1e19])
    result = flambeau.special.chebyshev_polynomial_t(flambeau.tensor(2.0), degrees)
    np.testing.assert_array_equal(result, [0, 0, 0])


def test_chebyshev_polynomials_of_high_degree_come_from_their_angle() -> None:
    x = flambeau.tensor([0.3, 1.0, -1.0], dtype=flambeau.float64)
    result = flambeau.special.chebyshev_polynomial_t(x, 1_000_000_001)
    np.testing.assert_allclose(result, [math.cos(1_000_000_001 * math.acos(0.3)), 1, -1])


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_pytorch(name: str) -> None:
    import torch

    x, n = map(np.array, zip(*itertools.product(POINTS, DEGREES), strict=True))
    expected = getattr(torch.special, name)(torch.from_numpy(x), torch.from_numpy(n))
    actual = getattr(flambeau.special, name)(flambeau.from_numpy(x), flambeau.from_numpy(n))
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-9, atol=1e-9)
