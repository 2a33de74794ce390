"""Formulas of pointwise operators."""

from __future__ import annotations

import math
from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import formula, torch

# ------------------------------------------------------------------------------ arithmetic


@formula("addcmul")
def _addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    return x + value * a * b


@formula("addcdiv")
def _addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    return x + value * a / b


@formula("lerp")
def _lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    return x + weight * (end - x)


@formula("true_divide", "divide", "__truediv__")
def _divide(x: Any, y: Any, **named: Any) -> Tensor:
    return torch.div(x, y, **named)


@formula("multiply")
def _multiply(x: Any, y: Any) -> Tensor:
    return torch.mul(x, y)


@formula("subtract")
def _subtract(x: Any, y: Any, *, alpha: Any = 1) -> Tensor:
    return torch.sub(x, y, alpha=alpha)


@formula("frac")
def _frac(x: Tensor) -> Tensor:
    return x - x.trunc()


@formula("square")
def _square(x: Tensor) -> Tensor:
    return x * x


@formula("hypot")
def _hypot(x: Tensor, y: Tensor) -> Tensor:
    return (x * x + y * y).sqrt()


@formula("float_power")
def _float_power(x: Any, y: Any) -> Tensor:
    base, exponent = (v.double() if isinstance(v, Tensor) else float(v) for v in (x, y))
    return torch.pow(base, exponent)


@formula("__rpow__")
def _rpow(x: Tensor, y: Any) -> Tensor:
    return torch.pow(y, x)


@formula("__rmod__")
def _rmod(x: Tensor, y: Any) -> Tensor:
    return torch.full_like(x, y) % x if not isinstance(y, Tensor) else y % x


@formula("__rdiv__", "__rtruediv__")
def _rdiv(x: Tensor, y: Any) -> Tensor:
    return torch.reciprocal(x) * y


@formula("__rand__")
def _rand(x: Tensor, y: Any) -> Tensor:
    return x & y


@formula("__ror__")
def _ror(x: Tensor, y: Any) -> Tensor:
    return x | y


@formula("__rxor__")
def _rxor(x: Tensor, y: Any) -> Tensor:
    return x ^ y


@formula("bitwise_left_shift", "__lshift__")
def _left_shift(x: Any, y: Any) -> Tensor:
    return x * torch.pow(2, y) if isinstance(y, Tensor) else x * 2**y


@formula("bitwise_right_shift", "__rshift__")
def _right_shift(x: Any, y: Any) -> Tensor:
    return torch.floor_divide(x, torch.pow(2, y) if isinstance(y, Tensor) else 2**y)


# ------------------------------------------------------------------------------ logarithms


@formula("log2")
def _log2(x: Tensor) -> Tensor:
    return x.log() / math.log(2)


@formula("log10")
def _log10(x: Tensor) -> Tensor:
    return x.log() / math.log(10)


@formula("exp2", "special_exp2")
def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, x)


@formula("xlogy", "special_xlogy")
def _xlogy(x: Any, y: Any) -> Tensor:
    x, y = _pair(x, y)
    return _multiply_by_logarithm(x, y, y.log())


@formula("special_xlog1py")
def _xlog1py(x: Any, y: Any) -> Tensor:
    x, y = _pair(x, y)
    return _multiply_by_logarithm(x, y, y.log1p())


def _multiply_by_logarithm(x: Tensor, y: Tensor, logarithm: Tensor) -> Tensor:
    """Return x times the logarithm of y: 0 where x is 0, nan where y is nan."""
    product = torch.where(x == 0, torch.zeros_like(y * 1.0), x * logarithm)
    return torch.where(y.isnan(), y, product) if y.is_floating_point() else product


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return two numbers or tensors as tensors of one shape."""
    shape_of = x if isinstance(x, Tensor) else y
    if not isinstance(x, Tensor):
        x = torch.full_like(shape_of, x)
    if not isinstance(y, Tensor):
        y = torch.full_like(shape_of, y)
    return x + torch.zeros_like(y), y + torch.zeros_like(x)


@formula("logaddexp")
def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    high = torch.maximum(x, y)
    result = high + (-(x - y).abs()).exp().log1p()
    return torch.where((x == y) & high.isinf(), high, result)


@formula("logaddexp2")
def _logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    return _logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


@formula("logit", "special_logit")
def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    p = x if eps is None else x.clamp(eps, 1 - eps)
    return (p / (1 - p)).log()


@formula("special_entr")
def _entr(x: Tensor) -> Tensor:
    positive = -x * x.log()
    inside = torch.where(x > 0, positive, torch.zeros_like(positive))
    return torch.where(x < 0, torch.full_like(positive, -math.inf), inside)


# ------------------------------------------------------------------------------ angles


@formula("deg2rad")
def _deg2rad(x: Tensor) -> Tensor:
    return x * (math.pi / 180)


@formula("rad2deg")
def _rad2deg(x: Tensor) -> Tensor:
    return x * (180 / math.pi)


@formula("sinc", "special_sinc")
def _sinc(x: Tensor) -> Tensor:
    angle = x * math.pi
    return torch.where(angle == 0, torch.ones_like(angle), angle.sin() / angle)


@formula("atan2", "arctan2")
def _atan2(y: Tensor, x: Tensor) -> Tensor:
    angle = (y / x).atan()
    behind = torch.where(y < 0, angle - math.pi, angle + math.pi)
    half = torch.full_like(angle, math.pi / 2)
    upright = torch.where(y > 0, half, torch.where(y < 0, -half, torch.zeros_like(angle)))
    return torch.where(x > 0, angle, torch.where(x < 0, behind, upright))


@formula("angle")
def _angle(x: Tensor) -> Tensor:
    result = torch.where(x < 0, math.pi, 0.0)
    return torch.where(x.isnan(), x, result) if x.is_floating_point() else result


@formula("erfc", "special_erfc")
def _erfc(x: Tensor) -> Tensor:
    return 1 - torch.erf(x)


@formula("special_ndtr")
def _ndtr(x: Tensor) -> Tensor:
    return (1 + torch.erf(x * math.sqrt(0.5))) * 0.5


# ------------------------------------------------------------------------------ signs


@formula("sgn")
def _sgn(x: Tensor) -> Tensor:
    return x.sign()


@formula("signbit")
def _signbit(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return x < 0 if x.dtype != torch.bool else torch.zeros_like(x)
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0))


@formula("copysign")
def _copysign(x: Tensor, y: Any) -> Tensor:
    magnitude = (x * 1.0 if not x.is_floating_point() else x).abs()
    if not isinstance(y, Tensor):
        return -magnitude if math.copysign(1, y) < 0 else magnitude
    return torch.where(_signbit(y), -magnitude, magnitude)


@formula("heaviside")
def _heaviside(x: Tensor, values: Tensor) -> Tensor:
    return torch.where(x == 0, values, (x > 0).to(x.dtype))


@formula("conj", "conj_physical", "resolve_conj", "resolve_neg", "real")
def _same(x: Tensor) -> Tensor:
    if x.is_complex():
        raise NotImplementedError("complex numbers")
    return x.clone()


# ------------------------------------------------------------------------------ comparisons


@formula("isfinite")
def _isfinite(x: Tensor) -> Tensor:
    return ~(x.isinf() | x.isnan())


@formula("isposinf")
def _isposinf(x: Tensor) -> Tensor:
    return x.isinf() & (x > 0)


@formula("isneginf")
def _isneginf(x: Tensor) -> Tensor:
    return x.isinf() & (x < 0)


@formula("isreal")
def _isreal(x: Tensor) -> Tensor:
    return x == x if not x.is_floating_point() else x.isnan() | (x == x)


@formula("isclose")
def _isclose(x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8,
             equal_nan: bool = False) -> Tensor:
    result = x == y
    if equal_nan and x.is_floating_point():
        result = result | (x.isnan() & y.isnan())
    if x.dtype == torch.bool or (rtol == 0 and atol == 0):
        return result
    distance = (x - y).abs()
    near = distance <= atol + (rtol * y).abs()
    return result | (near & _isfinite(distance) if x.is_floating_point() else near)


@formula("fmax")
def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return _ignore_nan(torch.maximum(x, y), x, y)


@formula("fmin")
def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return _ignore_nan(torch.minimum(x, y), x, y)


def _ignore_nan(result: Tensor, x: Tensor, y: Tensor) -> Tensor:
    if not result.is_floating_point():
        return result
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, result))


@formula("nan_to_num")
def _nan_to_num(x: Tensor, nan: float | None = None, posinf: float | None = None,
                neginf: float | None = None) -> Tensor:
    if not x.is_floating_point():
        return x.clone()
    limits = torch.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    finite = torch.where(x.isnan(), torch.full_like(x, 0.0 if nan is None else nan), x)
    finite = torch.where(_isposinf(x), torch.full_like(x, high), finite)
    return torch.where(_isneginf(x), torch.full_like(x, low), finite)
