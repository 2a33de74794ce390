"""Materialize transposed weights that several products read.

A product packs a transposed right operand as it runs, which costs little beside the product itself.
If many products read the same operand, as the steps of a recurrent layer do, a single copy replaces
all of that packing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...native.target.graph_costs import (
    MAX_TRANSPOSE_ROWS, MIN_TRANSPOSE_READERS, MIN_TRANSPOSE_ROWS,
)
from ..ir.graph import Node, Op


def find_shared_weights(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the transposed matrices that are the right operand of several products."""
    readers: dict[int, int] = {}
    for node in nodes:
        if node.op is Op.MATMUL and MIN_TRANSPOSE_ROWS < node.shape[-2] <= MAX_TRANSPOSE_ROWS:
            b = node.inputs[1]
            readers[id(b)] = readers.get(id(b), 0) + 1
    for node in nodes:
        if (
            node.op is Op.PERMUTE
            and node.axes == (1, 0)
            and readers.get(id(node), 0) >= MIN_TRANSPOSE_READERS
        ):
            yield node
