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

    `of`: the stage in which a full value is computed. `known_from`: the stage from which on a
    number per row is known. Both by id.
    """

    of: dict[int, int]
    known_from: dict[int, int]

    @property
    def count(self) -> int:
        return max([*self.of.values(), 0]) + 1


def assign_stages(group: FusionGroup, nodes: Sequence[Node], fusion: Fusion) -> Stages:
    """The stages of a group's nodes: each after the numbers that it needs."""
    own = {id(node) for node in nodes}
    stages = Stages({}, {})
    for node in nodes:
        stage = 0
        for leaf, _ in fusion.read(node):
            if id(leaf) in own:
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
