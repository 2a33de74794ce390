"""picked: a factor beside a gradient that goes to one place of a window, of that place alone.

A pool's gradient is zero but at the maximum of each window. What it is multiplied by there (the
slope of an activation) is taken out by the pool's own kernel, from what that has at hand: one
number a window, so backward neither reads all those arrays again nor works out what counts nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...native.loop_ir.ir import Fold, Scalar
from ..ir.graph import (
    Graph, Node, Op, Shape, apply, constant, ordered, rebuilt, reduce, reshape, same,
)

MOST = 2  # arrays that a factor is worked out from


def picked(graph: Graph) -> Graph:
    """The graph with such products worked out once for each window."""
    return rebuilt(graph, lambda node, inputs: _picked(same(node, inputs)))


@dataclass
class _Windows:
    """Windows of a domain, of each of which one place is meant.

    `hit` is true at it; `made`: all that it is worked out from.
    """

    hit: Node
    axes: tuple[int, ...]
    made: set[Node]

    def pick(self, full: Node) -> Node:
        """The value at each window's place."""
        zero = constant(0, full.type, (1,) * len(self.hit.shape))
        return reduce(apply(Scalar.WHERE, self.hit, full, zero), Fold.SUM, self.axes)


def _picked(node: Node) -> Node:
    if node.op is not Op.APPLY or node.operation is not Scalar.MUL or not node.type.floating:
        return node
    for spread, factor in (node.inputs, node.inputs[::-1]):
        windows = _windows(spread)
        if windows is None or factor.shape != node.shape:
            continue
        work = _Factor(windows)
        value = work.at_place(factor)
        if value is None or len(work.picks) > MOST:
            continue
        hit, share, zero = spread.inputs
        product = apply(Scalar.MUL, share, value)
        product.origin = node.origin
        made = apply(Scalar.WHERE, hit, product, zero)
        made.origin = node.origin
        return made
    return node


def _windows(spread: Node) -> _Windows | None:
    """The windows of WHERE(hit, one number a window, 0)."""
    if spread.op is not Op.APPLY or spread.operation is not Scalar.WHERE:
        return None
    hit, share, zero = spread.inputs
    if zero.op is not Op.CONSTANT or zero.value != 0 or hit.shape != spread.shape:
        return None
    axes = tuple(i for i, n in enumerate(hit.shape) if n != 1 and share.shape[i] == 1)
    if not axes or hit.op is not Op.APPLY or hit.operation is not Scalar.EQ:
        return None
    for order, firsts in (hit.inputs, hit.inputs[::-1]):
        if _is_one_of(order, firsts, hit.shape, axes):
            return _Windows(hit, axes, set(ordered([firsts])))
    return None


def _is_one_of(order: Node, firsts: Node, shape: Shape, axes: tuple[int, ...]) -> bool:
    """Whether `firsts` is, for each window, the number of one of its places."""
    numbers = _numbers(order)
    inside = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    if numbers is None or order.shape != inside or len(np.unique(numbers)) != numbers.size:
        return False
    if firsts.op is not Op.REDUCE or firsts.fold is not Fold.MINIMUM or firsts.axes != axes:
        return False
    (chosen,) = firsts.inputs
    if chosen.op is not Op.APPLY or chosen.operation is not Scalar.WHERE or chosen.shape != shape:
        return False
    held = [_numbers(one) for one in chosen.inputs[1:]]
    return all(one is not None and bool(np.isin(one, numbers).all()) for one in held)


def _numbers(node: Node) -> np.ndarray | None:
    """The numbers of a literal; None for what is none."""
    while node.op is Op.RESHAPE:
        (node,) = node.inputs
    if node.op is Op.CONSTANT and prod(node.shape) != 1:
        return None
    return np.asarray(node.value) if node.op in (Op.ARRAY, Op.CONSTANT) else None


@dataclass
class _Factor:
    """A factor of a window's domain, worked out again at the windows' places."""

    windows: _Windows
    picks: list[Node] = field(default_factory=list)
    known: dict[Node, Node | None] = field(default_factory=dict)

    def at_place(self, node: Node) -> Node | None:
        """A full value there, in the domain's rank; None where it is worked out from other things
        than numbers and what the windows' places are."""
        if node not in self.known:
            self.known[node] = self._worked_out(node)
        return self.known[node]

    def _worked_out(self, node: Node) -> Node | None:
        hit = self.windows.hit
        if prod(node.shape) != prod(hit.shape):
            return self._number(node)
        if node in self.windows.made:
            self.picks.append(node)
            return self.windows.pick(reshape(node, hit.shape))
        if node.op is Op.RESHAPE:
            return self.at_place(node.inputs[0])
        if node.op is not Op.APPLY:
            return None
        inputs = [self.at_place(one) for one in node.inputs]
        if None in inputs:
            return None
        rows = tuple(1 if i in self.windows.axes else n for i, n in enumerate(hit.shape))
        return Node(Op.APPLY, tuple(inputs), rows, node.type, node.attributes, node.origin)  # type: ignore[arg-type]

    def _number(self, node: Node) -> Node | None:
        one = _numbers(node)
        if one is None or one.size != 1:
            return None
        return constant(one.item(), node.type, (1,) * len(self.windows.hit.shape))
