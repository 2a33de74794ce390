"""waists: values that are better handed on than what they are made of.

Where a later kernel works one number out of several that an earlier one stores for nobody else
(the slope of gelu, from its input and its error function), the earlier one should store that number
instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from ..ir.graph import Node, Op
from .fusion_group import INLINE, Group, leaves

if TYPE_CHECKING:
    from .fusion import Fusion


def waists(fusion: Fusion) -> Iterator[Node]:
    """The nodes that the groups they are made in should store, though now they are not kept."""
    roots = {id(node) for node in fusion.graph.roots()}
    for group in fusion.groups:
        if group.special is not None:
            continue
        for node in group.nodes:
            makers: dict[int, set[int]] = {}  # by group: what is read of it
            for leaf, _ in fusion.read(node):
                maker = fusion.group_of.get(id(leaf))
                if maker is not None and maker is not group and maker.special is None:
                    makers.setdefault(maker.position, set()).add(id(leaf))
            if any(len(read) > 1 for read in makers.values()):
                yield from _within(node, fusion, roots)


def _within(node: Node, fusion: Fusion, roots: set[int]) -> Iterator[Node]:
    """The waists among what a node is worked out from, those nearest to it."""
    stack, seen = list(node.inputs), set()
    while stack:
        one = stack.pop()
        if id(one) in seen or id(one) in fusion.kept or one.op not in INLINE:
            continue
        seen.add(id(one))
        if one.op is Op.APPLY and _is_waist(one, fusion, roots):
            yield one
        else:
            stack += one.inputs


def _is_waist(node: Node, fusion: Fusion, roots: set[int]) -> bool:
    """Whether the group that makes all that a node reads would store less with it."""
    read = list(leaves(node, fusion.kept))
    made = [leaf for leaf, _ in read if leaf.op not in (Op.INPUT, Op.ARRAY)]
    full = {id(leaf): leaf for leaf in made if prod(leaf.shape) == prod(node.shape)}
    makers = {id(fusion.group_of[key]): fusion.group_of[key] for key in full}
    if len(full) < 2 or len(makers) != 1:
        return False
    (maker,) = makers.values()
    sources = {id(fusion.group_of[id(leaf)]): fusion.group_of[id(leaf)]
               for leaf, _ in read if id(leaf) in fusion.group_of}  # fmt: skip
    if maker.special is not None or not fusion.fits(maker, node, read, list(sources.values())):
        return False
    spared = sum(leaf.type.size for key, leaf in full.items()
                 if key not in roots and _read_through(leaf, node, maker, fusion))  # fmt: skip
    return spared > node.type.size


def _read_through(leaf: Node, node: Node, maker: Group, fusion: Fusion) -> bool:
    """Whether other groups read a value only to work out this node."""
    kept = {**fusion.kept, id(node): node}
    others = [g for g in fusion.readers.get(id(leaf), ()) if g is not maker]
    return all(found is not leaf for group in others for one in group.nodes
               for found, _ in leaves(one, kept))  # fmt: skip
