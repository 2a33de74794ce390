"""Constant folding: evaluate scalar operations whose operands are all constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.loop_ir.ir import Scalar, Type
from ...native.loop_ir.numpy_forms import take_maximum, take_minimum
from ..ir.graph import Graph, Node, Op
from .pattern import RuleSet, rule, scalar

_FOLDABLE: dict[Scalar, Any] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.NEG: np.negative,
    Scalar.SQRT: np.sqrt, Scalar.ABS: np.abs, Scalar.MAXIMUM: take_maximum,
    Scalar.MINIMUM: take_minimum,
}
_EXACT_TYPES = (Type.F32, Type.F64, Type.I64, Type.I32)


def fold_constants(graph: Graph) -> Graph:
    """Replace operations on constants by their results.

    Fold only operations that NumPy rounds as kernels do, and only within one type.
    """
    return _RULES.rewrite(graph)


@rule(scalar.ANY())
def _fold(node: Node) -> Node | None:
    """Rewrite f(a, b) as its value when all operands are constants of its type."""
    if any(a.op is not Op.CONSTANT for a in node.inputs):
        return None
    operation = node.operation
    if node.type not in _EXACT_TYPES or any(a.type is not node.type for a in node.inputs):
        return None
    kind = np.dtype(node.type.value).type
    values = [kind(a.value) for a in node.inputs]
    with np.errstate(all="ignore"):
        if operation is Scalar.DIV and node.type.floating:
            value = values[0] / values[1]
        elif operation in _FOLDABLE:
            value = _FOLDABLE[operation](*values)
        else:
            return None
    return Node(Op.CONSTANT, (), node.shape, node.type, {"value": kind(value).item()})


_RULES = RuleSet(_fold)
