"""Stores: values that a watched call writes to outside objects, and how to recompute them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ...ops.core.return_types import has_named_fields
from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from ..trace.host_numbers import Before, Old, Place, Read, evaluate
from ..trace.plain_values import PLAIN, are_same_plain
from .provenance import UNKNOWN, NotProvedError, Provenance

_MISSING = object()
_READS_VALUES = Reason("item() reads a tensor's values in Python", Advice.READ_OUTSIDE)


@dataclass
class Store:
    """A write to an attribute, an entry or a cell. `values`: the provenances of what was written,
    None where it is unknown. `line`: where the write happened. `adds_up`: the new value is the old
    one plus an amount. `is_computed`: the new value is a number with a symbol. `after`: how often
    the call had printed."""

    place: Place
    path: str
    line: tuple[str, int]
    values: list[Provenance | None]
    adds_up: bool = False
    is_computed: bool = False
    after: int = 0

    def read(self, is_strict: bool) -> Any:
        """Return the current value, with Reads in place of numbers from tensors."""
        p = self.values[-1] if self.values else None
        if self.adds_up:
            assert p is not None
            assert p.increment is not None
            return _add_amounts(Old(self.place), p.increment.amounts)
        if self.is_computed and p is not None and p.symbol is not None:
            if not are_same_plain(self.read_now(), p.value):
                raise NotProvedError(f"{self.path} changed during the call in an unknown way")
            return Before(p.symbol.source, p.value)
        result = replace_numbers(self.read_now(), p, is_strict)
        if not _is_new(result):
            raise NotProvedError(Reason(f"it stores a Python object in {self.path}",
                                        Advice.CHANGE_OUTSIDE))
        return result

    def read_now(self) -> Any:
        """Return what the place holds."""
        owner, key = self.place.owner, self.place.key
        if self.place.is_attribute:
            return owner.__dict__.get(key, _MISSING)
        return owner.cell_contents if hasattr(owner, "cell_contents") else owner[key]


@dataclass
class AppendedEntries(Store):
    """Entries appended to a list that had `start` entries before."""

    start: int = 0

    def read(self, is_strict: bool) -> list[Any]:
        """Return the new entries, with Reads in place of numbers from tensors."""
        now = self.read_now()
        if len(now) != len(self.values):
            raise NotProvedError(f"it changes {self.path} in an unknown way")
        return [replace_numbers(x, p, is_strict) for x, p in zip(now, self.values, strict=True)]

    def read_now(self) -> Any:
        """Return the new entries."""
        return self.place.owner[self.start :]


@dataclass
class AdvancedCount(Store):
    """Calls of `next()` on a count of ints that was at `start` before."""

    start: int = 0

    def read(self, is_strict: bool) -> int:
        """Return how often it was advanced."""
        p = self.values[-1] if self.values else None
        if p is None or self.read_now() != p.value:
            raise NotProvedError(f"it calls {self.path} in an unknown way")
        return len(self.values)

    def read_now(self) -> int:
        """Return what it gave last."""
        counter = self.place.owner
        return read_position(counter) - _step_of(counter)


def read_position(counter: count[int]) -> int:
    """Return what `next()` of a count of ints gives next."""
    text = repr(counter)[6:-1].partition(",")[0]
    return sys.maxsize if text == "<NULL>" else int(text)  # CPython: where a word ends


def _step_of(counter: count[int]) -> int:
    return int(repr(counter)[6:-1].partition(",")[2] or 1)


def _add_amounts(total: Any, amounts: list[Any]) -> Any:
    for amount in amounts:
        if amount.__class__ not in (Read, int, float):
            raise NotProvedError("it adds a number of unknown origin")
        total = Read("+", total, amount)
    return total


def replace_numbers(x: Any, p: Provenance | None, is_strict: bool) -> Any:
    """Return a structure with Reads in place of numbers from tensors. `is_strict`: the call read
    such numbers, so every other plain value must be proved independent of them."""
    if issubclass(type(x), (tuple, list)):
        parts = None if p is None else p.parts or p.items
        of_item: Sequence[Any] = (parts if isinstance(parts, list) and len(parts) == len(x)
                                  else [None] * len(x))
        items = [replace_numbers(item, part, is_strict)
                 for item, part in zip(x, of_item, strict=True)]
        if all(a is b for a, b in zip(x, items, strict=True)):
            return x
        return type(x)(*items) if has_named_fields(type(x)) else x.__class__(items)
    if type(x) is dict:
        parts = None if p is None else p.parts
        known = parts if isinstance(parts, dict) else {}
        if is_strict and x and not known:  # a key may be a tensor's number
            raise NotProvedError(_READS_VALUES)
        inner = {key: replace_numbers(item, known.get(key), is_strict) for key, item in x.items()}
        return x if all(x[key] is item for key, item in inner.items()) else inner
    if not is_strict or not issubclass(type(x), PLAIN) or x is None:
        return x
    return _require_plain(x, p)


def _require_plain(x: Any, p: Provenance | None) -> Any:
    """Return a plain value, or a Read if it came from a tensor; refuse if it could be either."""
    if p is not None and p.read is not None and are_same_plain(evaluate(p.read), x):
        return p.read
    if p is None or p.tainted or (p.value is not UNKNOWN and not are_same_plain(p.value, x)):
        raise NotProvedError(_READS_VALUES)
    return x


def _is_new(x: Any) -> bool:
    """Whether a value consists only of tensors, numbers and text in tuples, lists and dicts."""
    if x.__class__ is Read or isinstance(x, Tensor) or x.__class__ in PLAIN:
        return True
    if x.__class__ in (tuple, list):
        return all(map(_is_new, x))
    return x.__class__ is dict and all(map(_is_new, x.values()))


def iterate_containers(x: Any) -> Iterator[Any]:
    """Yield the lists and dicts of a structure, once per occurrence."""
    kind = type(x)
    if issubclass(kind, (list, dict)):
        yield x
    if issubclass(kind, (tuple, list, dict)):
        for part in x.values() if issubclass(kind, dict) else x:
            yield from iterate_containers(part)
