"""Writes to objects outside: the few that a program performs, and refusals of others."""

from __future__ import annotations

import types
from collections import OrderedDict
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from .facts import Facts
from .provenance import UNKNOWN, Kind, NotProvedError, Provenance, is_plain
from .shadow_frame import CallState, ShadowFrame

_TENSOR_ATTRIBUTES = ("grad", "data", "requires_grad")


def store(
    facts: Facts, s: ShadowFrame, target: Provenance, key: Any, value: Provenance, item: bool
) -> None:
    """A write to an attribute, or with `item` to an entry."""
    text = "[...]" if not is_plain(key) else f"[{key!r}]" if item else f".{key}"
    if target.kind is Kind.FRESH:
        facts.need(value)
        target.tainted |= value.tainted
        kind = target.type if target.value is UNKNOWN else type(target.value)
        if kind is not None:
            facts.guard_lookup(kind, *(("__setitem__",) if item else ("__setattr__", key)))
        return
    if target.kind is Kind.TENSOR:
        facts.need(value)
        facts.guard_lookup(Tensor, "__setitem__" if item else key, "__setattr__")
        is_data = item and (value.kind is Kind.TENSOR or not value.tainted)
        if not is_data and (item or key not in _TENSOR_ATTRIBUTES):
            raise NotProvedError(f"it writes {text} of a tensor")
        s.call = CallState(runs_code=True)
        return
    if target.kind is Kind.ARGUMENT:
        raise NotProvedError("it changes a list or dict that is an argument")
    if target.kind is not Kind.OUTSIDE:
        raise NotProvedError(f"it writes {text} of an object that nobody knows")
    _check_target(target.value, key, text, item)
    place = target.value.__dict__ if isinstance(target.value, types.ModuleType) else target.value
    note_write(facts, (id(place), key), facts.path_of(target) + text, value)


def _check_target(x: Any, key: Any, text: str, item: bool) -> None:
    kind = type(x)
    if item:
        if kind not in (list, dict, OrderedDict):
            raise NotProvedError(f"it writes an entry of a {kind.__name__} from outside")
        if not is_plain(key):
            raise NotProvedError("it writes under a key that nobody knows")
        return
    on_class = next((c.__dict__[key] for c in kind.__mro__ if key in c.__dict__), None)
    setter: Any = kind.__setattr__
    usual = setter in (object.__setattr__, Module.__setattr__)
    if not usual or hasattr(type(on_class), "__set__"):
        raise NotProvedError(f"writing {kind.__name__}{text} runs code")


def note_write(facts: Facts, key: Any, path: str, value: Provenance) -> None:
    """A place outside gets another value; the recorder performs it, or refuses."""
    before = facts.reads.get(key)
    was_needed = before is not None and before.guard is not None and before.guard.needed
    counts = value.increment is not None and value.increment.path == path
    if value.increment is not None and was_needed:
        raise NotProvedError(f"what it does depends on {path}, which it changes")
    if counts:
        facts.counters.add(path)
        facts.writes[key] = value
        return
    if value.kind in (Kind.NUMBER, Kind.PLAIN):
        facts.need(value)
    elif value.kind not in (Kind.TENSOR, Kind.FRESH):
        raise NotProvedError(f"it puts an object that nobody knows into {path}")
    facts.writes[key] = value
    if was_needed and before is not None and before.value is not value.value:
        raise NotProvedError(f"what it does depends on {path}, which it changes")
