"""Turns numbers that vary from call to call into inputs of the segment.

Segments are compared with every plain value in them, so a number that changes (mixup's lambda, a
temperature) would start a new path in each call. Where only a number differs, the segment ends
before it, and the next one takes the number as a tensor from outside: one more program, once.
"""

from __future__ import annotations

import numpy as np

from ...autograd.mode import MODE
from ...nn.parameter import Parameter
from ...ops.core.operator import PUBLIC, Operator
from ...tensor.tensor import Tensor, wrap

# Correctly rounded, so a number and a zero-dimensional tensor give the same bits.
_EXACT = frozenset((
    np.add, np.subtract, np.multiply, np.divide, np.less, np.less_equal, np.greater,
    np.greater_equal, np.equal, np.not_equal,
))
_SCALING = "_add_scaled"  # add with alpha
# Composites of the operators above for any number: calls compare those operators instead.
TRANSPARENT = frozenset(
    PUBLIC[space][name] for space, names in (
        ("torch", ("add", "sub", "mul", "div", "rsub")),
        ("Tensor", ("add", "sub", "mul", "div", "add_", "sub_")),
    ) for name in names
)
_NUMBERS = (int, float)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_number_alone(operator: Operator, expected: tuple, actual: tuple) -> bool:
    """Whether an operator's operands differ from the expected ones in a single number."""
    if operator.ufunc not in _EXACT and operator.name != _SCALING or len(expected) != len(actual):
        return False
    differ = [(a, b) for a, b in zip(expected, actual, strict=True)
              if b.__class__ in _NUMBERS and (a.__class__ is not b.__class__ or a != b)]
    return len(differ) == 1 and differ[0][0].__class__ in _NUMBERS


def with_tensor(args: tuple) -> tuple | None:
    """The arguments with the number as a tensor; None if that could change the result."""
    at = [i for i, x in enumerate(args) if x.__class__ in _NUMBERS]
    if len(at) != 1 or not at[0] or args[0].__class__ not in (Tensor, Parameter):
        return None
    if MODE.saved_hooks:
        return None  # they would see the number, as one tensor more that is saved
    kind = args[0]._array.dtype
    if kind not in _FLOATS:
        return None
    return *args[: at[0]], wrap(np.array(args[at[0]], kind)), *args[at[0] + 1 :]
