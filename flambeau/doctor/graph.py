"""The rules' view of the tape: the nodes behind a root, their saved values and source lines.

Walking costs about a microsecond per node, so only watched backward passes do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..autograd.node import Node
from ..autograd.outputs import Output
from ..autograd.saved.plan import OUTPUT
from ..autograd.saved.values import SavedOutput
from ..tensor.tensor import Tensor
from .places import Spot

# Operators that return the same numbers in another shape.
RESHAPES = frozenset((
    "_view", "reshape", "squeeze", "squeeze_dims", "unsqueeze", "flatten", "view_as", "alias",
    "expand", "contiguous", "clone", "unflatten", "_to", "to",
))
VIEWS = RESHAPES | {"permute", "transpose", "_slice", "select"}


class Graph:
    """All nodes reachable from the roots, oldest first, and their leaves."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.nodes: list[Node] = []
        self.leaves: dict[int, Tensor] = {}
        self.consumers: dict[int, list[Node]] = {}
        seen: set[int] = set()
        stack = [get_node(root) for root in roots]
        while stack:
            node = stack.pop()
            if node is None:
                continue
            if isinstance(node, Tensor):
                self.leaves[id(node)] = node
                continue
            if id(node) in seen:
                continue
            seen.add(id(node))
            self.nodes.append(node)
            for edge in node.edges:
                if edge is not None:
                    source = get_node(edge)
                    self.consumers.setdefault(id(source), []).append(node)
                    stack.append(source)
        self.nodes.sort(key=lambda node: node.sequence)

    def signature(self) -> tuple[str, ...]:
        """Return the operator names in order, to compare steps."""
        return tuple(get_operator_name(node) for node in self.nodes)


def get_node(target: Any) -> Any:
    """Return the node or leaf behind an edge."""
    return target.node if target.__class__ is Output else target


def get_operator_name(node: Node) -> str:
    """Return the name of a node's operator, or its class name if it has none."""
    operator = node.operator
    return type(node).__name__ if operator is None else str(operator.name)


def find_spot(node: Node) -> Spot | None:
    """Return where the user's program recorded a node, or None if unknown."""
    note = node.__dict__.get("_doctor_spot")
    return None if note is None else note[0]


def find_module(node: Node) -> Any:
    """Return the innermost module running when a node was recorded, or None if unknown."""
    note = node.__dict__.get("_doctor_spot")
    return None if note is None else note[1]


def call_of(node: Node) -> Spot | None:
    """Return the call site of the outermost module running when a node was recorded."""
    note = node.__dict__.get("_doctor_spot")
    return None if note is None else note[2]


def get_saved(node: Node, name: str) -> Any:
    """Return the value a node saved for a parameter (`y` for its output), or None."""
    plan, values = node.plan, node.saved
    if plan is None or values is None or node.operator is None:
        return None
    names = node.operator.names
    for (source_kind, position), value in zip(plan.sources, values, strict=True):
        label = "y" if source_kind == OUTPUT else names[position]
        if label == name and value is not None:
            return value
    return None


def get_array(value: Any) -> np.ndarray | None:
    """Return the array of a tensor or a saved output, or None if it isn't a real numeric array."""
    if isinstance(value, Tensor):
        value = value._array
    elif value.__class__ is SavedOutput:
        value = value.array
    elif value.__class__ is tuple and value and value[0].__class__ is SavedOutput:
        value = value[0].array
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def iterate_saved_arrays(node: Node) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (parameter name, array) for the arrays a node saved; its output is named `y`."""
    plan, values = node.plan, node.saved
    if plan is None or values is None or node.operator is None:
        return
    names = node.operator.names
    for (source_kind, position), value in zip(plan.sources, values, strict=True):
        array = get_array(value)
        if array is not None:
            yield ("y" if source_kind == OUTPUT else names[position]), array


def find_producer(tensor: Any, through: frozenset[str] = RESHAPES) -> Node | None:
    """Return the node that computed a tensor's values, skipping operators that only reshape."""
    if not isinstance(tensor, Tensor):
        return None
    node = get_node(tensor._history())
    while isinstance(node, Node) and get_operator_name(node) in through and len(node.edges) == 1:
        node = get_node(node.edges[0])
    return node if isinstance(node, Node) else None


def find_leaves(node: Any, limit: int = 10_000) -> dict[int, Tensor]:
    """Return the leaves below a node, by id."""
    return Graph([node]).leaves if node is not None and limit else {}
