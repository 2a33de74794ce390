"""Orphans: tensors and optimizers that nothing but a followed function's own lists still holds.

A segment refers to the leaves whose grads it sets and to the optimizers that it advances. Once the
program has replaced them, the segment can never match again, and would only keep them alive. Which
ones are garbage but for these lists is found as a cycle collector does, by trial deletion.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from types import CellType, FunctionType, MethodType
from typing import Any

from ...optim.optimizer import Optimizer
from ...tensor.tensor import Tensor
from .segment import iterate_exits

_CONTAINERS = (list, tuple, dict, set, frozenset, CellType, MethodType)
_LISTS = __name__.rpartition(".follow")[0]  # the package whose objects make up the lists


def drop_orphans(driver: Any) -> None:
    """Drop a followed function's segments of tensors and optimizers that the program replaced."""
    segments = [s for exit in iterate_exits(driver.root) for s in exit.segments]
    orphans = {*map(id, _find_orphans(driver, segments))} if len(segments) > 1 else set()
    if not orphans:
        return
    for exit in iterate_exits(driver.root):
        exit.segments = [s for s in exit.segments if id(s) not in orphans]
    below = {id(s) for exit in iterate_exits(driver.root) for s in exit.segments}
    driver.programs = [p for p in driver.programs if id(p.segment) in below]


def _find_orphans(driver: Any, segments: Iterable[Any]) -> list[Any]:
    """Return those of the segments that refer to a tensor or an optimizer that only the driver's
    lists keep alive."""
    owned = {id(part) for x in _walk([driver], set(), driver.function)[1]
             if isinstance(x, Optimizer) for part in _parts_of(x)}
    lists, targets = _walk([driver], owned, driver.function)
    dead = _find_dead(lists, targets)
    if not dead:
        return []
    return [segment for segment in segments
            if any(id(x) in dead for x in _walk([segment], owned, driver.function)[1])]


def _parts_of(optimizer: Optimizer) -> list[Any]:
    """Return the containers of an optimizer, to which lists refer too."""
    groups = optimizer.param_groups
    states = optimizer.state
    return [groups, states, *groups, *[group["params"] for group in groups], *states.values()]


def _walk(roots: list[Any], owned: set[int], function: Any) -> tuple[list[Any], list[Any]]:
    """Return the lists' own objects below the roots, and the program's objects they refer to."""
    lists, targets, seen = [], [], {id(function), id(sys.modules)}
    stack = list(roots)
    while stack:
        x = stack.pop()
        if id(x) in seen or not gc.is_tracked(x):
            continue
        seen.add(id(x))
        if isinstance(x, (Tensor, Optimizer)) or id(x) in owned:
            targets.append(x)
        elif _is_own(x):
            lists.append(x)
            stack += gc.get_referents(x)
    return lists, targets


def _is_own(x: Any) -> bool:
    """Whether an object belongs to the lists: a container, or an object of the compiler's."""
    kind = type(x)
    if kind is FunctionType:
        return "__spec__" not in x.__globals__  # its source was generated
    if kind is dict and "__spec__" in x:
        return False  # a module's globals
    return isinstance(x, _CONTAINERS) or kind.__module__.startswith(_LISTS)


def _find_dead(lists: list[Any], targets: list[Any]) -> set[int]:
    """Return the ids of the targets to which no path leads from outside of lists and targets."""
    objects = _close(targets)
    targets.clear()
    number = {id(x): k for k, x in enumerate(objects)}
    inside = [0] * len(objects)
    for holder in (*lists, *objects):
        for x in gc.get_referents(holder):
            k = number.get(id(x))
            if k is not None:
                inside[k] += 1
    holder = x = None  # these references would count
    counts = _count_references(objects)
    stack = [k for k, count in enumerate(counts) if count - _HELD_BY_LIST > inside[k]]
    alive: set[int] = set()
    while stack:
        k = stack.pop()
        if k not in alive:
            alive.add(k)
            stack += [number[id(x)] for x in gc.get_referents(objects[k]) if id(x) in number]
    return {id(x) for k, x in enumerate(objects) if k not in alive}


def _count_references(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(objects[k]) for k in range(len(objects))]


_HELD_BY_LIST = _count_references([object()])[0]


def _close(targets: list[Any]) -> list[Any]:
    """Return the targets and the tracked objects below them: instances and containers only."""
    result, seen, stack = [], set[int](), list(targets)
    while stack:
        x = stack.pop()
        if id(x) in seen or not gc.is_tracked(x) or isinstance(x, (type, FunctionType)) \
                or type(x).__name__ in ("module", "frame", "builtin_function_or_method") \
                or type(x) is dict and "__spec__" in x:
            continue
        seen.add(id(x))
        result.append(x)
        stack += gc.get_referents(x)
    return result
