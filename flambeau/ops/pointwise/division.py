"""Division: true, rounded down or towards zero, and what then remains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import BOOL, COMPLEX
from ...tensor.tensor import Tensor
from ..core import dtype_refusals
from ..core.dispatch import make_python_operator, reflect
from ..core.inplace import make_python_in_place
from ..core.operator import Array, Number
from ..core.registry import composite, numbers_are_operands, pointwise, writes_by_operators
from ..core.sample_inputs import pairs_nonzero
from ..creation.creation import zeros_like
from .arithmetic import _div


def _check_divisor(dividend: Any, divisor: Any) -> None:
    if divisor.dtype.kind in "iu" and not np.all(divisor) and np.broadcast(dividend, divisor).size:
        raise add_notes(RuntimeError("ZeroDivisionError"), "an integer is divided by zero")


_floor = dtype_refusals.Refusal(BOOL, COMPLEX, error=dtype_refusals.as_kernel("div_floor_cpu"))
_trunc = dtype_refusals.Refusal(BOOL, COMPLEX, error=dtype_refusals.as_kernel("div_trunc_cpu"))


def _floor_in_steps(x: np.ndarray, y: np.ndarray, rounded: Callable) -> np.ndarray:
    """floor(x / y) of half precision, in the steps of PyTorch's kernel."""
    rest = rounded(np.fmod(x, y))
    quotient = rounded(rounded(x - rest) / y)
    quotient = np.where((rest != 0) & ((y < 0) != (rest < 0)), rounded(quotient - 1), quotient)
    down = np.floor(quotient)
    down = np.where(rounded(quotient - down) > 0.5, rounded(down + 1), down)
    exact = x / y
    return np.where(y == 0, exact, np.where(quotient == 0, np.copysign(0, exact), down))


def _truncate_in_steps(x: np.ndarray, y: np.ndarray, rounded: Callable) -> np.ndarray:
    """x / y of half precision, rounded toward zero after it was rounded to half precision."""
    return np.trunc(rounded(x / y))


@pointwise(ref=lambda x, y: np.floor(x / y), samples=pairs_nonzero, node="NotImplemented",
           refuse=_floor, steps_of_halves=_floor_in_steps)
def floor_divide(input: Array | Number, other: Array | Number) -> Array:
    """Divide and round down, floor(input / other); RuntimeError for integer division by 0.

    >>> torch.floor_divide(torch.tensor([5, -5]), 2)
    tensor([ 2, -3])
    """
    _check_divisor(input, other)
    return np.floor_divide(input, other)


@pointwise(name="_div_floor", node="DivBackward2", ref=lambda x, y: np.floor(x / y), expose=(),
           samples=pairs_nonzero, refuse=_floor, steps_of_halves=_floor_in_steps)
def div_floor(input: Array | Number, other: Array | Number) -> Array:
    """floor(input / other)."""
    _check_divisor(input, other)
    return np.floor_divide(input, other)


@div_floor.vjp("input other")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


@pointwise(name="_div_trunc", node="DivBackward2", ref=lambda x, y: np.trunc(x / y), expose=(),
           samples=pairs_nonzero, refuse=_trunc, steps_of_halves=_truncate_in_steps)
def div_trunc(input: Array | Number, other: Array | Number) -> Array:
    """input / other rounded toward zero."""
    _check_divisor(input, other)
    x: Any = input  # an array: numbers have been converted
    if x.dtype.kind == "f":
        return np.trunc(np.divide(x, other))
    y = np.floor_divide(input, other)
    inexact = np.not_equal(np.multiply(y, other), input)
    return np.add(y, inexact & (np.less(input, 0) != np.less(other, 0)))


@div_trunc.vjp("input other")
def _(g: Tensor) -> Tensor:
    return zeros_like(g)


def _choose_division(rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return _div
    if rounding_mode == "floor":
        return div_floor
    if rounding_mode == "trunc":
        return div_trunc
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


@numbers_are_operands
@composite(aliases=("divide",))
def div(
    input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None,
    out: Tensor | None = None
) -> Tensor:
    """Divide element by element, input / other, optionally rounded ("floor" or "trunc").

    Returns:
        Tensor: Of the broadcast shape of both, in their promoted dtype; of integers the default
            floating dtype, unless the result is rounded.

    >>> torch.div(torch.tensor([5., -5.]), 2)
    tensor([ 2.5000, -2.5000])
    >>> torch.div(torch.tensor([5, -5]), 2, rounding_mode="trunc")
    tensor([ 2, -2])
    """
    return _choose_division(rounding_mode)(input, other, out=out)


@writes_by_operators
@numbers_are_operands
@composite(expose=("Tensor",), aliases=("divide_",))
def div_(self: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """`div` in place."""
    return _choose_division(rounding_mode).operator.twin(self, other)


@composite()
def true_divide(input: Tensor | Number, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Divide element by element, input / other; integers give the default floating dtype.

    Returns:
        Tensor: Of the broadcast shape of both, in their promoted dtype; of integers the default
            floating dtype.

    >>> torch.true_divide(torch.tensor([1, 2]), 2)
    tensor([0.5000, 1.0000])
    """
    return _div(input, other, out=out)


@writes_by_operators
@composite(expose=("Tensor",))
def true_divide_(self: Tensor | Number, other: Any) -> Tensor:
    """`true_divide` in place."""
    return _div.operator.twin(self, other)


# ------------------------------------------------------------------------------- remainders


def divides_by_tensor(input: Any, other: Any) -> bool:
    """Whether the divisor is a tensor: PyTorch differentiates divisions by numbers separately."""
    return isinstance(other, Tensor)


@pointwise(ref=lambda x, y: x - y * np.floor(x / y), samples=pairs_nonzero,
           node=("RemainderBackward0", "RemainderBackward1"), overload=divides_by_tensor,
           refuse=dtype_refusals.complex_and_bool)
def remainder(input: Array | Number, other: Array | Number) -> Array:
    """Remainder of floored division, input - other * floor(input / other), signed like `other`.

    >>> torch.remainder(torch.tensor([5., -5.]), 3)
    tensor([2., 1.])
    """
    _check_divisor(input, other)
    x: Any = input
    if x.dtype.kind != "f":
        return np.remainder(x, other)
    y = np.fmod(x, other)
    return np.where((y != 0) & (np.less(other, 0) != np.less(y, 0)), y + other, y)


@remainder.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@remainder.vjp("other")
def _(g: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    return -g * div_floor(input, other)


@pointwise(ref=lambda x, y: x - y * np.trunc(x / y), samples=pairs_nonzero,
           node=("FmodBackward0", "FmodBackward1"), overload=divides_by_tensor,
           refuse=dtype_refusals.complex_and_bool)
def fmod(input: Array, other: Array | Number) -> Array:
    """Remainder of division truncated toward zero, signed like `input`.

    >>> torch.fmod(torch.tensor([5., -5.]), 3)
    tensor([ 2., -2.])
    """
    _check_divisor(input, other)
    return np.fmod(input, other)


@fmod.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@fmod.vjp("other")
def _(g: Tensor, input: Tensor, other: Tensor | Number) -> Tensor:
    return -g * div_trunc(input, other)


for _name, _operator in (("floordiv", floor_divide), ("mod", remainder)):
    setattr(Tensor, f"__{_name}__", make_python_operator(_operator.operator, f"__{_name}__"))
    setattr(Tensor, f"__r{_name}__", reflect(_operator.operator))
    setattr(Tensor, f"__i{_name}__", make_python_in_place(_operator.operator.twin))
