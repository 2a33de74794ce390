"""Horizontal fusion: merge independent small kernels into one kernel with several loops.

A small kernel is delayed until another kernel needs its result; kernels that wait together are
fused. Consecutive independent pointwise kernels are fused too, such as the optimizer's update of
all parameters. Large kernels are not delayed: their inputs are still in the cache. Saves a barrier
and a launch per kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...native.target.graph_costs import MAX_FUSED_LOOPS
from ..fusion.fusion_group import FusionGroup


def fuse_horizontally(
    ordered: Sequence[FusionGroup],
    small: Callable[[FusionGroup], bool],
    plain: Callable[[FusionGroup], bool],
) -> list[list[FusionGroup]]:
    """Partition groups, given in an order in which they can run, into kernels.

    `small`: whether a group may be delayed. `plain`: whether it is pointwise work.
    """
    result: list[list[FusionGroup]] = []
    waiting: list[FusionGroup] = []
    for group in ordered:
        needed = [item for item in waiting if _follows(group, item)]
        waiting = [item for item in waiting if item not in needed]
        result += _split_into_chunks(needed)
        if small(group):
            waiting.append(group)
        elif plain(group):
            _append_to_last(result, [group], plain)
        else:
            result.append([group])
    for part in _split_into_chunks(waiting):
        _append_to_last(result, part, plain)
    return result


def _append_to_last(
    result: list[list[FusionGroup]], groups: list[FusionGroup], plain: Callable[[FusionGroup], bool]
) -> None:
    """Add groups to the last kernel if it is pointwise work that they do not depend on."""
    last = result[-1] if result else []
    alone = any(_follows(item, before) for item in groups for before in last)
    if last and not alone and len(last) + len(groups) <= MAX_FUSED_LOOPS and all(map(plain, last)):
        last += groups
    else:
        result.append(groups)


def _follows(group: FusionGroup, other: FusionGroup) -> bool:
    """Whether a group must run after another."""
    return bool(group.before >> other.position & 1)


def _split_into_chunks(groups: Sequence[FusionGroup]) -> list[list[FusionGroup]]:
    return [[*groups[i : i + MAX_FUSED_LOOPS]] for i in range(0, len(groups), MAX_FUSED_LOOPS)]
