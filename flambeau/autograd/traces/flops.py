"""Counts the floating-point operations of an operator call from the shapes of its arguments.

Covers the operators that PyTorch counts, and those that replace them here (`linear`, `matmul`). A
multiply-add counts as two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

_Shapes = Sequence[Any]


def _count_product(shapes: _Shapes, first: int = 0) -> int:
    a, b = shapes[first], shapes[first + 1]
    if not a or not b:
        return 0
    return 2 * math.prod(a) * (b[-1] if len(b) > 1 else 1) * _count_stacks(a, b)


def _count_stacks(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how often `a` is multiplied when `b` has more batch axes."""
    return math.prod(b[:-2]) if len(b) > len(a) else 1


def _count_linear(shapes: _Shapes) -> int:
    x, weight = shapes[:2]
    return 2 * math.prod(x) * (weight[0] if len(weight) > 1 else 1) if x and weight else 0


def _count_convolution(shapes: _Shapes, result: Sequence[int]) -> int:
    weight = shapes[1]
    return 2 * math.prod(result) * math.prod(weight[1:]) if weight else 0


_BY_SHAPES: dict[str, Callable[[_Shapes], int]] = {
    "mm": _count_product, "matmul": _count_product, "bmm": _count_product, "linear": _count_linear,
    "addmm": lambda shapes: _count_product(shapes, 1),
    "baddbmm": lambda shapes: _count_product(shapes, 1),
}
_BY_ELEMENTS = frozenset(("add", "mul"))
_CONVOLUTIONS = frozenset(("conv1d", "conv2d", "conv3d"))


def count_flops(name: str, shapes: _Shapes, result: Sequence[int]) -> int:
    """Return the operations of a call of `aten::name`; 0 for operators that are not counted."""
    operator = name.removeprefix("aten::")
    if not all(isinstance(n, int) for shape in (*shapes[:3], result) for n in shape):
        return 0  # lists of tensors, or symbolic lengths
    if operator in _BY_ELEMENTS:
        return math.prod(result)
    if operator in _CONVOLUTIONS and len(shapes) > 1:
        return _count_convolution(shapes, result)
    rule = _BY_SHAPES.get(operator)
    return 0 if rule is None or len(shapes) < 2 else rule(shapes)
