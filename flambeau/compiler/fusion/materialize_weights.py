"""Materialize transposed weights that several products read.

A product packs a transposed right operand as it goes, which is cheap beside the product itself.
When many products read the same operand, as the steps of a recurrent layer do, a single copy
replaces all of that packing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.graph import Node, Op

MIN_READERS = 4  # products that share a copy
MIN_ROWS, MAX_ROWS = 24, 96  # of a product: fewer read b unpacked, more hide the packing


def shared_transposed_weights(nodes: Sequence[Node]) -> Iterator[Node]:
    """The transposed matrices that are the right operand of several products."""
    readers: dict[int, int] = {}
    for node in nodes:
        if node.op is Op.MATMUL and MIN_ROWS < node.shape[-2] <= MAX_ROWS:
            b = node.inputs[1]
            readers[id(b)] = readers.get(id(b), 0) + 1
    for node in nodes:
        if (
            node.op is Op.PERMUTE
            and node.axes == (1, 0)
            and readers.get(id(node), 0) >= MIN_READERS
        ):
            yield node
