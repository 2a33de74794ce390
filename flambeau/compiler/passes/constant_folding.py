"""fold_constants: works out now what does not depend on any source."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.loop_ir.ir import Scalar, Type
from ..ir.graph import Graph, Node, Op, rebuilt, same

_FOLDED: dict[Scalar, Any] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.NEG: np.negative,
    Scalar.SQRT: np.sqrt, Scalar.ABS: np.abs, Scalar.MAXIMUM: np.maximum,
    Scalar.MINIMUM: np.minimum,
}  # fmt: skip
_EXACT = (Type.F32, Type.F64, Type.I64, Type.I32)


def fold_constants(graph: Graph) -> Graph:
    """The graph with operations on constants replaced by their results."""
    return rebuilt(graph, lambda node, inputs: _folded(same(node, inputs)))


def _folded(node: Node) -> Node:
    if node.op is not Op.APPLY or any(one.op is not Op.CONSTANT for one in node.inputs):
        return node
    operation = node.operation
    if node.type not in _EXACT or any(one.type is not node.type for one in node.inputs):
        return node
    kind = np.dtype(node.type.value).type
    values = [kind(one.value) for one in node.inputs]
    with np.errstate(all="ignore"):
        if operation is Scalar.DIV and node.type.floating:
            value = values[0] / values[1]
        elif operation in _FOLDED:
            value = _FOLDED[operation](*values)
        else:
            return node
    return Node(Op.CONSTANT, (), node.shape, node.type, {"value": kind(value).item()})
