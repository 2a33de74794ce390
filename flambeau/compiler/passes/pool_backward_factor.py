"""Factor pool backward: multiply at each window's maximum instead of over the whole image.

The gradient of a max pool is zero except at one position of each window. A factor that multiplies
it (the slope of an activation) matters only at that position, so the pool's kernel gathers the
factor there: one number per window. Backward then neither rereads the factor's inputs nor computes
values that are multiplied by zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...native.loop_ir.ir import ReduceOp, Scalar
from ...native.target.graph_costs import MAX_GATHERED_ARRAYS
from ..ir.graph import (
    Graph, Node, Op, Shape, apply, constant, is_operation, reduce, reshape, sort_topologically,
    with_origin,
)
from .pattern import RuleSet, capture, rule, scalar

hit, share = capture("hit"), capture("share")


def factor_pool_backward(graph: Graph) -> Graph:
    """Rewrite products of a max pool's gradient and a factor to run once per window."""
    return _RULES.rewrite(graph)


@dataclass
class _Windows:
    """Windows of an image, with one selected position each.

    `hit` is true at that position; `selection` holds all nodes that `hit` is computed from.
    """

    hit: Node
    axes: tuple[int, ...]
    selection: set[Node]

    def gather(self, image: Node) -> Node:
        """The image's value at the selected position of each window."""
        zero = constant(0, image.type, (1,) * len(self.hit.shape))
        return reduce(apply(Scalar.WHERE, self.hit, image, zero), ReduceOp.SUM, self.axes)


@rule(scalar.MUL(scalar.WHERE(hit, share, capture("zero", Op.CONSTANT)), capture("factor"),
                 commutes=True))
def _gather_factor(node: Node, hit: Node, share: Node, zero: Node, factor: Node) -> Node | None:
    """Rewrite where(hit, share, 0) * factor as where(hit, share * factor at hit, 0) if `hit`
    selects one position of each window, and `share` is one number per window.
    """
    if not node.type.floating or zero.value != 0 or not hit.shape == factor.shape == node.shape:
        return None
    windows = _match_windows(hit, share)
    if windows is None:
        return None
    gathered = _GatheredFactor(windows)
    value = gathered.at_selection(factor)
    if value is None or len(gathered.arrays) > MAX_GATHERED_ARRAYS:
        return None
    product = apply(Scalar.MUL, share, value)
    return with_origin(node, apply(Scalar.WHERE, hit, product, zero), product)


_RULES = RuleSet(_gather_factor)


def _match_windows(hit: Node, share: Node) -> _Windows | None:
    """The windows of where(hit, one number per window, 0)."""
    axes = tuple(i for i, n in enumerate(hit.shape) if n != 1 and share.shape[i] == 1)
    if not axes or not is_operation(hit, Scalar.EQ):
        return None
    for order, firsts in (hit.inputs, hit.inputs[::-1]):
        if _selects_one_position(order, firsts, hit.shape, axes):
            return _Windows(hit, axes, set(sort_topologically([firsts])))
    return None


def _selects_one_position(order: Node, firsts: Node, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether `firsts` holds, for each window, the number of exactly one of its positions."""
    numbers = _read_constant(order)
    inside = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    if numbers is None or order.shape != inside or len(np.unique(numbers)) != numbers.size:
        return False
    if firsts.op is not Op.REDUCE or firsts.fold is not ReduceOp.MINIMUM or firsts.axes != axes:
        return False
    (chosen,) = firsts.inputs
    if not is_operation(chosen, Scalar.WHERE) or chosen.shape != shape:
        return False
    branches = [_read_constant(branch) for branch in chosen.inputs[1:]]
    return all(values is not None and bool(np.isin(values, numbers).all()) for values in branches)


def _read_constant(node: Node) -> np.ndarray | None:
    """The numbers of a constant node; None for any other."""
    while node.op is Op.RESHAPE:
        (node,) = node.inputs
    if node.op is Op.CONSTANT and prod(node.shape) != 1:
        return None
    return np.asarray(node.value) if node.op in (Op.ARRAY, Op.CONSTANT) else None


@dataclass
class _GatheredFactor:
    """A factor over an image, recomputed only at the selected positions."""

    windows: _Windows
    arrays: list[Node] = field(default_factory=list)  # gathered from memory
    known: dict[Node, Node | None] = field(default_factory=dict)

    def at_selection(self, node: Node) -> Node | None:
        """The node's value at the selected positions, in the image's rank; None if it depends on
        anything but constants and the nodes that the selection is computed from.
        """
        if node not in self.known:
            self.known[node] = self._compute(node)
        return self.known[node]

    def _compute(self, node: Node) -> Node | None:
        hit = self.windows.hit
        if prod(node.shape) != prod(hit.shape):
            return self._convert_scalar(node)
        if node in self.windows.selection:
            self.arrays.append(node)
            return self.windows.gather(reshape(node, hit.shape))
        if node.op is Op.RESHAPE:
            return self.at_selection(node.inputs[0])
        if node.op is not Op.APPLY:
            return None
        inputs = [self.at_selection(a) for a in node.inputs]
        if any(a is None for a in inputs):
            return None
        rows = tuple(1 if i in self.windows.axes else n for i, n in enumerate(hit.shape))
        return Node(Op.APPLY, tuple(inputs), rows, node.type, node.attributes, node.origin)  # type: ignore[arg-type]

    def _convert_scalar(self, node: Node) -> Node | None:
        values = _read_constant(node)
        if values is None or values.size != 1:
            return None
        return constant(values.item(), node.type, (1,) * len(self.windows.hit.shape))
