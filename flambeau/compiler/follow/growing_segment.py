"""GrowingSegment: one event list for calls that differ in a length, such as a growing KV cache.

Lists of three lengths are compared. Extents, strides, offsets and plain integers that differ must
be functions of the length. The operand at the first varying event reveals a call's length; the
varying parts of the list are then rewritten for it. After that, the call is compared with the list
like any other segment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...native.foundation.generated_code import SourceBuilder
from ...native.target.compile_costs import LENGTHS_BEFORE_MERGING
from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from ..schedule.polynomials import NoCommonForm, Polynomial, fit
from ..trace.operands import collect_tensors
from ..trace.plain_values import are_same_plain, are_same_setting
from ..trace.trace import CONSTANT, EMPTY, OPERATOR, WRITE, Event, Value, are_same_bits
from .memory_layout import allocate
from .segment import INPUT, INTERNAL, Memory, Segment
from .segment_recorder import create_window_in

MIN_EXTENT = 2  # smallest growing extent: extents of 0 and 1 follow other rules


@dataclass(frozen=True, eq=False)
class Form:
    """Part of a list that depends on the length.

    text: its source, as a function of the length `n`. solve: returns the length implied by the
    value seen in a call, or None.
    """

    text: str
    solve: Callable[[Any], int | None] = lambda item: None


class GrowingSegment(Segment):
    """A list for all lengths >= `least`.

    first_varying: the first event that depends on the length.
    """

    has_one_length = False

    def __init__(self, segments: Sequence[Segment]) -> None:
        """Merge the segments. Raises NoCommonForm if they have no common form."""
        first = segments[0]
        self.parts, self.lengths = [*segments], _find_lengths(segments)
        common = _Common(self.lengths)
        columns = list(zip(*([e.event for e in s.entries] for s in segments), strict=True))
        varying = [_is_varying_constant(events) for events in columns]
        fixed = [i for i, varies in enumerate(varying) if not varies]
        outside = {e[0].results[0].storage for e, varies in zip(columns, varying, strict=True)
                   if varies}
        self.takes_constants = bool(outside)
        events = {number: forms for number,
                  i in enumerate(fixed) if (forms := common.event(columns[i]))}
        memories = {k: forms for k in range(len(first.memory))
                    if (forms := common.memory([s.memory[k] for s in segments], k in outside))}
        plain = [_move_calls(s.calls, fixed) for s in segments]
        calls = common.calls(plain)
        if not events:
            raise NoCommonForm("nothing that depends on the length")
        self.varying, self.varying_calls = frozenset(events), frozenset(calls)
        self.varying_storages = frozenset(memories)
        self.first_varying = min(events)
        self._first_form = events[self.first_varying].get("args")
        self.least = common.least
        self.origin: Any = None  # the exit where it starts
        self.length = self.lengths[0]
        super().__init__(
            [replace(first.entries[i].event) for i in fixed],
            [replace(m, kind=INPUT if k in outside else m.kind, computed=None, written=False)
             for k, m in enumerate(first.memory)],
            first.modes, first.silent, plain[0])
        self._source, self._forms = common.source, (events, memories, calls)
        self._write = self._define(self)

    def _define(self, segment: Segment) -> Callable[[int], None]:
        """Return a function that rewrites `segment` (this one or a copy) for a length."""
        events, memories, calls = self._forms
        source = SourceBuilder({**self._source.names, "memory": segment.memory,
                                "calls": segment.calls, "arrays": segment.recycled.arrays,
                                "geometries": segment.recycled.geometries})
        source.add(*self._source.lines, depth=0)
        for s, forms in memories.items():
            m = source.name(segment.memory[s])
            source.add(*[f"{m}.{name} = {form.text}" for name, form in forms.items()])
            source.add(f"whole = {m}.whole", f"arrays[{s}] = None",
                       f"geometries[{s}] = whole.shape, whole.strides, whole.dtype")
        for i, forms in events.items():
            entry = source.name(segment.entries[i])
            source.add(*[f"{entry}.event.{name} = {form.text}" for name, form in forms.items()])
            source.add(f"{entry}.prepare(memory)")
        source.add(*[f"calls[{number}] = {text}" for number, text in calls.items()])
        return source.define("write(n)", "<flambeau growing segment>")[1]

    def resize(self, length: int) -> None:
        """Rewrite the list for a length."""
        if length != self.length:
            self.length = length
            self._write(length)

    def adapt(self, number: int, bound: tuple) -> bool:
        """Rewrite the list if the operands imply another length. Return whether it changed."""
        form = self._first_form if number == self.first_varying else None
        length = None if form is None else form.solve(bound)
        if length is None or length < self.least or length == self.length:
            return False
        self.resize(length)
        return True

    def is_fixed(self, number: int, owners: Any, arguments: Any) -> bool:
        """Whether an event, and a function before it with these arguments, are the same for all
        lengths."""
        if number in self.varying or number in self.varying_calls:
            return False
        varying = {id(owners[s]) for s in self.varying_storages if owners[s] is not None}
        return not any(id(find_owner(x._array)) in varying for x in collect_tensors(arguments))

    def sample(self, length: int) -> tuple[Segment, list[np.ndarray | None]]:
        """Return a separate segment for one length, and arrays laid out like its inputs."""
        segment = Segment([replace(e.event) for e in self.entries],
                          [replace(m, computed=None, written=False) for m in self.memory],
                          self.modes, self.silent, dict(self.calls))
        self._define(segment)(length)
        return segment, [_allocate_like(m) if m.kind == INPUT else None for m in segment.memory]


def find_growth(segments: Sequence[Segment]) -> GrowingSegment | None:
    """Merge an exit's newest segments into one growing segment; None if they do not merge."""
    newest = segments[0]
    alike = [s for s in segments if not isinstance(s, GrowingSegment) and s.modes == newest.modes
             and s.count == newest.count and len(s.memory) == len(newest.memory)]
    if len(alike) < LENGTHS_BEFORE_MERGING:
        return None
    try:
        return GrowingSegment(alike[:LENGTHS_BEFORE_MERGING])
    except NoCommonForm:
        return None


def _find_lengths(segments: Sequence[Segment]) -> list[int]:
    """Return the first extent of an input that is different in every segment."""
    for k, memory in enumerate(segments[0].memory):
        firsts = [s.memory[k].first for s in segments]
        if memory.kind != INPUT or any(f is None for f in firsts):
            continue
        shapes = [f.shape for f in firsts if f is not None]
        if len({*map(len, shapes)}) > 1:
            break
        for extents in zip(*shapes, strict=True):
            if len({*extents}) == len(extents):
                return [*extents]
    raise NoCommonForm("no argument extent changes")


class _Common:
    """Finds what lists of several lengths have in common. `least`: the shortest length covered."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.least = lengths, MIN_EXTENT
        self.source = SourceBuilder({"Value": Value})  # code that rewrites the list for a length
        self._variables: dict[tuple, str] = {}  # variables that hold windows, by their geometry

    def event(self, events: Sequence[Event]) -> dict[str, Form]:
        """Return the parts of an event that depend on the length."""
        first = events[0]
        if any((e.kind, e.operator, e.function, e.form) !=
               (first.kind, first.operator, first.function, first.form) for e in events) \
                or first.kind not in (OPERATOR, WRITE, CONSTANT, EMPTY):
            raise NoCommonForm("other events")
        if any(not _is_same_array(e.array, first.array) for e in events):
            raise NoCommonForm("different constants")
        result = {}
        for name in ("args", "kwargs", "results"):
            form = self.common([getattr(e, name) for e in events])
            if isinstance(form, Form):
                result[name] = form
        operator = first.operator
        if result and operator is not None and not operator.extents_follow:
            raise NoCommonForm(f"{operator.name} computes extents in an unsupported way")
        return result

    def memory(self, memories: Sequence[Memory], is_outside: bool) -> dict[str, Form]:
        """Return the parts of a storage that depend on the length. `is_outside`: it holds
        constants that differ from call to call."""
        first = memories[0]
        if any(m.kind != first.kind or m.owner is not first.owner or m.computed != first.computed
               for m in memories):
            raise NoCommonForm("other memory")
        if (first.kind != INTERNAL or is_outside) and any(m.written for m in memories):
            raise NoCommonForm("writes to memory from outside the step")
        result = {}
        for name in ("whole", "first"):
            form = self.common([getattr(m, name) for m in memories])
            if isinstance(form, Form):
                result[name] = form
        return result

    def calls(self, calls: Sequence[dict[int, list[Any]]]) -> dict[int, str]:
        """Return source for composite calls whose plain arguments depend on the length."""
        first = calls[0]
        if any(calls.keys() != first.keys() for calls in calls):
            raise NoCommonForm("different functions")
        result = {}
        for number, here in first.items():
            several = [calls[number] for calls in calls]
            if any(len(calls) != len(here) for calls in several):
                raise NoCommonForm("different functions")
            parts = []
            for entries in zip(*several, strict=True):
                if any(hook is not entries[0][0] for hook, _ in entries):
                    raise NoCommonForm("different functions")
                parts.append((entries[0][0], self.common([key for _, key in entries])))
            if any(isinstance(form, Form) for _, form in parts):
                text = ", ".join(f"({self._write_part(hook)}, {self._write_part(key)})"
                                 for hook, key in parts)
                result[number] = f"[{text}]"
        return result

    def common(self, items: Sequence[Any]) -> Any:
        """Return the common form of one item at all lengths: the item itself, or a Form."""
        first = items[0]
        kind = first.__class__
        if any(item.__class__ is not kind for item in items):
            raise NoCommonForm("different arguments")
        if kind is Value:
            return self._value(items)
        if kind is int:
            return self._number(items, 1)
        if kind is tuple or kind is list:
            return self._write_sequence(items, kind)
        if kind is dict:
            if any([*item] != [*first] for item in items):
                raise NoCommonForm("different arguments")
            form = self._write_sequence([tuple(item.values()) for item in items], tuple)
            if not isinstance(form, Form):
                return first
            return Form(f"dict(zip({self._write_part([*first])}, {form.text}))")
        if kind is slice:
            form = self._write_sequence([(s.start, s.stop, s.step) for s in items], tuple)
            return Form(f"slice(*{form.text})") if isinstance(form, Form) else first
        if any(item is not first and not _is_same(item, first) for item in items):
            raise NoCommonForm("different arguments")
        return first

    def _number(self, items: Sequence[int], degree: int) -> Any:
        form = fit(self.lengths, items, degree)
        return form if isinstance(form, int) else Form(form.source())

    def _write_part(self, part: Any) -> str:
        """Return source for a part."""
        return part.text if isinstance(part, Form) else self.source.name(part)

    def _write_sequence(self, items: Sequence[Any], kind: type) -> Any:
        if len({len(item) for item in items}) > 1:
            raise NoCommonForm("a different number of arguments")
        parts = [self.common(row) for row in zip(*items, strict=True)]
        forms = [(i, part) for i, part in enumerate(parts) if isinstance(part, Form)]
        if not forms:
            return items[0]

        def solve(item: Any) -> int | None:
            if not isinstance(item, (tuple, list)) or len(item) != len(parts):
                return None
            return next((n for i, form in forms if (n := form.solve(item[i])) is not None), None)

        text = "".join(f"{self._write_part(part)}, " for part in parts)
        return Form(f"[{text}]" if kind is list else f"({text})", solve)

    def _value(self, items: Sequence[Value]) -> Any:
        first = items[0]
        if all(v == first for v in items):
            return first
        if any(v.storage != first.storage or v.dtype != first.dtype
               or len(v.shape) != len(first.shape) for v in items):
            raise NoCommonForm("different windows")
        offset = fit(self.lengths, [v.offset for v in items])
        shape = [fit(self.lengths, extents, 1)
                 for extents in zip(*(v.shape for v in items), strict=True)]
        strides = [fit(self.lengths, strides)
                   for strides in zip(*(v.strides for v in items), strict=True)]
        for k, extent in enumerate(shape):
            if isinstance(extent, Polynomial):
                if extent.slope < 1 or min(v.shape[k] for v in items) < MIN_EXTENT:
                    raise NoCommonForm("extents that shrink or equal one")
                self.least = max(self.least, -((extent.base - MIN_EXTENT) // extent.slope))
        text = (f"Value({first.storage}, {_source(offset)}, {_write_tuple(shape)}, "
                f"{_write_tuple(strides)}, {self.source.name(first.dtype)})")
        key = (first.storage, offset, *shape, *strides)
        variable = self._variables.get(key)
        if variable is None:
            variable = self._variables[key] = f"w{len(self._variables)}"
            self.source.add(f"{variable} = {text}")

        def solve(item: Any) -> int | None:
            array = item._array if isinstance(item, Tensor) else item
            if not isinstance(array, np.ndarray) or array.ndim != len(shape):
                return None
            for extent, actual in zip(shape, array.shape, strict=True):
                if isinstance(extent, Polynomial):
                    n, rest = divmod(actual - extent.base, extent.slope)
                    return None if rest else n
            return None

        return Form(variable, solve)


def _is_varying_constant(events: Sequence[Event]) -> bool:
    """Whether the events are constants whose values differ, but not their dtype and rank."""
    arrays = [e.array for e in events if e.kind == CONSTANT and e.array is not None]
    return (len(arrays) == len(events) and len({(a.dtype, a.ndim) for a in arrays}) == 1
            and not all(are_same_bits(a, arrays[0]) for a in arrays))


def _move_calls(calls: dict[int, list[Any]], events: Sequence[int]) -> dict[int, list[Any]]:
    """Renumber composite calls, keyed by the event they precede, to positions in `events`."""
    result: dict[int, list[Any]] = {}
    for number, here in calls.items():
        result.setdefault(bisect_left(events, number), []).extend(here)
    return result


def _source(form: int | Polynomial) -> str:
    return str(form) if isinstance(form, int) else form.source()


def _write_tuple(forms: Sequence[int | Polynomial]) -> str:
    return "(" + "".join(f"{_source(form)}, " for form in forms) + ")"


def _is_same_array(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is b or are_same_bits(a, b)


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return are_same_bits(a, b)
    return are_same_plain(a, b) or are_same_setting(a, b)


def _allocate_like(memory: Memory) -> np.ndarray:
    """Return a new array with the layout of an input's first use."""
    geometry = memory.whole
    owner = allocate((geometry.shape, geometry.strides, geometry.dtype))
    return owner if memory.first is None else create_window_in(owner, memory.first)
