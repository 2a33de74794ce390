"""Angles: trigonometric and hyperbolic functions, their inverses, degrees and radians."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise
from ..core.operator import Array, Promotion
from ..core.registry import pointwise
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line, unit_interval


def above_one(rng: Rng) -> Iterator[Sample]:
    """Sample numbers greater than 1."""
    for shape in ((), (5,), (3, 4)):
        yield (rng.uniform(1.2, 3, shape),), {}


@pointwise(ref=lambda x: np.exp(1j * x).imag, samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.sin)
def sin(input: Array) -> Array:
    """Sine of angles in radians.

    >>> torch.sin(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8415])
    """
    return np.sin(input)


@sin.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * cos(input)


@pointwise(ref=lambda x: np.exp(1j * x).real, samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.cos)
def cos(input: Array) -> Array:
    """Cosine of angles in radians.

    >>> torch.cos(torch.tensor([0., 1.]))
    tensor([1.0000, 0.5403])
    """
    return np.cos(input)


@cos.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return -g * sin(input)


@pointwise(ref=lambda x: np.sin(x) / np.cos(x), samples=unit_interval,
           promotion=Promotion.FLOATING, ufunc=np.tan)
def tan(input: Array) -> Array:
    """Tangent of angles in radians.

    >>> torch.tan(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5574])
    """
    return np.tan(input)


@tan.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * (1 + y * y)


@pointwise(ref=lambda x: np.arctan2(x, np.sqrt(1 - x * x)), samples=unit_interval,
           promotion=Promotion.FLOATING, ufunc=np.arcsin, aliases=("arcsin",))
def asin(input: Array) -> Array:
    """Inverse sine in radians; NaN outside [-1, 1].

    >>> torch.asin(torch.tensor([0., 1.]))
    tensor([0.0000, 1.5708])
    """
    return np.arcsin(input)


@asin.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (1 - input * input).rsqrt()


@pointwise(ref=lambda x: np.arctan2(np.sqrt(1 - x * x), x), samples=unit_interval,
           promotion=Promotion.FLOATING, ufunc=np.arccos, aliases=("arccos",))
def acos(input: Array) -> Array:
    """Inverse cosine in radians; NaN outside [-1, 1].

    >>> torch.acos(torch.tensor([0., 1.]))
    tensor([1.5708, 0.0000])
    """
    return np.arccos(input)


@acos.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return -g * (1 - input * input).rsqrt()


@pointwise(ref=lambda x: np.arctan2(x, np.ones_like(x)), samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.arctan, aliases=("arctan",))
def atan(input: Array) -> Array:
    """Inverse tangent in radians, in (-pi/2, pi/2).

    >>> torch.atan(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7854])
    """
    return np.arctan(input)


@atan.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / (1 + input * input)


@pointwise(ref=lambda x: (np.exp(x) - np.exp(-x)) / 2, samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.sinh)
def sinh(input: Array) -> Array:
    """Hyperbolic sine, (e**input - e**-input) / 2.

    >>> torch.sinh(torch.tensor([0., 1.]))
    tensor([0.0000, 1.1752])
    """
    return np.sinh(input)


@sinh.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * cosh(input)


@pointwise(ref=lambda x: (np.exp(x) + np.exp(-x)) / 2, samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.cosh)
def cosh(input: Array) -> Array:
    """Hyperbolic cosine, (e**input + e**-input) / 2.

    >>> torch.cosh(torch.tensor([0., 1.]))
    tensor([1.0000, 1.5431])
    """
    return np.cosh(input)


@cosh.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * sinh(input)


@pointwise(ref=lambda x: np.log(x + np.sqrt(x * x + 1)), samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.arcsinh, aliases=("arcsinh",))
def asinh(input: Array) -> Array:
    """Inverse hyperbolic sine.

    >>> torch.asinh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8814])
    """
    return np.arcsinh(input)


@asinh.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (input * input + 1).rsqrt()


@pointwise(ref=lambda x: np.log(x + np.sqrt(x * x - 1)), samples=above_one,
           promotion=Promotion.FLOATING, ufunc=np.arccosh, aliases=("arccosh",))
def acosh(input: Array) -> Array:
    """Inverse hyperbolic cosine; NaN for input below 1.

    >>> torch.acosh(torch.tensor([1., 2.]))
    tensor([0.0000, 1.3170])
    """
    return np.arccosh(input)


@acosh.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    if input.is_complex():
        return g * (input - 1).rsqrt() * (input + 1).rsqrt()
    return g * (input * input - 1).rsqrt()


@pointwise(ref=lambda x: np.log((1 + x) / (1 - x)) / 2, samples=unit_interval,
           promotion=Promotion.FLOATING, ufunc=np.arctanh, aliases=("arctanh",))
def atanh(input: Array) -> Array:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN outside.

    >>> torch.atanh(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.5493])
    """
    return np.arctanh(input)


@atanh.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g / (1 - input * input)


@pointwise(ref=lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)), samples=real_line,
           promotion=Promotion.FLOATING, ufunc=np.tanh,
           aliases=("nn.functional.tanh",))
def tanh(input: Array) -> Array:
    """Hyperbolic tangent, in [-1, 1].

    >>> torch.tanh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7616])
    """
    return np.tanh(input)


@tanh.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return tanh_backward(g, y)


def _scale_by_tanh_slope(grad: np.ndarray, output: np.ndarray) -> np.ndarray:
    slope = np.multiply(output, output)
    slope = np.subtract(1, slope, out=slope if slope.ndim else None)
    return np.multiply(slope, grad)


@pointwise(ref=lambda g, y: g * (1 - y**2), samples=pairs_nonzero, expose=("aten",), inplace=False)
def tanh_backward(grad: Array, output: Array) -> Array:
    """Cotangent of tanh's input, computed from its output: grad * (1 - output**2)."""
    return blockwise(_scale_by_tanh_slope, grad, output)


@tanh_backward.vjp("grad")
def _(g: Tensor, output: Tensor) -> Tensor:
    return tanh_backward(g, output)


@tanh_backward.vjp("output")
def _(g: Tensor, grad: Tensor, output: Tensor) -> Tensor:
    return g * grad * output * -2


# ------------------------------------------------------------------------------- other angles


@pointwise(ref=lambda y, x: np.angle(x + 1j * y), samples=pairs_nonzero, aliases=("arctan2",),
           promotion=Promotion.FLOATING, refuse=dtype_refusals.complex_numbers,
           ufunc=np.arctan2)
def atan2(input: Array, other: Array) -> Array:
    """Angle of the point (other, input) in radians, in [-pi, pi].

    >>> torch.atan2(torch.tensor([1., -1.]), torch.tensor([-1., -1.]))
    tensor([ 2.3562, -2.3562])
    """
    return np.arctan2(input, other)


@atan2.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g * other / (input * input + other * other)


@atan2.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return -g * input / (input * input + other * other)


@pointwise(ref=np.sinc, samples=real_line, promotion=Promotion.FLOATING,
           aliases=("special.sinc",))
def sinc(input: Array) -> Array:
    """Normalized sinc, sin(pi * input) / (pi * input); 1 at 0.

    >>> torch.sinc(torch.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])
    """
    angle = np.multiply(input, math.pi)
    zero = angle == 0
    return np.where(zero, 1, np.sin(angle) / np.where(zero, 1, angle)).astype(input.dtype)


@sinc.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    from .selection import select

    zero = input == 0
    away = select(zero, 1, input)
    return select(zero, 0, g * (cos(input * math.pi) - y) / away)


@pointwise(ref=lambda x: x * np.pi / 180, samples=real_line, promotion=Promotion.FLOATING,
           refuse=dtype_refusals.complex_numbers)
def deg2rad(input: Array) -> Array:
    """Convert degrees to radians, input * pi / 180.

    >>> torch.deg2rad(torch.tensor([180.]))
    tensor([3.1416])
    """
    return np.multiply(input, math.pi / 180)


@deg2rad.vjp
def _(g: Tensor) -> Tensor:
    return deg2rad(g)


@pointwise(ref=lambda x: x * 180 / np.pi, samples=real_line, promotion=Promotion.FLOATING,
           refuse=dtype_refusals.complex_numbers)
def rad2deg(input: Array) -> Array:
    """Convert radians to degrees, input * 180 / pi.

    >>> torch.rad2deg(torch.tensor([3.1416]))
    tensor([180.0004])
    """
    return np.multiply(input, 180 / math.pi)


@rad2deg.vjp
def _(g: Tensor) -> Tensor:
    return rad2deg(g)
