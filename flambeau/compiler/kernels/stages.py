"""The stages of a kernel that reduces rows: which values each pass over a row computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..fusion.fusion import Fusion
from ..fusion.fusion_group import FusionGroup
from ..ir.graph import Node, Op


@dataclass
class Stages:
    """When the values of a group are computed, if rows are passed over several times.

    `of`: the stage that computes a full-size value. `known_from`: the first stage that can use a
    number per row. Both by node id.
    """

    of: dict[int, int]
    known_from: dict[int, int]

    @property
    def count(self) -> int:
        return max([*self.of.values(), 0]) + 1


def assign_stages(group: FusionGroup, nodes: Sequence[Node], fusion: Fusion) -> Stages:
    """Assign each node to the first stage after the numbers it needs."""
    computed = {id(node) for node in nodes}
    stages = Stages({}, {})
    for node in nodes:
        stage = 0
        for leaf, _ in fusion.read(node):
            if id(leaf) in computed:
                known = stages.known_from.get(id(leaf), stages.of.get(id(leaf), 0))
                stage = max(stage, known)
        if node.op is Op.REDUCE:
            stages.of[id(node)] = stage
            stages.known_from[id(node)] = stage + 1
        elif group.is_number(node):
            stages.known_from[id(node)] = stage
        else:
            stages.of[id(node)] = stage
    return stages
