"""join: independent small kernels, and independent pointwise work that follows on one another, as
one kernel of several loops: the optimiser's update of all parameters, the last sums of gradients.

A small kernel waits until another needs what it makes: those that wait together and can run then
are one. Large ones do not wait, since what they read has just been written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..fusion.fusion_group import Group

MAX_LOOPS = 64  # groups of one kernel


def fuse_horizontally(
    ordered: Sequence[Group], small: Callable[[Group], bool], plain: Callable[[Group], bool]
) -> list[list[Group]]:
    """Groups in an order in which they can run, those that become one kernel together.

    `small`: whether a group may wait. `plain`: whether it is pointwise work.
    """
    found: list[list[Group]] = []
    waiting: list[Group] = []
    for group in ordered:
        needed = [one for one in waiting if _follows(group, one)]
        waiting = [one for one in waiting if one not in needed]
        found += _parts(needed)
        if small(group):
            waiting.append(group)
        elif plain(group):
            _append(found, [group], plain)
        else:
            found.append([group])
    for part in _parts(waiting):
        _append(found, part, plain)
    return found


def _append(found: list[list[Group]], some: list[Group], plain: Callable[[Group], bool]) -> None:
    """Adds groups to the last kernel, where that is pointwise work they do not wait for."""
    last = found[-1] if found else []
    alone = any(_follows(one, before) for one in some for before in last)
    if last and not alone and len(last) + len(some) <= MAX_LOOPS and all(map(plain, last)):
        last += some
    else:
        found.append(some)


def _follows(group: Group, other: Group) -> bool:
    """Whether a group must run after another."""
    return bool(group.before >> other.position & 1)


def _parts(groups: Sequence[Group]) -> list[list[Group]]:
    return [[*groups[i : i + MAX_LOOPS]] for i in range(0, len(groups), MAX_LOOPS)]
