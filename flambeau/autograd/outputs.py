"""Outputs of nodes as destinations of gradients in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tensor.tensor import Tensor
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


def with_history(result: Tensor, node: Node, index: int | None) -> Tensor:
    """Make the tensor an output of the node if backward itself is recorded; return it."""
    if MODE.grad and result._array.dtype.kind in "fcV":
        result._requires_grad = result._tracked = True
        result._node = node if index is None else Output(node, index)
    return result
