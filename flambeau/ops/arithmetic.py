"""Arithmetic: the four operations, powers, remainders, and Python's operators for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from .dispatch import python_operator, reflected
from .registry import Array, Promotion, composite, pointwise
from .samples import pairs, pairs_nonzero, real_line


def _subtractable(a: Array, b: Array) -> Array:
    if a.dtype == np.bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` "
            "or `logical_xor()` operator instead."
        )
    return np.subtract(a, b)


@pointwise(name="_add", node="AddBackward0", ref=lambda x, y: x + y, samples=pairs, expose=())
def _add(input: Array, other: Array) -> Array:
    """Sum, input + other.

    >>> torch.tensor([1., 2.]) + 3
    tensor([4., 5.])
    """
    return np.add(input, other)


@_add.vjp("input")
def _(g):
    return g


@_add.vjp("other")
def _(g):
    return g


@pointwise(name="_sub", node="SubBackward0", ref=lambda x, y: x - y, samples=pairs, expose=())
def _sub(input: Array, other: Array) -> Array:
    """Difference, input - other."""
    return _subtractable(input, other)


@_sub.vjp("input")
def _(g):
    return g


@_sub.vjp("other")
def _(g):
    return -g


@pointwise(ref=lambda x, y: x * y, samples=pairs, aliases=("multiply",))
def mul(input: Array, other: Array) -> Array:
    """Product, input * other."""
    return np.multiply(input, other)


@mul.vjp("input")
def _(g, other):
    return g * other


@mul.vjp("other")
def _(g, input):
    return g * input


@pointwise(name="_div", node="DivBackward0", promotion=Promotion.FLOATING,
           ref=lambda x, y: x / y, samples=pairs_nonzero, expose=())  # fmt: skip
def _div(input: Array, other: Array) -> Array:
    """True division, input / other."""
    return np.divide(input, other)


@_div.vjp("input")
def _(g, other):
    return g / other


@_div.vjp("other")
def _(g, y, other):
    return -g * y / other


@pointwise(ref=lambda x: 0 - x, samples=real_line, aliases=("negative",))
def neg(input: Array) -> Array:
    """Negation, -input."""
    if input.dtype == np.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    return np.negative(input)


@neg.vjp
def _(g):
    return -g


@composite()
def add(input, other, *, alpha=1, out=None):
    """Sum, input + alpha * other, with broadcasting.

    >>> torch.add(torch.tensor([1., 2.]), 3, alpha=2)
    tensor([7., 8.])
    """
    return _add(input, _scaled(other, alpha, input), out=out)


@composite(expose=("Tensor",))
def add_(self, other, *, alpha=1):
    """Adds alpha * other in place."""
    return _add.operator.twin(self, _scaled(other, alpha, self))


@composite(aliases=("subtract",))
def sub(input, other, *, alpha=1, out=None):
    """Difference, input - alpha * other, with broadcasting."""
    return _sub(input, _scaled(other, alpha, input), out=out)


@composite(expose=("Tensor",), aliases=("subtract_",))
def sub_(self, other, *, alpha=1):
    """Subtracts alpha * other in place."""
    return _sub.operator.twin(self, _scaled(other, alpha, self))


def _scaled(other: Any, alpha: Any, like: Any) -> Any:
    if alpha.__class__ is int and alpha == 1:
        return other
    kind = like.dtype if isinstance(like, Tensor) else types.of_scalar(like)
    if isinstance(alpha, (float, complex)) and not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating "
                           "point number.")  # fmt: skip
    if isinstance(alpha, bool) and kind is not types.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    return other * alpha


for _name, _operator in (("add", _add), ("sub", _sub), ("mul", mul), ("truediv", _div)):
    setattr(Tensor, f"__{_name}__", python_operator(_operator.operator))
    setattr(Tensor, f"__r{_name}__", reflected(_operator.operator))
Tensor.__iadd__, Tensor.__isub__, Tensor.__imul__ = add_, sub_, Tensor.mul_
Tensor.__neg__ = neg
