"""Materialize window operands in their readers' order.

A gradient that is expanded over pool windows is read once per window position. If its memory order
differs from its readers' (a linear layer's output beside channels-last images), every read strides
through memory; one transposing pass costs less. The pointwise work on it runs before the transpose,
in the kernel that produces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...native.target.graph_costs import MIN_TRANSPOSED_COPY_ELEMENTS
from ..ir.graph import Node, Op
from ..ir.strided_view import make_contiguous_view
from .fusion_group import INLINE, MOVEMENTS, find_leaves, view_through


def find_transposed_operands(
    nodes: Sequence[Node], materialized: dict[int, Node]
) -> Iterator[Node]:
    """Yield operands that are expanded over windows and read against their memory order."""
    for node in nodes:
        if node.op is not Op.APPLY or prod(node.shape) < 2 * MIN_TRANSPOSED_COPY_ELEMENTS:
            continue
        for operand in node.inputs:
            if (
                id(operand) in materialized
                or operand.op not in INLINE
                or not _is_window_operand(operand, node)
            ):
                continue
            transposed = list(_iterate_transposed_sources(operand, materialized))
            if transposed:
                yield operand
                yield from transposed


def _is_window_operand(operand: Node, node: Node) -> bool:
    """Whether an operand is expanded along an axis other than the innermost."""
    lanes = [i for i, n in enumerate(node.shape) if n != 1][-1]
    is_smaller = MIN_TRANSPOSED_COPY_ELEMENTS <= prod(operand.shape) <= prod(node.shape) // 2
    return is_smaller and operand.shape[lanes] == node.shape[lanes]


def _iterate_transposed_sources(share: Node, materialized: dict[int, Node]) -> Iterator[Node]:
    """Yield the values that an operand is computed from and reads in another order."""
    lanes = [i for i, n in enumerate(share.shape) if n != 1][-1]
    seen: set[int] = set()
    for leaf, chain in find_leaves(share, materialized):
        window = view_through(make_contiguous_view(leaf.shape), chain)
        small = prod(leaf.shape) < MIN_TRANSPOSED_COPY_ELEMENTS
        if window is None or small or window.strides[lanes] in (0, 1):
            continue
        bottom = _find_first_pointwise(share, leaf, materialized)
        if id(bottom) not in seen:
            seen.add(id(bottom))
            yield bottom


def _find_first_pointwise(share: Node, leaf: Node, materialized: dict[int, Node]) -> Node:
    """The value to transpose: the first pointwise work on a leaf, or the leaf itself."""
    stack = [share]
    while stack:
        current = stack.pop()
        if current.op in MOVEMENTS:
            bottom = current
            while bottom.op in MOVEMENTS and id(bottom) not in materialized:
                (bottom,) = bottom.inputs
            if any(result is leaf for result, _ in find_leaves(bottom, materialized)):
                return bottom if bottom.op is Op.APPLY else leaf
        elif current.op in INLINE and id(current) not in materialized:
            stack += current.inputs
    return leaf
