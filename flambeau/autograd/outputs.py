"""Outputs that a node kept for its derivative and that were overwritten since.

Derivatives here read outputs where PyTorch's read inputs (max pooling looks for its maxima). So
that no program is refused for it, such an output is worked out again, where all that it was made
of was kept; and of several outputs only those that are read have to be as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .save_plan import ATTRIBUTE, INPUT

if TYPE_CHECKING:
    from .node import Node


def worked_out_again(node: Node, index: int | None) -> Any:
    """The node's output (of several the one at `index`); None where an input was not kept."""
    operator, plan = node.operator, node.plan
    if operator is None or plan is None:
        return None
    retained = {}
    for k, (kind, position) in enumerate(plan.sources):
        if kind in (INPUT, ATTRIBUTE):
            retained[operator.names[position]] = node.saved_value(k)
    if len(retained) < len(operator.names):
        return None
    y = operator.function(**retained)
    return y if index is None else y[index]


class Outputs:
    """A node's several outputs as its vjp sees them: looked at when they are read."""

    __slots__ = ("node", "saved")

    def __init__(self, node: Node, saved: tuple) -> None:
        self.node, self.saved = node, saved

    def __len__(self) -> int:
        return len(self.saved)

    def __iter__(self) -> Iterator[Any]:
        return (item.tensor(self.node) for item in self.saved)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [item.tensor(self.node) for item in self.saved[index]]
        return self.saved[index].tensor(self.node)
