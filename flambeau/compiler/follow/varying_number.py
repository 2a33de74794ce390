"""Numbers that vary from call to call: from the second value on they are inputs of the list.

A list is compared with all plain values in it, so a number that changes (a share of mixup, a
temperature) would make a new path of every call. Where only that differs, the list ends before, and
goes on with the number as memory from outside: one more program, once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...nn.parameter import Parameter
from ...ops.core.registry import PUBLIC, Operator
from ...tensor.tensor import Tensor, wrap
from .hooks import Hook

# Rounded once, so that a number and a tensor without dimensions give the same bits.
_EXACT = frozenset((np.add, np.subtract, np.multiply, np.divide))
# Without keywords they are one of these operators.
EXACT_COMPOSITES = frozenset(
    PUBLIC[space][name] for space in ("torch", "Tensor") for name in ("add", "sub", "mul", "div")
)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_number_alone(operator: Operator, expected: tuple, actual: tuple) -> bool:
    """Whether an operator's operands differ from the listed ones in one number only."""
    if operator.ufunc not in _EXACT or len(expected) != len(actual):
        return False
    differ = [(a, b) for a, b in zip(expected, actual, strict=True)
              if b.__class__ in (int, float) and (a.__class__ is not b.__class__ or a != b)]
    return len(differ) == 1 and differ[0][0].__class__ in (int, float)


def is_listed_but_for_number(hook: Hook, listed: Iterable[tuple[Hook, tuple]], actual: tuple
                             ) -> bool:
    """Whether a composite function, called without keywords, was listed with another number and
    otherwise the same plain arguments, `actual`."""
    if hook.function not in EXACT_COMPOSITES or len(actual) != 2:
        return False
    return any(
        other is hook and len(expected) == 2 and expected[0] is actual[0]
        and expected[1].__class__ in (int, float) and actual[1].__class__ in (int, float)
        for other, expected in listed
    )


def with_tensor(args: tuple) -> tuple | None:
    """The arguments with the number as a tensor; None if the result could differ."""
    if len(args) != 2 or args[1].__class__ not in (int, float) \
            or args[0].__class__ not in (Tensor, Parameter):
        return None
    kind = args[0]._array.dtype
    if kind not in _FLOATS:
        return None
    return args[0], wrap(np.array(args[1], kind))
