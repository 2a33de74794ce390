"""GradientEdge: a place in the graph, accepted by `grad` and `backward` in place of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .node import AccumulateGrad, get_accumulator
from .outputs import Output


class GradientEdge(tuple):
    """(node, output number): a place in the graph that gradients pass through.

    `ownership_token`, which keeps a node alive in PyTorch, is ignored. `passed`: shape and dtype
    of the gradients there, if the edge was taken from a tensor.
    """

    passed: tuple[tuple[int, ...], np.dtype] | None = None

    def __new__(cls, node: Any, output_nr: int, ownership_token: Any = None) -> GradientEdge:
        return super().__new__(cls, (node, output_nr))

    @classmethod
    def of(cls, tensor: Tensor) -> GradientEdge:
        """Return a tensor's place in the graph."""
        node = tensor._history()
        if node is None:
            edge = cls(get_accumulator(tensor), 0)
        else:
            edge = cls(node.shown(), node.output_number())
        edge.passed = tensor._array.shape, tensor._array.dtype
        return edge

    node = property(lambda self: self[0])
    output_nr = property(lambda self: self[1])


def find_target(place: Any) -> Any:
    """Return the engine's target for a tensor or edge: a node, one of its outputs, or a leaf."""
    if isinstance(place, Tensor):
        return place._history() or place
    if isinstance(place.node, AccumulateGrad):
        return place.node.variable
    return place.node if place.node.outputs == 1 else Output(place.node, place.output_nr)


def needs_gradient(place: Any) -> bool:
    """Return whether gradients reach a tensor or an edge; they reach every edge."""
    return not isinstance(place, Tensor) or place.requires_grad
