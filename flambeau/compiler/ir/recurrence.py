"""RECURRENCE and RECURRENCE_GRADIENT: their nodes, and a step-by-step NumPy implementation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...native.kernels.recurrent_cells import CELLS, Cell, walk_backward, walk_forward
from .graph import Node, Op, Shape

Array = np.ndarray


def build_recurrence(cell: str, inputs: Mapping[str, Node | None], reverse: bool, of: str) -> Node:
    """Build a node for one result (`of`) of a recurrent layer; absent inputs are None."""
    return _create_node(Op.RECURRENCE, cell, inputs, reverse, of)


def build_recurrence_gradient(
    cell: str, inputs: Mapping[str, Node | None], reverse: bool, of: str
) -> Node:
    """Build a node for one cotangent (`of`) of a recurrent layer; absent inputs are None."""
    return _create_node(Op.RECURRENCE_GRADIENT, cell, inputs, reverse, of)


def _create_node(
    op: Op, cell: str, operands: Mapping[str, Node | None], reverse: bool, of: str
) -> Node:
    present = {name: node for name, node in operands.items() if node is not None}
    inputs = tuple(present.values())
    attributes = {"cell": cell, "names": tuple(present), "reverse": reverse, "of": of}
    result = Node(op, inputs, (), inputs[0].type, attributes)
    steps, rows, _ = get_extents(result)
    result.shape = get_result_shape(result, (steps, rows))
    return result


def get_inputs_by_name(node: Node) -> dict[str, Node]:
    """A node's inputs by name."""
    return dict(zip(node.names, node.inputs, strict=True))


def get_extents(node: Node) -> tuple[int, int, int]:
    """(steps, rows, width) of a RECURRENCE or RECURRENCE_GRADIENT."""
    operands, cell = get_inputs_by_name(node), CELLS[node.cell]
    sequence = operands["x"] if node.op is Op.RECURRENCE else operands[next(iter(cell.keeps))]
    steps, rows = sequence.shape[:2]
    return steps, rows, operands["w"].shape[1]


def get_input_shapes(node: Node) -> dict[str, Shape]:
    """The shape that each input of a node must have, by name."""
    steps, rows, width = get_extents(node)
    cell = CELLS[node.cell]
    parts = {"x": cell.gates, "gy": 1, "previous": 1, **cell.keeps}
    shapes: dict[str, Shape] = {name: (steps, rows, n * width) for name, n in parts.items()}
    shapes.update(dict.fromkeys(("h", "c", "dh", "dc", "first"), (rows, width)))
    return {**shapes, "w": (cell.gates * width, width), "bias": (width,)}


def get_result_shape(node: Node, over: tuple[int, int]) -> Shape:
    """The shape of a node's result for (steps, rows)."""
    width, cell = get_extents(node)[2], CELLS[node.cell]
    if node.of in ("h", "c", "dh", "dc"):
        return (over[1], width)
    parts = {"y": 1, "d": cell.gates, "dx": cell.gates, **cell.keeps}
    return (*over, parts[node.of] * width)


def evaluate_recurrence(node: Node, *inputs: Array) -> Array:
    """Evaluate a RECURRENCE with NumPy."""
    v, order = dict(zip(node.names, inputs, strict=True)), -1 if node.reverse else 1
    constants = {"bias": v["bias"]} if "bias" in v else {}
    results, last = walk_forward(
        CELLS[node.cell], v["x"][::order], _read_states(node, v, ("h", "c")), v["w"], constants)
    return last[node.of] if node.of in last else np.stack(results[node.of][::order])


def evaluate_recurrence_gradient(node: Node, *inputs: Array) -> Array:
    """Evaluate a RECURRENCE_GRADIENT with NumPy."""
    v, cell = dict(zip(node.names, inputs, strict=True)), CELLS[node.cell]
    order = -1 if node.reverse else 1
    before = None
    if cell.before is not None:
        first = v.get("first", np.zeros_like(v["previous"][0, :, : v["w"].shape[1]]))
        before = [first, *v["previous"][::order][:-1]]
    results, first_states = walk_backward(
        cell, {name: v[name][::order] for name in cell.keeps}, before,
        v["gy"][::order] if "gy" in v else None, _read_states(node, v, ("dh", "dc")), v["w"])
    if node.of in first_states:
        return first_states[node.of]
    return np.stack(results[node.of][::order])


def _read_states(node: Node, v: Mapping[str, Array], names: tuple[str, str]) -> dict[str, Array]:
    """States, or their cotangents; zeros for absent ones."""
    _, rows, width = get_extents(node)
    carried = names if CELLS[node.cell].carries else names[:1]
    return {name: v.get(name, np.zeros((rows, width), v["w"].dtype)) for name in carried}


def has_result(cell: Cell, of: str) -> bool:
    """Whether a cell has a result or cotangent of this name."""
    forward = {"y", "h", *cell.keeps, *(("c",) if cell.carries else ())}
    backward = {"d", "dh", *(("dc",) if cell.carries else ()), *(("dx",) if cell.apart else ())}
    return of in forward | backward
