"""Turn numbers that vary from call to call into inputs of the segment.

Every plain value in a segment is compared, so a number that changes (mixup's lambda, a temperature)
would start a new path on each call. If only a number differs, the segment ends before it, and the
next segment takes the number as an input tensor, at the cost of one more program.
"""

from __future__ import annotations

import numpy as np

from ...autograd.mode import MODE
from ...nn.parameter import Parameter
from ...ops.core.operator import Operator
from ...tensor.tensor import Tensor, wrap
from ..trace.number_inputs import EXACT, FLOATS

_SCALING = "_add_scaled"  # add with alpha
_NUMBERS = (int, float)


def is_number_alone(operator: Operator, expected: tuple, actual: tuple) -> bool:
    """Whether exactly one number among an operator's operands differs from the expected one."""
    if operator.ufunc not in EXACT and operator.name != _SCALING or len(expected) != len(actual):
        return False
    differ = [(a, b) for a, b in zip(expected, actual, strict=True)
              if b.__class__ in _NUMBERS and (a.__class__ is not b.__class__ or a != b)]
    return len(differ) == 1 and differ[0][0].__class__ in _NUMBERS


def replace_number(args: tuple) -> tuple | None:
    """Replace the only number by a tensor; None if that could change the result."""
    positions = [i for i, x in enumerate(args) if x.__class__ in _NUMBERS]
    if len(positions) != 1 or not positions[0] or args[0].__class__ not in (Tensor, Parameter):
        return None
    if MODE.saved_hooks:
        return None  # the hooks would see the number as an extra saved tensor
    kind = args[0]._array.dtype
    if kind not in FLOATS:
        return None
    return *args[: positions[0]], wrap(np.array(args[positions[0]], kind)), *args[positions[0]
                                                                                  + 1 :]
