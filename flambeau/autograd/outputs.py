"""Outputs of nodes: as destinations of gradients in the graph, and as saved values.

Some derivatives here read outputs where PyTorch's read inputs (max pooling finds its maxima again).
To support programs that overwrite an output, it is recomputed if all inputs were saved; and of
several outputs, only those that the derivative reads must be unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..tensor.storage import VersionCounter
from ..tensor.tensor import Tensor, wrap
from .errors.graph_errors import raise_stale
from .mode import MODE

if TYPE_CHECKING:
    from .node import Node


class Output:
    """One output of a multi-output node, as the destination of its gradient."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node, self.index = node, index

    def shown(self) -> Node:
        return self.node

    def output_number(self) -> int:
        return self.index


class SavedOutput:
    """A node's own output, saved as array and version to avoid a reference cycle."""

    __slots__ = ("array", "counter", "index", "version")

    def __init__(self, tensor: Tensor, index: int | None = None) -> None:
        counter = tensor._counter
        if counter is None:
            tensor._counter = counter = VersionCounter()
        self.array, self.counter, self.index = tensor._array, counter, index
        self.version = counter.value

    def tensor(self, node: Node) -> Tensor:
        """Return the output as a tensor, with history if backward itself is recorded."""
        if self.counter.value != self.version:
            recomputed = recompute(node, self.index)
            if recomputed is not None:
                return recomputed
            raise_stale(node.name(), self.array, self.counter, self.version)
        result = wrap(self.array)
        result._counter = self.counter
        return with_history(result, node, self.index)


def with_history(result: Tensor, node: Node, index: int | None) -> Tensor:
    """Make the tensor an output of the node if backward itself is recorded; return it."""
    if MODE.grad and result._array.dtype.kind in "fcV":
        result._requires_grad = result._tracked = True
        result._node = node if index is None else Output(node, index)
    return result


def recompute(node: Node, index: int | None) -> Any:
    """Recompute the node's output, the one at `index` if several; None if an input isn't saved."""
    operator, plan = node.operator, node.plan
    if operator is None or plan is None or len(plan.arguments) < len(operator.names):
        return None
    y = operator.function(**{operator.names[position]: node.saved_value(k)
                             for position, k in plan.arguments})
    return y if index is None else y[index]


class SavedOutputs:
    """The outputs of a multi-output node as its vjp sees them: version-checked when read."""

    __slots__ = ("node", "saved")

    def __init__(self, node: Node, saved: tuple) -> None:
        self.node, self.saved = node, saved

    def __len__(self) -> int:
        return len(self.saved)

    def __iter__(self) -> Iterator[Any]:
        return (item.tensor(self.node) for item in self.saved)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [item.tensor(self.node) for item in self.saved[index]]
        return self.saved[index].tensor(self.node)
