"""Addition, subtraction, multiplication, true division and negation, with Python's operators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS
from ...tensor import dtypes as types
from ...tensor.dtypes import BOOL, FLOATS
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..core.arguments.legacy_order import in_order
from ..core.dispatch import make_python_operator, reflect
from ..core.dtype_refusals import Refusal
from ..core.errors import answer_failed
from ..core.inplace import make_python_in_place
from ..core.operator import Array, Number, Promotion
from ..core.registry import composite, numbers_are_operands, pointwise, writes_by_operators
from ..core.sample_inputs import Rng, Sample, pairs, pairs_nonzero, real_line


def _is_bool(x: Any) -> bool:
    return x.dtype is types.bool_ if isinstance(x, Tensor) else isinstance(x, (bool, np.bool_))


class _NoBools(Refusal):
    """Refusal of subtraction if either operand is bool."""

    __slots__ = ()

    def __call__(self, operator: Any, operands: tuple, common: Any) -> None:
        if not any(map(_is_bool, operands)):
            return
        if all(isinstance(x, Tensor) and _is_bool(x) for x in operands):
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
                "`^` or `logical_xor()` operator instead."
            )
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@pointwise(name="_add", node="AddBackward0", ref=lambda x, y: x + y, samples=pairs, expose=(),
           ufunc=np.add)
def _add(input: Array | Number, other: Array | Number) -> Array:
    """Add element by element, input + other.

    >>> torch.tensor([1., 2.]) + 3
    tensor([4., 5.])
    """
    return np.add(input, other)


@_add.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@_add.vjp("other")
def _(g: Tensor) -> Tensor:
    return g


def starts_with_number(input: Any, other: Any) -> bool:
    """Whether the first operand is a number: 1 - x is rsub, 1 / x a reciprocal times 1."""
    return not isinstance(input, Tensor)


@pointwise(name="_sub", node=("SubBackward0", "RsubBackward1"), overload=starts_with_number,
           ref=lambda x, y: x - y, samples=pairs, expose=(), ufunc=np.subtract,
           refuse=_NoBools(BOOL))
def _sub(input: Array | Number, other: Array | Number) -> Array:
    """Subtract element by element, input - other.

    >>> torch.tensor([1., 2.]) - 3
    tensor([-2., -1.])
    """
    return np.subtract(input, other)


@_sub.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@_sub.vjp("other")
def _(g: Tensor) -> Tensor:
    return -g


@pointwise(ref=lambda x, y: x * y, samples=pairs, aliases=("multiply",), ufunc=np.multiply)
def mul(input: Array | Number, other: Array | Number) -> Array:
    """Multiply element by element, input * other, with broadcasting.

    >>> torch.mul(torch.tensor([1., 2.]), 3)
    tensor([3., 6.])
    """
    return np.multiply(input, other)


@mul.vjp("input")
def _(g: Tensor, other: Tensor | Number) -> Tensor:
    return g * other


@mul.vjp("other")
def _(g: Tensor, input: Tensor | Number) -> Tensor:
    return g * input


@pointwise(name="_div", node=("DivBackward0", "MulBackward0"), overload=starts_with_number,
           promotion=Promotion.FLOATING,
           ref=lambda x, y: x / y, samples=pairs_nonzero, expose=(), ufunc=np.divide)
def _div(input: Array | Number, other: Array | Number) -> Array:
    """True division, input / other."""
    return np.divide(input, other)


@_div.vjp("input")
def _(g: Tensor, other: Tensor | Number) -> Tensor:
    return g / other


@_div.vjp("other")
def _(g: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor:
    return -g * _div(_div(input, other), other)  # `/` decides whether a number is 1


_not_bool = Refusal(BOOL, error=lambda operator, kind: RuntimeError(
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` or `logical_not()` operator instead."))


@pointwise(ref=lambda x: 0 - x, samples=real_line, aliases=("negative",), ufunc=np.negative,
           refuse=_not_bool)
def neg(input: Array) -> Array:
    """Negate each element, -input.

    >>> torch.neg(torch.tensor([1., -2.]))
    tensor([-1.,  2.])
    """
    return np.negative(input)


@neg.vjp
def _(g: Tensor) -> Tensor:
    return -g


def _with_factor(rng: Rng) -> Iterator[Sample]:
    for (x, y), _ in pairs(rng):
        yield (x, y, -0.5), {}


@pointwise(name="_add_scaled", node="AddBackward0", ref=lambda x, y, alpha: x + alpha * y,
           samples=_with_factor, expose=(), takes_computed_numbers=True)
def _add_scaled(input: Array, other: Array, alpha: Number | Tensor) -> Array:
    """input + alpha * other."""
    return input + other * alpha


@_add_scaled.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@_add_scaled.vjp("other")
def _(g: Tensor, alpha: Number | Tensor) -> Tensor:
    return g * alpha


def _can_fuse_alpha(input: Any, other: Any, alpha: Any) -> bool:
    """Whether to scale and add in one operator: large float tensors of one dtype, and a float
    alpha other than NaN."""
    return (
        alpha.__class__ is float and isinstance(other, Tensor) and isinstance(input, Tensor)
        and input._array.size > MAX_NUMPY_POINTWISE_ELEMENTS
        and input._array.dtype == other._array.dtype
        and input.dtype.is_floating_point and not math.isnan(alpha)
    )


@numbers_are_operands
@composite()
def add(
    input: Tensor | Number, other: Any, *old: Any, alpha: Number | None = 1,
    out: Tensor | None = None
) -> Tensor:
    """Return input + alpha * other, with broadcasting.

    >>> torch.add(torch.tensor([1., 2.]), 3, alpha=2)
    tensor([7., 8.])
    """
    if old:
        return in_order(add, "add", (input, other, *old), {"alpha": alpha, "out": out})
    if _can_fuse_alpha(input, other, alpha):
        return _add_scaled(input, other, alpha, out=out)
    return _add(input, _multiply_by_alpha(other, alpha, input), out=out)


@writes_by_operators
@numbers_are_operands
@composite(expose=("Tensor",))
def add_(self: Tensor, other: Any, *old: Any, alpha: Number | None = 1) -> Tensor:
    """`add` in place: add alpha * other."""
    if old:
        return in_order(add_, "add_", (self, other, *old), {"alpha": alpha})
    if alpha.__class__ is int and alpha == 1:
        return _add.operator.twin(self, other)
    if _can_fuse_alpha(self, other, alpha):
        return _add_scaled.operator.twin(self, other, alpha)
    return _add.operator.twin(self, _multiply_by_alpha(other, alpha, self))


@numbers_are_operands
@composite(aliases=("subtract",))
def sub(
    input: Tensor | Number, other: Any, *old: Any, alpha: Number | None = 1,
    out: Tensor | None = None
) -> Tensor:
    """Return input - alpha * other, with broadcasting.

    >>> torch.sub(torch.tensor([1., 2.]), 3, alpha=2)
    tensor([-5., -4.])
    """
    if old:
        return in_order(sub, "sub", (input, other, *old), {"alpha": alpha, "out": out})
    if isinstance(alpha, float) and _can_fuse_alpha(input, other, alpha):
        return _add_scaled(input, other, -alpha, out=out)
    return _sub(input, _scale_subtrahend(other, alpha, input), out=out)


@writes_by_operators
@numbers_are_operands
@composite(expose=("Tensor",), aliases=("subtract_",))
def sub_(self: Tensor, other: Any, *old: Any, alpha: Number | None = 1) -> Tensor:
    """`sub` in place: subtract alpha * other."""
    if old:
        return in_order(sub_, "sub_", (self, other, *old), {"alpha": alpha})
    if alpha.__class__ is int and alpha == 1:
        return _sub.operator.twin(self, other)
    if isinstance(alpha, float) and _can_fuse_alpha(self, other, alpha):
        return _add_scaled.operator.twin(self, other, -alpha)
    return _sub.operator.twin(self, _scale_subtrahend(other, alpha, self))


@numbers_are_operands
def _multiply_by_alpha(other: Any, alpha: Any, like: Any) -> Any:
    """Return other * alpha. Raises RuntimeError if alpha's type does not fit the dtype of the sum
    of `like` and `other`."""
    if alpha.__class__ is int and alpha == 1:
        return other
    if alpha.__class__ is float and other.__class__ is like.__class__ is Tensor \
            and other._array.dtype is like._array.dtype and other._array.dtype in FLOATS:
        return other * alpha
    kind = result_dtype((like, other))
    if isinstance(alpha, (float, complex)) and not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating "
                           "point number.")
    if isinstance(alpha, bool) and kind is not types.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, complex) and not kind.is_complex:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex "
                           "number.")
    if kind is types.bool_:
        return other * bool(alpha) if isinstance(other, Tensor) else other and bool(alpha)
    if isinstance(other, Tensor) and other.dtype is types.bool_:
        other = other.to(kind)  # bools times an integer would be int64
    return other * alpha


@numbers_are_operands
def _scale_subtrahend(other: Any, alpha: Any, like: Any) -> Any:
    """Return other * alpha, or a bool as it is, which the subtraction refuses."""
    return other if _is_bool(other) else _multiply_by_alpha(other, alpha, like)


@numbers_are_operands
@composite(expose=("torch",),
           node=("RsubBackward0", "RsubBackward1"),
           overload=lambda input, other, **_: not isinstance(other, Tensor))
def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Subtract with the operands swapped, other - alpha * input.

    >>> torch.rsub(torch.tensor([1., 2.]), 5)
    tensor([4., 3.])
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            "rsub(): argument 'input' (position 1) must be Tensor, not " + type(input).__name__
        )
    return _sub(other, _multiply_by_alpha(input, alpha, other))


@composite()
def positive(input: Tensor) -> Tensor:
    """Return the tensor itself, like unary plus; RuntimeError for bools.

    >>> torch.positive(torch.tensor([1., -2.]))
    tensor([ 1., -2.])
    """
    try:
        is_bool = input.dtype is types.bool_
    except AttributeError as error:
        return answer_failed(error, "positive", positive, (input,))
    if is_bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


for _name, _operator in (
    ("__add__", _add), ("__radd__", _add), ("__sub__", _sub), ("__mul__", mul), ("__rmul__", mul),
    ("__truediv__", _div),
):
    setattr(Tensor, _name, make_python_operator(_operator.operator, _name))
_methods: Any = Tensor
_methods.__rsub__ = reflect(_sub.operator)
for _name, _operator in (("add", _add), ("sub", _sub), ("mul", mul), ("truediv", _div)):
    setattr(Tensor, f"__i{_name}__", make_python_in_place(_operator.operator.twin))
_methods.__neg__, _methods.__pos__ = neg, positive
_methods.__div__ = Tensor.__truediv__
_methods.__idiv__ = _methods.__itruediv__
