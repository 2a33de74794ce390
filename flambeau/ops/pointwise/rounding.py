"""Rounding, magnitudes and signs, and the parts of a floating-point number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor.dtypes import BOOL, COMPLEX, FROM_NUMPY, HALF, INTEGER, dtype as Dtype
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import build_missing_kernel_error, result_dtype
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.inplace import overwrite
from ..core.operator import Array, Number, Promotion
from ..core.output_layout import Layout
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, pointwise, writes_by_operators
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, real_line
from ..core.scalar_conversion import get_largest
from ..creation.creation import zeros_like
from ..native.pointwise import try_kernel_with
from .selection import select


def away_from_zero(rng: Rng) -> Iterator[Sample]:
    """Real numbers on both sides of zero, none near it."""
    for (_, x), _ in pairs_nonzero(rng):
        yield (x,), {}


def between_integers(rng: Rng) -> Iterator[Sample]:
    """Real numbers, none of them near an integer or half of one."""
    for shape in ((), (5,), (3, 4)):
        yield (rng.integers(-3, 3, shape) + rng.uniform(0.1, 0.4, shape),), {}


def _refuse_rounding(operator: Any, kind: Dtype) -> Exception:
    if kind.is_complex:
        return NotImplementedError(f"{operator.name} is not supported for complex inputs")
    return dtype_refusals.as_kernel(operator.name + "_vml_cpu")(operator, kind)


_rounded = dtype_refusals.Refusal(BOOL, COMPLEX, error=_refuse_rounding)


@pointwise(ref=lambda x: -np.ceil(-x), samples=between_integers, refuse=_rounded,
           ufunc=np.floor)
def floor(input: Array) -> Array:
    """Round down to the nearest integer.

    >>> torch.floor(torch.tensor([1.5, -1.5]))
    tensor([ 1., -2.])
    """
    return np.floor(input)


@pointwise(ref=lambda x: -np.floor(-x), samples=between_integers, refuse=_rounded,
           ufunc=np.ceil)
def ceil(input: Array) -> Array:
    """Round up to the nearest integer.

    >>> torch.ceil(torch.tensor([1.5, -1.5]))
    tensor([ 2., -1.])
    """
    return np.ceil(input)


@pointwise(ref=lambda x: np.sign(x) * np.floor(np.abs(x)), samples=between_integers,
           refuse=_rounded, ufunc=np.trunc, aliases=("fix",))
def trunc(input: Array) -> Array:
    """Round toward zero, dropping the fractional part.

    >>> torch.trunc(torch.tensor([1.5, -1.5]))
    tensor([ 1., -1.])
    """
    return np.trunc(input)


def _rounding_samples(rng: Rng) -> Iterator[Sample]:
    for args, _ in between_integers(rng):
        yield args, {}
    yield (rng.normal(size=5) * 100,), {"decimals": -1}


@pointwise(ref=lambda x, decimals=0: np.floor(x * 10.0**decimals + 0.5) / 10.0**decimals,
           samples=_rounding_samples, refuse=_rounded, aliases=("special.round",),
           node=("RoundBackward0", "RoundBackward1"),
           overload=lambda input, decimals: decimals != 0)
def round(input: Array, *, decimals: int = 0) -> Array:
    """Round to `decimals` places; halves go to the even neighbor.

    >>> torch.round(torch.tensor([0.5, 1.5, -1.7]))
    tensor([ 0.,  2., -2.])
    """
    if not decimals:
        return np.rint(input) if input.dtype.kind == "f" else input.copy()
    if input.dtype.kind != "f":
        raise build_missing_kernel_error("round_cpu", input.dtype)
    if decimals > 0:
        return np.rint(input * 10.0**decimals) / 10.0**decimals
    return np.rint(input / 10.0**-decimals) * 10.0**-decimals


for _operator in (floor, ceil, trunc, round):

    @_operator.vjp
    def _(g: Tensor) -> Tensor:
        return zeros_like(g)


@pointwise(ref=lambda x: np.sign(x) * (np.abs(x) % 1), samples=between_integers,
           refuse=dtype_refusals.integers)
def frac(input: Array) -> Array:
    """Fractional part, input - trunc(input), signed like input.

    >>> torch.frac(torch.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])
    """
    return np.subtract(input, np.trunc(input))


@frac.vjp
def _(g: Tensor) -> Tensor:
    return g


# ------------------------------------------------------------------------------- magnitude, sign


@pointwise(ref=lambda x: np.maximum(x, -x), samples=away_from_zero, aliases=("absolute",),
           holomorphic=False, refuse=dtype_refusals.bools)
def abs(input: Array) -> Array:
    """Absolute value; the magnitude for complex numbers.

    Returns:
        Tensor: Of the shape of `input` and its dtype, the real one for complex numbers.

    >>> torch.abs(torch.tensor([1., -2.]))
    tensor([1., 2.])
    """
    return np.absolute(input)


@abs.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * sgn(input)


def _sign(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "b":
        return x.copy()
    y = np.sign(x)
    return np.where(np.isnan(x), x.dtype.type(0), y) if x.dtype.kind == "f" else y


_sign_real = dtype_refusals.Refusal(COMPLEX, error=lambda operator, kind: NotImplementedError(
    "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn "
    "instead."))


@pointwise(ref=lambda x: (x > 0) * 1.0 - (x < 0), samples=away_from_zero, refuse=_sign_real)
def sign(input: Array) -> Array:
    """Sign of each element, -1, 0 or 1; 0 for NaN.

    >>> torch.sign(torch.tensor([2., -3., 0.]))
    tensor([ 1., -1.,  0.])
    """
    return _sign(input)


@sign.vjp
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


@pointwise(ref=lambda x: x / np.abs(x), samples=away_from_zero, holomorphic=False)
def sgn(input: Array) -> Array:
    """Sign of each element; for complex numbers input / |input|, and 0 at 0.

    >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    if input.dtype.kind != "c":
        return _sign(input)
    magnitude, y = np.abs(input), np.empty_like(input)
    with np.errstate(all="ignore"):
        y.real, y.imag = input.real / magnitude, input.imag / magnitude
    return np.where(magnitude == 0, np.zeros((), y.dtype), y)


@sgn.vjp
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    if not input.is_complex():
        return zeros_like(g)
    # Only what turns the number counts: the part of g along y is taken away.
    magnitude = input.abs()
    turned = (g - (g.real * y.real + g.imag * y.imag) * y) / magnitude
    return select(magnitude == 0, 0, turned)


_signbit_real = dtype_refusals.Refusal(COMPLEX, error=lambda operator, kind: NotImplementedError(
    "signbit is not implemented for complex tensors."))


@pointwise(ref=lambda x: x < 0, samples=away_from_zero, promotion=Promotion.PREDICATE,
           differentiable=False, inplace=False, refuse=_signbit_real)
def signbit(input: Array) -> Array:
    """Test whether the sign bit is set, as for negative numbers and -0.

    >>> torch.signbit(torch.tensor([1., -0.]))
    tensor([False,  True])
    """
    return np.signbit(input) if input.dtype.kind == "f" else np.less(input, 0)


@pointwise(ref=lambda x, y: np.abs(x) * np.sign(y), samples=pairs_nonzero, ufunc=np.copysign,
           promotion=Promotion.FLOATING, refuse=dtype_refusals.complex_numbers,
           node=("CopysignBackward0", "CopysignBackward1"),
           overload=lambda input, other: not isinstance(other, Tensor))
def copysign(input: Array, other: Array | Number) -> Array:
    """Return numbers with the magnitude of input and the sign of other.

    >>> torch.copysign(torch.tensor([1., 2.]), torch.tensor([-0., 3.]))
    tensor([-1.,  2.])
    """
    return np.copysign(input, other)


@copysign.vjp("input")
def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    return select(input == 0, 0, g * (input.sign() * y.sign()))


@copysign.vjp("other")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


# ------------------------------------------------------------------------------- parts, neighbors


def _nan_to_num(
    x: np.ndarray, nan: float, posinf: float | None, neginf: float | None
) -> np.ndarray:
    limit = get_largest(x.dtype)
    high = limit if posinf is None else float(posinf)
    low = -limit if neginf is None else float(neginf)
    replacements = (float(nan), high, low)
    y = None
    if x.size > MAX_NUMPY_COSTLY_ELEMENTS:
        y = try_kernel_with(_replace, (x,), replacements, {})
    return _replace(x, *replacements) if y is None else y


def _replace(x: np.ndarray, nan: float, high: float, low: float) -> np.ndarray:
    kind = x.dtype.type
    y = np.where(np.isnan(x), kind(nan), x)
    y = np.where(np.equal(x, np.inf), kind(high), y)
    return np.where(np.equal(x, -np.inf), kind(low), y)


@pointwise(ref=lambda x, nan=0.0: np.nan_to_num(x, nan=nan), samples=real_line,
           promotion=Promotion.NONE)
def nan_to_num(
    input: Array, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Replace NaN by `nan` and infinities by the given numbers or the dtype's limits.

    >>> torch.nan_to_num(torch.tensor([1., float("nan"), float("inf")]), posinf=9.)
    tensor([1., 0., 9.])
    """
    nan = 0.0 if nan is None else nan
    refuse_eight_bit(input, "nan_to_num")
    if input.dtype.kind in "biu":
        return input.copy()
    if input.dtype.kind != "c":
        return _nan_to_num(input, nan, posinf, neginf)
    y = np.empty_like(input)
    y.real = _nan_to_num(input.real, nan, posinf, neginf)
    y.imag = _nan_to_num(input.imag, nan, posinf, neginf)
    return y


@nan_to_num.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return select(input.isfinite(), g, 0)


@pointwise(ref=np.nextafter, samples=pairs_nonzero, promotion=Promotion.NONE)
def nextafter(input: Array, other: Array) -> Array:
    """Next floating-point number after input in the direction of other.

    >>> torch.nextafter(torch.tensor([1.]), torch.tensor([2.])) == 1 + 2**-23
    tensor([True])
    """
    kind = result_dtype((input, other))
    if not kind.is_floating_point:
        raise build_missing_kernel_error("nextafter_cpu", kind)
    return np.nextafter(input.astype(kind.numpy), other.astype(kind.numpy))


@nextafter.vjp("input")
def _(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return select(input == other, 0, g)


@nextafter.vjp("other")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


_Frexp = return_type("frexp", "mantissa", "exponent")


@opaque(leading=True, layout=Layout.ITERATOR,
        ref=np.frexp, samples=away_from_zero, result_type=_Frexp, constant_outputs=(1,))
def frexp(input: Array) -> tuple[np.ndarray, ...]:
    """Decompose input as mantissa * 2**exponent, with 0.5 <= |mantissa| < 1.

    >>> torch.frexp(torch.tensor([6.])).exponent
    tensor([3], dtype=torch.int32)
    """
    kind = FROM_NUMPY[input.dtype]
    if not kind.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = np.frexp(input.astype(compute_dtype(input.dtype), copy=False))
    mantissa = np.asarray(mantissa)
    return (mantissa.astype(input.dtype) if kind in HALF else mantissa), np.asarray(exponent)


@frexp.vjp
def _(gs: tuple[Tensor, None], input: Tensor, ys: tuple[Tensor, ...]) -> Tensor:
    return gs[0] / (ys[1].to(input.dtype)).exp2()


@composite(node="LdexpBackward0")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Multiply by a power of two, input * 2**other.

    >>> torch.ldexp(torch.tensor([1., 3.]), torch.tensor([1, 2]))
    tensor([ 2., 12.])
    """
    for i, (name, x) in enumerate((("input", input), ("other", other))):
        if not isinstance(x, Tensor):
            raise TypeError(f"ldexp(): argument '{name}' (position {i + 1}) must be Tensor, not "
                            f"{type(x).__name__}")
    from .arithmetic import mul

    if input.is_floating_point() and other.dtype.category == INTEGER:
        other = other.to(input.dtype)  # the power has the input's dtype
    return mul(input, 2.0**other, out=out)


@writes_by_operators
@composite(expose=("Tensor", "torch"))
def ldexp_(self: Tensor, other: Tensor) -> Tensor:
    """`ldexp` in place."""
    return overwrite(self, "ldexp_", ldexp, other)


def _check_same_dtype(operator: Any, operands: Any, common: Any) -> None:
    kinds = {x.dtype for x in operands if isinstance(x, Tensor)}
    if common.category == COMPLEX:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if len(kinds) > 1:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@pointwise(ref=np.heaviside, samples=pairs_nonzero, node="NotImplemented", refuse=_check_same_dtype)
def heaviside(input: Array, values: Array) -> Array:
    """Heaviside step function: 0 below 0, 1 above, and `values` at 0.

    >>> torch.heaviside(torch.tensor([-1., 0., 2.]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return np.where(np.equal(input, 0), values, np.greater(input, 0).astype(input.dtype))


_methods: Any = Tensor
_methods.__abs__ = abs
