"""turned_shares: values for whole windows that are better written out in their readers' order.

A gradient that goes to windows is read once for each of their places. Where its own order is
another (a linear layer's, beside images with channels last), each such read picks elements that lie
apart; one pass that turns them costs less. What it is a product of is worked out before it is
turned, by the kernel that makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ..ir.graph import Node, Op
from .fusion_group import INLINE, MOVEMENTS, leaves, window_through
from ..ir.strided_view import whole

LARGE = 1 << 15  # elements


def turned_shares(nodes: Sequence[Node], kept: dict[int, Node]) -> Iterator[Node]:
    """The operands that are stretched over windows and read against their order."""
    for node in nodes:
        if node.op is not Op.APPLY or prod(node.shape) < 2 * LARGE:
            continue
        for one in node.inputs:
            if id(one) in kept or one.op not in INLINE or not _is_share(one, node):
                continue
            turned = list(_turned(one, kept))
            if turned:
                yield one
                yield from turned


def _is_share(one: Node, node: Node) -> bool:
    """Whether several places of a node read each element, which lie beside one another."""
    lanes = [i for i, n in enumerate(node.shape) if n != 1][-1]
    few = LARGE <= prod(one.shape) <= prod(node.shape) // 2
    return few and one.shape[lanes] == node.shape[lanes]


def _turned(share: Node, kept: dict[int, Node]) -> Iterator[Node]:
    """What a share is worked out from whose elements lie in another order."""
    lanes = [i for i, n in enumerate(share.shape) if n != 1][-1]
    seen: set[int] = set()
    for leaf, chain in leaves(share, kept):
        window = window_through(whole(leaf.shape), chain)
        if window is None or prod(leaf.shape) < LARGE or window.strides[lanes] in (0, 1):
            continue
        bottom = _before_movements(share, leaf, kept)
        if id(bottom) not in seen:
            seen.add(id(bottom))
            yield bottom


def _before_movements(share: Node, leaf: Node, kept: dict[int, Node]) -> Node:
    """What is turned, of all that reads a leaf: the first work on it, or the leaf."""
    stack = [share]
    while stack:
        one = stack.pop()
        if one.op in MOVEMENTS:
            bottom = one
            while bottom.op in MOVEMENTS and id(bottom) not in kept:
                (bottom,) = bottom.inputs
            if any(found is leaf for found, _ in leaves(bottom, kept)):
                return bottom if bottom.op is Op.APPLY else leaf
        elif one.op in INLINE and id(one) not in kept:
            stack += one.inputs
    return leaf
