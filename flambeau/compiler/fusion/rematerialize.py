"""Store a value instead of the several values it is recomputed from.

When a later kernel combines several values that an earlier kernel stores for no other reader (the
derivative of gelu from its input and its error function), the earlier kernel should store the
combination: fewer bytes written and read, same arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from ..ir.graph import Node, Op
from .fusion_group import INLINE, FusionGroup, find_leaves

if TYPE_CHECKING:
    from .fusion import Fusion


def find_narrower_values(fusion: Fusion) -> Iterator[Node]:
    """Yield the nodes to materialize because storing them replaces storing several others."""
    roots = {id(node) for node in fusion.graph.roots()}
    for group in fusion.groups:
        if group.special is not None:
            continue
        for node in group.nodes:
            producers: dict[int, set[int]] = {}  # by producing group: the values read from it
            for leaf, _ in fusion.read(node):
                producer = fusion.group_of.get(id(leaf))
                if producer is not None and producer is not group and producer.special is None:
                    producers.setdefault(producer.position, set()).add(id(leaf))
            if any(len(read) > 1 for read in producers.values()):
                yield from _iterate_candidates(node, fusion, roots)


def _iterate_candidates(node: Node, fusion: Fusion, roots: set[int]) -> Iterator[Node]:
    """Yield direct or indirect operands of a node that are such values, nearest first."""
    stack, seen = list(node.inputs), set()
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in fusion.materialized or node.op not in INLINE:
            continue
        seen.add(id(node))
        if node.op is Op.APPLY and _stores_less(node, fusion, roots):
            yield node
        else:
            stack += node.inputs


def _stores_less(node: Node, fusion: Fusion, roots: set[int]) -> bool:
    """Whether the group that produces all operands would store fewer bytes with this node."""
    read = list(find_leaves(node, fusion.materialized))
    result = [leaf for leaf, _ in read if leaf.op not in (Op.INPUT, Op.ARRAY)]
    full = {id(leaf): leaf for leaf in result if prod(leaf.shape) == prod(node.shape)}
    producers = {id(fusion.group_of[key]): fusion.group_of[key] for key in full}
    if len(full) < 2 or len(producers) != 1:
        return False
    (producer,) = producers.values()
    sources = {id(fusion.group_of[id(leaf)]): fusion.group_of[id(leaf)]
               for leaf, _ in read if id(leaf) in fusion.group_of}
    if producer.special is not None \
            or not fusion.fits(producer, node, read, list(sources.values())):
        return False
    saved_bytes = sum(
        leaf.type.size
        for key, leaf in full.items()
        if key not in roots and _is_read_only_through(leaf, node, producer, fusion)
    )
    return saved_bytes > node.type.size


def _is_read_only_through(leaf: Node, node: Node, producer: FusionGroup, fusion: Fusion) -> bool:
    """Whether other groups read a value only to compute this node."""
    materialized = {**fusion.materialized, id(node): node}
    others = [g for g in fusion.readers.get(id(leaf), ()) if g is not producer]
    return all(result is not leaf for group in others for item in group.nodes
               for result, _ in find_leaves(item, materialized))
