"""Side effects: what a call changes in names, attributes, lists and dicts.

A program runs no Python. It repeats the storing of tensors; any other change, such as a counter's,
would be lost, and is a reason not to skip the step's Python.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from ...tensor.tensor import Tensor
from .host_reads import kept_read, of_numbers, put_back
from ..trace.plain_values import PLAIN, same_plain
from .python_state import Holder, Surroundings
from ..trace.trace import Effect, Trace

_MISSING = object()


def noted(around: Surroundings, trace: Trace, result: Any,
          container_ids: list[int]) -> Any:
    """Add changes to the trace; returns what a program must produce: the result and stored tensors.

    Adds the ids of the lists and dicts that are stored to `container_ids`. Only ids, because a
    list may contain Numbers, which nothing may hold after the call.
    """
    trace.plain = list(_plain_leaves(result))
    retained = []
    for holder in (*around.holders, *around.groups):
        for name, key, value in _changes(holder):
            if id(holder.place) in around.given:
                trace.add_problem("it changes a list or dict that is an argument: return what is "
                                  "new instead", around.line_of(key))
                return result
            numbers = of_numbers(value)
            container_ids += map(id, containers_of(value))
            if numbers and holder.place is not None:
                before = holder.before
                old = before.get(key, _MISSING) if isinstance(before, dict) else _MISSING
                value = kept_read(value, old, holder.place, key)
                trace.plain += _plain_leaves(value)
            if holder.place is None or not (numbers or _of_tensors(value)):
                trace.add_problem(f"it changes {name}, which is Python's, and no compiled call "
                              "would", around.line_of(key))
                return result
            trace.effects.append(Effect(name, holder.place, key))
            retained.append(value)
    return (result, tuple(retained)) if retained else result


def clean(around: Surroundings) -> None:
    """Replace Numbers that the step stored by plain numbers."""
    for holder in around.holders:
        for _, key, value in list(_changes(holder)) if holder.place is not None else ():
            if of_numbers(value):
                put_back(holder.place, key, len(holder.before) if key is None else 0)


# --------------------------------------------------------------------------------- changes


def perform(effects: list[Effect], kept: tuple) -> None:
    """Repeat a recorded call's side effects with this call's tensors."""
    for effect, value in zip(effects, kept, strict=True):
        if isinstance(effect.place, list):
            effect.place.extend(value)
        elif isinstance(effect.place, types.CellType):
            effect.place.cell_contents = value
        else:
            effect.place[effect.key] = value


def _changes(holder: Holder) -> Iterator[tuple[str, Any, Any]]:
    """(name, key, new value) for each change; for a list, what was appended."""
    before, now = holder.before, holder.read()
    if isinstance(now, tuple):
        same = len(now) >= len(before) and all(map(same_plain, before, now))
        if not same:
            yield holder.path, None, _MISSING
        elif len(now) > len(before):
            yield holder.path, None, list(now[len(before):])
        return
    for key in {**before, **now}:
        if not same_plain(before.get(key, _MISSING), now.get(key, _MISSING)):
            yield holder.named(key), key, now.get(key, _MISSING)


def containers_of(x: Any) -> Iterator[Any]:
    """The lists and dicts of a structure, each as often as it lies there."""
    if isinstance(x, (list, dict)):
        yield x
    if isinstance(x, (tuple, list, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from containers_of(part)


def _plain_leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, (tuple, list)):
        for item in x:
            yield from _plain_leaves(item)
    elif isinstance(x, dict):
        yield from _plain_leaves(list(x.values()))
    elif x.__class__ in PLAIN:
        yield x


def _of_tensors(x: Any) -> bool:
    """Whether a value consists only of tensors in new tuples, lists and dicts."""
    if x.__class__ in (tuple, list):
        return all(map(_of_tensors, x))
    if x.__class__ is dict:
        return all(map(_of_tensors, x.values()))
    return isinstance(x, Tensor)
