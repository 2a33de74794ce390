"""Outputs of nodes: as places in the graph that gradients go to, and as saved values.

Derivatives here read outputs where PyTorch's read inputs (max pooling finds its maxima again). So
that programs which overwrite an output still run, it is recomputed if all inputs were saved; and of
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
    """One output of a node with several: where its gradient goes."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node, self.index = node, index

    def shown(self) -> Node:
        return self.node

    def output_number(self) -> int:
        return self.index


class SavedOutput:
    """A node's own output, saved without a reference cycle: its memory and version."""

    __slots__ = ("array", "counter", "index", "version")

    def __init__(self, tensor: Tensor, index: int | None = None) -> None:
        counter = tensor._counter
        if counter is None:
            tensor._counter = counter = VersionCounter()
        self.array, self.counter, self.index = tensor._array, counter, index
        self.version = counter.value

    def tensor(self, node: Node) -> Tensor:
        """The output as a tensor, with its history where backward itself is recorded."""
        if self.counter.value != self.version:
            recomputed = recompute(node, self.index)
            if recomputed is not None:
                return recomputed
            raise_stale(node.name(), self.array, self.counter, self.version)
        result = wrap(self.array)
        result._counter = self.counter
        return with_history(result, node, self.index)


def with_history(result: Tensor, node: Node, index: int | None) -> Tensor:
    """The tensor as an output of the node, where backward itself is recorded."""
    if MODE.grad and result._array.dtype.kind in "fcV":
        result._requires_grad = result._tracked = True
        result._node = node if index is None else Output(node, index)
    return result


def recompute(node: Node, index: int | None) -> Any:
    """The node's output, of several the one at `index`; None if an input was not saved."""
    operator, plan = node.operator, node.plan
    if operator is None or plan is None or len(plan.arguments) < len(operator.names):
        return None
    y = operator.function(**{operator.names[position]: node.saved_value(k)
                             for position, k in plan.arguments})
    return y if index is None else y[index]


class SavedOutputs:
    """A node's several outputs as its vjp sees them: checked when they are read."""

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
