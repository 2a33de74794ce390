"""turned_weights: which transposed matrices are better written out once.

A product packs a transposed b as it goes, which costs little beside the product itself. Where many
products read the same one, as the steps of a recurrent layer do, one copy saves all of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.graph import Node, Op

OFTEN = 4  # products that share a copy
FEW, MANY = 24, 96  # rows of a product: fewer read b along its depth, with more packing is nothing


def turned_weights(nodes: Sequence[Node]) -> Iterator[Node]:
    """The transposed matrices that are b of many products of some rows."""
    readers: dict[int, int] = {}
    for node in nodes:
        if node.op is Op.MATMUL and FEW < node.shape[-2] <= MANY:
            b = node.inputs[1]
            readers[id(b)] = readers.get(id(b), 0) + 1
    for node in nodes:
        if node.op is Op.PERMUTE and node.axes == (1, 0) and readers.get(id(node), 0) >= OFTEN:
            yield node
