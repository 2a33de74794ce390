"""Powers, roots and reciprocals."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...tensor import dtypes as types
from ...tensor.dtypes import BOOL, complex32
from ...tensor.promotion import (
    build_missing_kernel_error, check_cast, legacy_name, result_dtype,
)
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.cache_blocking import blockwise
from ..core.errors import build_overload_error
from ..core.inplace import OPERANDS, make_python_in_place, overwrite
from ..core.operator import Array, Number, Promotion
from ..core.registry import composite, numbers_are_operands, pointwise, writes_by_operators
from ..core.sample_inputs import Rng, Sample, pairs_nonzero, positive, positive_pairs, real_line
from .selection import select


def _away_from_zero(rng: Rng) -> Iterator[Sample]:
    for (x, _), _ in pairs_nonzero(rng):
        yield (x,), {}


@pointwise(ref=lambda x: np.exp(np.log(x) / 2), samples=positive, promotion=Promotion.FLOATING,
           ufunc=np.sqrt)
def sqrt(input: Array) -> Array:
    """Square root; NaN for negative input.

    >>> torch.sqrt(torch.tensor([4., 2.]))
    tensor([2.0000, 1.4142])
    """
    return np.sqrt(input)


@sqrt.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g / (y + y)


@pointwise(ref=lambda x: x**-0.5, samples=positive, promotion=Promotion.FLOATING)
def rsqrt(input: Array) -> Array:
    """Reciprocal of the square root, 1 / sqrt(input).

    >>> torch.rsqrt(torch.tensor([4., 0.25]))
    tensor([0.5000, 2.0000])
    """
    return np.reciprocal(np.sqrt(input))


@rsqrt.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return g * y * y * y * -0.5


@pointwise(ref=lambda x: x**2, samples=real_line, node="PowBackward0")
def square(input: Array) -> Array:
    """Square, input * input; bools become int64.

    Returns:
        Tensor: Of the shape of `input` and its dtype, int64 for bools.

    >>> torch.square(torch.tensor([-3., 2.]))
    tensor([9., 4.])
    """
    return np.square(input if input.dtype != np.bool_ else input.astype(np.int64))


@square.vjp
def _(g: Tensor, input: Tensor) -> Tensor:
    return g * (input + input)


@pointwise(ref=lambda x: x**-1, samples=_away_from_zero,
           promotion=Promotion.FLOATING)
def reciprocal(input: Array) -> Array:
    """Reciprocal, 1 / input.

    >>> torch.reciprocal(torch.tensor([4., -0.5]))
    tensor([ 0.2500, -2.0000])
    """
    return np.reciprocal(input)


@reciprocal.vjp
def _(g: Tensor, y: Tensor) -> Tensor:
    return -g * y * y


@numbers_are_operands
def _divide_into(self: Tensor, other: Any) -> Any:
    """Return other / self, which PyTorch rounds as a product with the reciprocal."""
    if not isinstance(other, (*OPERANDS, np.ndarray)):
        return NotImplemented
    y = self.reciprocal()
    whole = other.__class__ in (int, float) and other == 1 and not y.is_complex()
    return y if whole and not y._tracked else y * other  # tracked: PyTorch's nodes


_methods: Any = Tensor
_methods.__rtruediv__ = _methods.__rdiv__ = _divide_into


# ------------------------------------------------------------------------------- pow


def _raise_arrays(input: Any, exponent: Any) -> np.ndarray:
    if input.dtype.kind in "iu":
        return _raise_integers(input, exponent)
    if input.dtype.kind == "b":
        return np.logical_or(input, np.logical_not(exponent))
    return np.power(input, exponent)


def _raise_integers(input: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Raise integers to integers. Negative powers are 0, except those of 1 and -1."""
    negative = exponent < 0
    if not negative.any():
        return np.power(input, exponent)
    y = np.power(input, np.where(negative, 0, exponent))
    signs = np.where(exponent & 1, input, np.ones_like(input))
    return np.where(negative, np.where(input == 1, 1, np.where(input == -1, signs, 0)), y).astype(
        input.dtype
    )


@pointwise(name="_pow", node=("PowBackward1", "PowBackward2"),
           overload=lambda input, exponent: not isinstance(input, Tensor), ref=np.power,
           samples=positive_pairs, expose=(),
           refuse=dtype_refusals.Refusal(BOOL, error=dtype_refusals.as_kernel("pow")))
def pow_tensor(input: Array | Number, exponent: Array | Number) -> Array:
    """Raise input to the power exponent, element by element."""
    return _raise_arrays(input, exponent)


@pow_tensor.vjp("input")
def _(g: Tensor, input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    # If the exponent is 0, the power is 1 for every input (also 0), and the gradient is 0.
    return select(exponent == 0, 0, g * exponent * pow_tensor(input, exponent - 1))


@pow_tensor.vjp("exponent")
def _(g: Tensor, y: Tensor, input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    if not isinstance(input, Tensor):
        return _differentiate_power_of_number(g, y, input, exponent)
    if y.is_complex() and not input.is_complex():
        input = input.to(y.dtype)  # a negative base has a complex logarithm
    constant = (input == 0) & _is_not_negative(exponent)  # 0**e is 0 around every e > 0
    return select(constant, 0, g * y * input.log())


def _differentiate_power_of_number(g: Tensor, y: Tensor, base: Number, exponent: Any) -> Tensor:
    if base == 0:
        return select(_is_not_negative(exponent), 0, g * y * -math.inf)
    if isinstance(base, complex) or y.is_complex():
        return g * y * cmath.log(base)
    return g * y * (math.log(base) if base > 0 else math.nan)


def _is_not_negative(exponent: Any) -> Any:
    return exponent.real >= 0 if exponent.is_complex() else exponent >= 0


def _raise_to_number(input: np.ndarray, exponent: float) -> np.ndarray:
    """Return input**exponent for a Python number; common exponents avoid the slow np.power."""
    if exponent == 2:
        return np.square(input) if input.dtype != np.bool_ else input.copy()
    if exponent == 1:
        return input.copy()
    if exponent == 0:
        return np.ones_like(input)
    if input.dtype.kind in "fc":
        if exponent == 3:
            return np.square(input) * input
        if exponent == 0.5:
            return np.sqrt(input)
        if exponent == -1:
            return np.reciprocal(input)
        if exponent == -0.5:
            return np.reciprocal(np.sqrt(input))
        return np.power(input, exponent)
    return _raise_arrays(input, np.asarray(exponent, input.dtype if exponent >= 0 else np.int64))


def _number_samples(rng: Rng) -> Iterator[Sample]:
    for (x,), _ in positive(rng):
        for exponent in (2, 3, -1.5, 0.5, 0, 1):
            yield (x, exponent), {}


@pointwise(name="_pow_number", node="PowBackward0", ref=np.power, expose=(), inplace=False,
           samples=_number_samples)
def pow_scalar(input: Array, exponent: float) -> Array:
    """Raise input to a power given as a number."""
    if input.dtype.kind == "f":
        return blockwise(lambda x: _raise_to_number(x, exponent), input)
    return _raise_to_number(input, exponent)


@pow_scalar.vjp
def _(g: Tensor, input: Tensor, exponent: float) -> Tensor:
    if exponent == 0:
        return g.new_zeros(g.shape)
    if exponent == 2:
        return g * (input * exponent)
    return g * (exponent * pow_scalar(input, exponent - 1))


def _dispatch_pow(input: Any, exponent: Any) -> Tensor:
    """Return input**exponent; either may be a number."""
    if isinstance(input, np.ndarray):
        raise build_overload_error("pow", ("input", "exponent"), (input, exponent))
    if isinstance(exponent, Tensor):
        if not isinstance(input, (Tensor, bool)) and input == 1 and not exponent._tracked:
            return exponent.new_ones(exponent.shape, dtype=result_dtype((input, exponent)))
        return pow_tensor(input, exponent)
    if not isinstance(input, Tensor):
        raise TypeError(f"pow(): argument 'input' must be Tensor, not {type(input).__name__}")
    if exponent.__class__ is not float and exponent.__class__ is not int:
        exponent = _as_number(input, exponent)
    kind = input._array.dtype
    if kind.kind in "biu":
        _check_integer_exponent(exponent)
        common = result_dtype((input, exponent))
        if common.numpy != kind:
            return pow_scalar(input.to(common), exponent)
    elif kind.itemsize == 2 and exponent.__class__ is float:
        exponent = float(np.asarray(exponent).astype(kind))  # as PyTorch rounds it
    elif exponent.__class__ is complex and kind.kind != "c":
        if kind == np.float16:
            raise build_missing_kernel_error("pow", complex32)
        return pow_scalar(input.to(input.dtype.to_complex()), exponent)
    return pow_scalar(input, exponent)


def _as_number(input: Tensor, exponent: Any) -> Any:
    if isinstance(exponent, (bool, int, float, complex)):
        return exponent
    if isinstance(exponent, np.generic):
        return exponent.item()
    raise build_overload_error("pow", ("input", "exponent"), (input, exponent))


def _check_integer_exponent(exponent: Any) -> None:
    if isinstance(exponent, int) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


@composite()
def pow(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Raise input to the power exponent; either may be a number.

    Args:
        input (Tensor or number): The base.

    >>> torch.pow(torch.tensor([1., 2., 3.]), 2)
    tensor([1., 4., 9.])
    >>> torch.pow(2, torch.tensor([1, 2, 3]))
    tensor([2, 4, 8])
    """
    y = _dispatch_pow(input, exponent)
    return y if out is None else _write_out(y, out, (input, exponent))


def _write_out(y: Tensor, out: Tensor, operands: tuple) -> Tensor:
    from ..core.out import write_out

    tensors = tuple([x for x in operands if isinstance(x, Tensor)])
    return write_out(pow_tensor.operator, y, out, tensors)


@writes_by_operators
@composite(expose=("Tensor",), explains=True)
def pow_(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """`pow` in place."""
    return overwrite(self, "pow_", _pow_for_inplace, exponent)


def _pow_for_inplace(self: Tensor, exponent: Any) -> Tensor:
    y = _dispatch_pow(self, exponent)
    check_cast(y.dtype, self.dtype)
    return y


_KNOWN = (Tensor, bool, int, float, complex, np.generic)


def _pow_operator(self: Tensor, exponent: Any) -> Any:
    if exponent.__class__ is int or exponent.__class__ is float:
        if self._array.dtype.kind == "f":
            return pow_scalar(self, exponent)
    elif not isinstance(exponent, _KNOWN):
        return NotImplemented
    return _dispatch_pow(self, exponent)


def _reflected_pow(self: Tensor, base: Any) -> Any:
    return _dispatch_pow(base, self) if isinstance(base, _KNOWN) else NotImplemented


_methods.__pow__, _methods.__rpow__ = _pow_operator, _reflected_pow
_methods.__ipow__ = make_python_in_place(pow_)


@composite(aliases=())
def float_power(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Raise input to the power exponent in float64 (complex128 for complex numbers).

    Args:
        input (Tensor or number): The base.

    >>> torch.float_power(torch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    kind = _choose_float_power_dtype((input, exponent))
    left, right = (x.to(kind) if isinstance(x, Tensor) else x for x in (input, exponent))
    y = _dispatch_pow(left, right)
    if out is None:
        return y
    if out.dtype is not kind:
        raise RuntimeError(
            f"the output given to float_power has dtype {out.dtype} but the operation's result "
            f"requires dtype {kind}"
        )
    return _write_out(y, out, (left, right))


def _choose_float_power_dtype(operands: tuple) -> types.dtype:
    if not any(isinstance(x, Tensor) for x in operands):
        raise TypeError("float_power() received an invalid combination of arguments: one of input "
                        "and exponent must be a Tensor")
    kinds = [x.dtype if isinstance(x, Tensor) else types.infer_scalar_dtype(x) for x in operands]
    return types.complex128 if any(k.is_complex for k in kinds) else types.float64


@writes_by_operators
@composite(expose=("Tensor",))
def float_power_(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """`float_power` in place; the tensor must be float64 or complex128.

    >>> torch.tensor([2.], dtype=torch.float64).float_power_(3)
    tensor([8.], dtype=torch.float64)
    """
    kind = _choose_float_power_dtype((self, exponent))
    if self.dtype is not kind:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {legacy_name(self.dtype)} but the "
            f"operation's result requires dtype {legacy_name(kind)}"
        )
    return overwrite(self, "float_power_", _dispatch_pow, exponent)
