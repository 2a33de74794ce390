"""Number inputs: outside numbers that operators take, and that a program computes before each run.

`x / (1 - beta**step)` divides by another number in each call. Where the operator rounds a number
like a tensor of no axes, the program takes the number as an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...nn.parameter import Parameter
from ...ops.core.operator import Operator
from ...tensor.tensor import Tensor

# Correctly rounded, so a number and a zero-dimensional tensor give the same bits. Their derivatives
# use numbers as operands of such functions only, and decide nothing by them.
EXACT = frozenset((
    np.add, np.subtract, np.multiply, np.divide, np.less, np.less_equal, np.greater,
    np.greater_equal, np.equal, np.not_equal,
))
MAX_EXACT_INTEGER = 1 << np.finfo(np.float64).nmant + 1  # all integers up to here are floats
FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}


@dataclass(eq=False)
class NumberInput:
    """A number among an event's arguments that may differ in each call.

    value: the number object of the recorded call, which the operator's node saves as well; a float,
        even of an int, which tensors of floats treat alike.
    source: the expression that computes it from what existed before the call.
    varies: whether programs compute it; else it is a constant, whose guards compare its value.
    is_fixed: whether something took it that programs do not compute anew.
    """

    value: float
    source: str
    varies: bool = False
    is_fixed: bool = False


def takes_numbers_exactly(operator: Operator, args: tuple) -> bool:
    """Whether a number among an operator's arguments gives the same bits as a tensor of no axes."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    if not all(x.__class__ in (Tensor, Parameter) for x in tensors):
        return False
    is_recorded = operator.ufunc not in EXACT and MODE.grad and any(map(requires, tensors))
    return not is_recorded and rounds_exactly(operator, [x._array for x in tensors])


def rounds_exactly(operator: Operator, args: Sequence[Any]) -> bool:
    """Whether an operator is correctly rounded, of floats of one dtype. `args`: anything but
    windows and arrays among them counts as numbers."""
    dtypes = {x.dtype for x in args if hasattr(x, "dtype")}
    return (operator.ufunc in EXACT or operator.takes_computed_numbers) and len(dtypes) == 1 \
        and dtypes <= FLOATS


def is_exact_float(x: int | float) -> bool:
    """Whether a number is a float, or an int that a float holds."""
    return x.__class__ is float or abs(x) <= MAX_EXACT_INTEGER


def fix_number(x: NumberInput) -> float:
    """Return the number of an input that something takes which programs do not compute anew."""
    x.is_fixed = True
    return x.value


def settle_number_inputs(events: list[Any]) -> None:
    """Replace the inputs that do not vary by their numbers."""
    for event in events:
        if any(x.__class__ is NumberInput and not x.varies for x in event.args):
            event.args = tuple([x.value if x.__class__ is NumberInput and not x.varies else x
                                for x in event.args])
