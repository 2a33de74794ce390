"""Bessel functions, their modified and scaled forms, and the Airy function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.operator import Array, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import positive, real_line
from ..pointwise.selection import select
from .kernel_formulas import i0_of_single, i0e_of_single, i1_of_single, i1e_of_single, of_single
from .scipy_special import get_special_function


def _create_integral(integrand: Callable, low: float, high: float) -> Callable:
    """The integral over t of integrand(x, t) / pi, by Simpson's rule: an oracle."""

    def ref(x: np.ndarray) -> np.ndarray:
        t = np.linspace(low, high, 20001)
        values = integrand(np.asarray(x, float)[..., None], t)
        weights = np.full(t.size, 2.0)
        weights[1::2] = 4.0
        weights[[0, -1]] = 1.0
        return (values * weights).sum(-1) * (t[1] - t[0]) / 3 / np.pi

    return ref


@pointwise(ref=_create_integral(lambda x, t: np.exp(x * np.cos(t)), 0, np.pi), samples=real_line,
           promotion=Promotion.FLOATING, aliases=("special.i0",),
           refuse=dtype_refusals.complex_numbers)
def i0(input: Array) -> Array:
    """Modified Bessel function of the first kind, order 0.

    >>> torch.i0(torch.tensor([0., 1.]))
    tensor([1.0000, 1.2661])
    """
    return of_single(i0_of_single, "i0", input)


@i0.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * i1(input)


@pointwise(ref=_create_integral(lambda x, t: np.exp(x * np.cos(t)) * np.cos(t), 0, np.pi),
           samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialI1Backward0")
def i1(input: Array) -> Array:
    """Modified Bessel function of the first kind, order 1.

    >>> torch.special.i1(torch.tensor([0., 1.]))
    tensor([0.0000, 0.5652])
    """
    return of_single(i1_of_single, "i1", input)


@i1.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    zero = input == 0
    return g * select(zero, 0.5, i0(input) - y / select(zero, 1, input))


@pointwise(ref=_create_integral(lambda x, t: np.exp(x * np.cos(t) - np.abs(x)), 0, np.pi),
           samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialI0EBackward0")
def i0e(input: Array) -> Array:
    """Exponentially scaled i0, exp(-|input|) * i0(input).

    >>> torch.special.i0e(torch.tensor([0., 1.]))
    tensor([1.0000, 0.4658])
    """
    return of_single(i0e_of_single, "i0e", input)


@i0e.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    return g * (i1e(input) - input.sgn() * y)


@pointwise(
           ref=_create_integral(
               lambda x, t: np.exp(x * np.cos(t) - np.abs(x)) * np.cos(t), 0, np.pi),
           samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, refuse=dtype_refusals.complex_numbers,
           node="SpecialI1EBackward0")
def i1e(input: Array) -> Array:
    """Exponentially scaled i1, exp(-|input|) * i1(input).

    >>> torch.special.i1e(torch.tensor([0., 1.]))
    tensor([0.0000, 0.2079])
    """
    return of_single(i1e_of_single, "i1e", input)


@i1e.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    zero = input == 0
    slope = i0e(input) - y * (input.sgn() + 1 / select(zero, 1, input))
    return g * select(zero, 0.5, slope)


# ------------------------------------------------------- without derivatives, as in PyTorch


def _bessel_y(order: int) -> Callable:
    """Y of integer order: an oscillating integral over [0, pi] less a decaying one."""
    wave = _create_integral(lambda x, t: np.sin(x * np.sin(t) - order * t), 0, np.pi)
    decay = _create_integral(
        lambda x, t: (np.exp(order * t) + np.exp(-order * t) * (-1) ** order)
        * np.exp(-x * np.sinh(t)), 0, 12,
    )
    return lambda x: wave(x) - decay(x)


@pointwise(ref=_create_integral(lambda x, t: np.cos(x * np.sin(t)), 0, np.pi), samples=real_line,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def bessel_j0(input: Array) -> Array:
    """Bessel function of the first kind, order 0.

    >>> torch.special.bessel_j0(torch.tensor([1., 2.]))
    tensor([0.7652, 0.2239])
    """
    return get_special_function("j0")(input)


@pointwise(ref=_create_integral(lambda x, t: np.cos(t - x * np.sin(t)), 0, np.pi),
           samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def bessel_j1(input: Array) -> Array:
    """Bessel function of the first kind, order 1.

    >>> torch.special.bessel_j1(torch.tensor([1., 2.]))
    tensor([0.4401, 0.5767])
    """
    return get_special_function("j1")(input)


@pointwise(ref=_bessel_y(0), samples=positive, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def bessel_y0(input: Array) -> Array:
    """Bessel function of the second kind, order 0; NaN for negative input.

    >>> torch.special.bessel_y0(torch.tensor([1., 2.]))
    tensor([0.0883, 0.5104])
    """
    return get_special_function("y0")(input)


@pointwise(ref=_bessel_y(1), samples=positive, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def bessel_y1(input: Array) -> Array:
    """Bessel function of the second kind, order 1; NaN for negative input.

    >>> torch.special.bessel_y1(torch.tensor([1., 2.]))
    tensor([-0.7812, -0.1070])
    """
    return get_special_function("y1")(input)


@pointwise(ref=_create_integral(lambda x, t: np.exp(x * np.cos(t)), 0, np.pi), samples=real_line,
           promotion=Promotion.FLOATING, expose=("special",), inplace=False,
           differentiable=False, refuse=dtype_refusals.complex_numbers)
def modified_bessel_i0(input: Array) -> Array:
    """Modified Bessel function of the first kind, order 0.

    >>> torch.special.modified_bessel_i0(torch.tensor([1., 2.]))
    tensor([1.2661, 2.2796])
    """
    return of_single(i0_of_single, "i0", input)


@pointwise(ref=_create_integral(lambda x, t: np.exp(x * np.cos(t)) * np.cos(t), 0, np.pi),
           samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def modified_bessel_i1(input: Array) -> Array:
    """Modified Bessel function of the first kind, order 1.

    >>> torch.special.modified_bessel_i1(torch.tensor([1., 2.]))
    tensor([0.5652, 1.5906])
    """
    return of_single(i1_of_single, "i1", input)


@pointwise(ref=_create_integral(lambda x, t: np.pi * np.exp(-x * np.cosh(t)), 0, 12),
           samples=positive, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def modified_bessel_k0(input: Array) -> Array:
    """Modified Bessel function of the second kind, order 0.

    >>> torch.special.modified_bessel_k0(torch.tensor([1., 2.]))
    tensor([0.4210, 0.1139])
    """
    return get_special_function("k0")(input)


@pointwise(
           ref=_create_integral(lambda x, t: np.pi * np.exp(-x * np.cosh(t)) * np.cosh(t), 0, 12),
           samples=positive, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def modified_bessel_k1(input: Array) -> Array:
    """Modified Bessel function of the second kind, order 1.

    >>> torch.special.modified_bessel_k1(torch.tensor([1., 2.]))
    tensor([0.6019, 0.1399])
    """
    return get_special_function("k1")(input)


@pointwise(ref=_create_integral(lambda x, t: np.pi * np.exp(x - x * np.cosh(t)), 0, 12),
           samples=positive, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def scaled_modified_bessel_k0(input: Array) -> Array:
    """Exponentially scaled K0, exp(input) * modified_bessel_k0(input).

    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1., 2.]))
    tensor([1.1445, 0.8416])
    """
    return get_special_function("k0e")(input)


@pointwise(
           ref=_create_integral(
               lambda x, t: np.pi * np.exp(x - x * np.cosh(t)) * np.cosh(t), 0, 12),
           samples=positive, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def scaled_modified_bessel_k1(input: Array) -> Array:
    """Exponentially scaled K1, exp(input) * modified_bessel_k1(input).

    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1., 2.]))
    tensor([1.6362, 1.0335])
    """
    return get_special_function("k1e")(input)


def _spherical_ref(x: np.ndarray) -> np.ndarray:
    return np.sinc(x / np.pi)


@pointwise(ref=_spherical_ref, samples=real_line, promotion=Promotion.FLOATING,
           expose=("special",), inplace=False, differentiable=False,
           refuse=dtype_refusals.complex_numbers)
def spherical_bessel_j0(input: Array) -> Array:
    """Spherical Bessel function of the first kind, order 0: sin(input) / input.

    >>> torch.special.spherical_bessel_j0(torch.tensor([0., 1.]))
    tensor([1.0000, 0.8415])
    """
    with np.errstate(all="ignore"):
        y = np.where(np.equal(input, 0), 1, np.sin(input) / input)
    return np.where(np.isinf(input), 0, y).astype(input.dtype)


def _airy_ref(x: np.ndarray) -> np.ndarray:
    """The two power series of the Airy equation, good for moderate arguments."""
    f = h = np.zeros_like(x)
    first, second = np.ones_like(x), np.asarray(x, float)
    for k in range(40):
        f, h = f + first, h + second
        first = first * x**3 / ((3 * k + 2) * (3 * k + 3))
        second = second * x**3 / ((3 * k + 3) * (3 * k + 4))
    return 0.3550280538878172 * f - 0.2588194037928068 * h


@pointwise(ref=_airy_ref, samples=real_line, promotion=Promotion.FLOATING, expose=("special",),
           inplace=False, differentiable=False, refuse=dtype_refusals.complex_numbers)
def airy_ai(input: Array) -> Array:
    """Airy function Ai.

    >>> torch.special.airy_ai(torch.tensor([0., 1.]))
    tensor([0.3550, 0.1353])
    """
    return get_special_function("airy")(input.astype(np.float64))[0].astype(input.dtype)
