"""Writes to outside objects: record those that a program can replay, and refuse all others."""

from __future__ import annotations

import gc
import types
from collections import OrderedDict, defaultdict
from itertools import count
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from ..trace.host_numbers import Place
from .facts import Facts
from .guards import Test
from .numbers.decisions import combine_numbers, compute_before
from .provenance import (
    UNKNOWN, Kind, NotProvedError, Provenance, Symbol, is_plain, make_attribute_key,
)
from .shadow_frame import CallState, Runs, ShadowFrame
from .stores import AdvancedCount, Store, read_position

CHANGES_ARGUMENT = "it changes a list or dict that is an argument: return what is new instead"
_TENSOR_ATTRIBUTES = ("grad", "data", "requires_grad")
_SETTERS = (object.__setattr__, Module.__setattr__, types.SimpleNamespace.__setattr__)
_MEMBERS = ("_parameters", "_buffers", "_modules")


def store(
    facts: Facts, s: ShadowFrame, target: Provenance, key: Any, value: Provenance, item: bool
) -> None:
    """Handle a write to an attribute, or to an entry if `item`."""
    text = "[...]" if not is_plain(key) else f"[{key!r}]" if item else f".{key}"
    if target.kind is Kind.FRESH:
        facts.need(value)
        target.tainted |= value.tainted
        put_part(target, key, value)
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
        s.call = CallState(runs=Runs.ANY_CODE)
        return
    if target.kind is Kind.ARGUMENT:
        raise NotProvedError(CHANGES_ARGUMENT)
    if target.kind is not Kind.OUTSIDE:
        raise NotProvedError(f"it writes {text} of an object of unknown origin")
    facts.need(target)
    _check_target(facts, target.value, key, text, item)
    owner = target.value.__dict__ if isinstance(target.value, types.ModuleType) else target.value
    place = Place(owner, key, not item and owner is target.value)
    note_write(facts, place, facts.path_of(target) + text, value)


def put_part(target: Provenance, key: Any, value: Provenance) -> None:
    """Record an entry written to a list or dict that the call created."""
    if isinstance(target.parts, dict) and is_plain(key):
        target.parts[key] = value
    else:
        target.parts = None


def _check_target(facts: Facts, x: Any, key: Any, text: str, item: bool) -> None:
    kind = type(x)
    if item:
        if kind not in (list, dict, OrderedDict, defaultdict):
            raise NotProvedError(f"it writes an entry of a {kind.__name__} from outside the step")
        if not is_plain(key):
            raise NotProvedError("it writes to a key of unknown origin")
        return
    on_class = next((c.__dict__[key] for c in kind.__mro__ if key in c.__dict__), None)
    setter: Any = kind.__setattr__
    usual = setter in _SETTERS
    if not usual or hasattr(type(on_class), "__set__"):
        raise NotProvedError(f"writing {kind.__name__}{text} runs code")
    if isinstance(x, Module) and any(key in x.__dict__[name] for name in _MEMBERS):
        raise NotProvedError(f"it replaces the member {key} of a module")
    if not isinstance(x, types.ModuleType):
        facts.guard_lookup(kind, "__setattr__", key)


def note_write(facts: Facts, place: Place, path: str, value: Provenance) -> None:
    """Record a write to an outside place, so that the program repeats it."""
    key: Any = (make_attribute_key(place.owner, place.key) if place.is_attribute else
                (id(place.owner), place.key))
    name = facts.proof.describe(path)
    facts.require_order(key, name)
    store = facts.stores[key] = Store(place, name, facts.line, [value], after=facts.prints)
    facts.written[path] = store
    before = facts.reads.get(key)
    was_needed = before is not None and before.guard is not None and before.guard.needed
    increment = value.increment
    if increment is not None and was_needed:
        raise NotProvedError(facts.proof.depends_on(path))
    if increment is not None and increment.path == path:
        _count_from(facts, path)
        store.adds_up = True
    else:
        store.is_computed = value.symbol is not None and value.kind is Kind.PLAIN
        if store.is_computed:
            compute_before(facts, value)
        else:
            _need_stored_value(facts, name, value)
        if was_needed and before is not None and before.value is not value.value:
            raise NotProvedError(facts.proof.depends_on(path))
    facts.writes[key] = value


def _count_from(facts: Facts, path: str) -> None:
    """Note that the step adds to a place's number. Whatever the number is, it must be a number."""
    if path not in facts.counters:
        facts.proof.constants["numbers"] = (int, float)
        facts.guard(f"({path}.__class__ in numbers)", Test.IDENTITY, True)
    facts.counters.add(path)


def _need_stored_value(facts: Facts, name: str, value: Provenance) -> None:
    if value.kind in (Kind.NUMBER, Kind.PLAIN):
        facts.need(value)
    elif value.kind not in (Kind.TENSOR, Kind.FRESH):
        raise NotProvedError(f"it stores an object of unknown origin in {name}")


# ------------------------------------------------------------------------- next() of a count
#
# An `itertools.count` of ints gives what follows from its position, which can be read without
# advancing it. The position is guarded like any other number: by value if the step consumes what
# `next()` gives, by the outcome if it only decides (`if next(steps) % 100 == 0`), and not at all if
# it does neither. No other iterator is proved: what a generator runs cannot be seen beforehand, and
# the next element of a list's iterator is another object in each call, for which no program exists.


def is_count(x: Any) -> bool:
    """Whether `x` counts in steps of ints: any other number might be of a class of the step's."""
    return type(x) is count and all(
        type(number) is int for number in gc.get_referents(x) if number is not count)


def advance_count(facts: Facts, p: Provenance) -> Provenance:
    """Return the provenance of what `next()` gives, and note that a program advances the count."""
    counter = p.value
    key = id(counter), "position"
    path = f"{facts.constant(read_position)}({facts.path_of(p)})"
    store, now = facts.stores.get(key), read_position(counter)
    name = f"next() of {facts.proof.describe(facts.path_of(p))}"
    facts.require_order(key, name)
    if store is None:
        first = _read_position(facts, key, path, now)
        facts.stores[key] = facts.written[path] = AdvancedCount(
            Place(counter, None), name, facts.line, [first], after=facts.prints, start=now)
        return first
    assert isinstance(store, AdvancedCount)
    first = facts.reads[key]
    passed = Provenance(Kind.PLAIN, now - store.start)
    result = combine_numbers(facts, first, passed, "+")
    if result is None:
        raise NotProvedError("it calls next() of a count too often")
    store.values.append(result)
    return result


def _read_position(facts: Facts, key: Any, path: str, now: int) -> Provenance:
    guard = facts.guard(path, Test.VALUE, now, needed=False)
    facts.decided[f"{path}.__class__"] = guard, ()  # always an int
    first = Provenance(Kind.PLAIN, now, path, guard=guard, symbol=Symbol(path, (guard,)))
    facts.reads[key] = first
    return first
