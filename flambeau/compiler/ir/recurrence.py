"""RECURRENCE and RECURRENCE_GRADIENT: their nodes, and what they mean, step by step in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...native.kernels.recurrent_cells import CELLS, Cell
from .graph import Node, Op, Shape

Array = np.ndarray


def recurrence(cell: str, inputs: Mapping[str, Node | None], reverse: bool, of: str) -> Node:
    """A result of a layer's steps; absent inputs are None."""
    return _node(Op.RECURRENCE, cell, inputs, reverse, of)


def recurrence_gradient(
    cell: str, inputs: Mapping[str, Node | None], reverse: bool, of: str
) -> Node:
    """A cotangent of a layer's steps; absent inputs are None."""
    return _node(Op.RECURRENCE_GRADIENT, cell, inputs, reverse, of)


def _node(op: Op, cell: str, supplied: Mapping[str, Node | None], reverse: bool, of: str) -> Node:
    present = {name: node for name, node in supplied.items() if node is not None}
    inputs = tuple(present.values())
    how = {"cell": cell, "names": tuple(present), "reverse": reverse, "of": of}
    result = Node(op, inputs, (), inputs[0].type, how)
    steps, rows, _ = extents(result)
    result.shape = result_shape(result, (steps, rows))
    return result


def inputs_by_name(node: Node) -> dict[str, Node]:
    """A node's inputs by name."""
    return dict(zip(node.names, node.inputs, strict=True))


def extents(node: Node) -> tuple[int, int, int]:
    """(steps, rows, width)."""
    supplied, cell = inputs_by_name(node), CELLS[node.cell]
    whole = supplied["x"] if node.op is Op.RECURRENCE else supplied[next(iter(cell.keeps))]
    steps, rows = whole.shape[:2]
    return steps, rows, supplied["w"].shape[1]


def input_shapes(node: Node) -> dict[str, Shape]:
    """The shapes that a node's inputs must have."""
    steps, rows, width = extents(node)
    cell = CELLS[node.cell]
    parts = {"x": cell.gates, "gy": 1, "previous": 1, **cell.keeps}
    shapes: dict[str, Shape] = {name: (steps, rows, n * width) for name, n in parts.items()}
    shapes.update(dict.fromkeys(("h", "c", "dh", "dc", "first"), (rows, width)))
    return {**shapes, "w": (cell.gates * width, width), "bias": (width,)}


def result_shape(node: Node, over: tuple[int, int]) -> Shape:
    """The shape of what a node gives, for (steps, rows)."""
    width, cell = extents(node)[2], CELLS[node.cell]
    if node.of in ("h", "c", "dh", "dc"):
        return (over[1], width)
    parts = {"y": 1, "d": cell.gates, "dx": cell.gates, **cell.keeps}
    return (*over, parts[node.of] * width)


def parts_of(x: Array, count: int) -> list[Array]:
    """Equal parts of the last axis."""
    return np.split(x, count, -1)


def evaluate_recurrence(node: Node, *inputs: Array) -> Array:
    """What a RECURRENCE gives."""
    v, cell = dict(zip(node.names, inputs, strict=True)), CELLS[node.cell]
    steps, rows, width = extents(node)
    zeros = np.zeros((rows, width), v["w"].dtype)
    state: dict[str, Any] = {"h": v.get("h", zeros), "c": v.get("c", zeros)}
    if "bias" in v:
        state["bias"] = v["bias"]
    result: dict[str, list[Array]] = {}
    for t in range(steps)[:: -1 if node.reverse else 1]:
        sums = {"x": parts_of(v["x"][t], cell.gates),
                "s": parts_of(state["h"] @ v["w"].T, cell.gates)}
        new = cell.forward({**state, **sums})
        state["h"], state["c"] = new["y"][0], new.get("cells", [zeros])[0]
        for name, parts in new.items():
            result.setdefault(name, []).append(np.concatenate(parts, -1))
    if node.of in ("h", "c"):
        return state[node.of]
    return np.stack(result[node.of][:: -1 if node.reverse else 1])


def evaluate_recurrence_gradient(node: Node, *inputs: Array) -> Array:
    """What a RECURRENCE_GRADIENT gives."""
    v, cell = dict(zip(node.names, inputs, strict=True)), CELLS[node.cell]
    steps, rows, width = extents(node)
    zeros = np.zeros((rows, width), v["w"].dtype)
    state: dict[str, Any] = {name: v.get(name, zeros) for name in ("dh", "dc")}
    result: dict[str, list[Array]] = {}
    order = list(range(steps)[:: 1 if node.reverse else -1])
    for t in order:
        values: dict[str, Any] = {name: parts_of(v[name][t], n) for name, n in cell.keeps.items()}
        earlier = t + (1 if node.reverse else -1)
        if cell.before is not None:
            last = t == order[-1]
            values["before"] = v.get("first", zeros) if last else v["previous"][earlier]
        dh = state["dh"] + v["gy"][t] if "gy" in v else state["dh"]
        new = cell.backward({**values, "dh": dh, "dc": state["dc"]})
        d = np.concatenate(new["d"], -1)
        state["dh"] = d @ v["w"] + (new["dh"][0] if cell.partly else 0)
        state["dc"] = new.get("dc", [zeros])[0]
        for name in ("d", "dx"):
            if name in new:
                result.setdefault(name, []).append(np.concatenate(new[name], -1))
    if node.of in ("dh", "dc"):
        return state[node.of]
    return np.stack(result[node.of][:: 1 if node.reverse else -1])


def has_result(cell: Cell, of: str) -> bool:
    """Whether a cell's steps give a result of this name."""
    forward = {"y", "h", *cell.keeps, *(("c",) if cell.carries else ())}
    backward = {"d", "dh", *(("dc",) if cell.carries else ()), *(("dx",) if cell.apart else ())}
    return of in forward | backward
