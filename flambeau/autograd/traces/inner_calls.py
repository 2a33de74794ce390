"""Inner calls of composite operators: how declarations write them, and when a profile shows them.

PyTorch's composites call other operators, where flambeau's compute with arrays. A declaration such
as "empty*(size) fill_(y, =1)" lists the calls in order. `*` marks the call that allocates the
result, or stands alone where the composite itself does; calls within a call follow in brackets.
Arguments are positions in the composite's list of arguments (`0`), the same transposed (`0t`), the
result (`y`), its `size`, `stride` and `dtype`, and numbers (`=1.0`). A name after a colon is in no
namespace.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...tensor.tensor import Tensor, wrap
from .recorder import Event, Recorder, RecordScope, read_event

__all__ = ["InnerCall", "ListedCall", "TimedCall", "list_calls", "parse", "place", "read_argument"]


class InnerCall(NamedTuple):
    """A call of an operator; the name is empty where only memory is allocated."""

    name: str
    arguments: tuple[str, ...]
    allocates: bool
    calls: tuple[InnerCall, ...]

    @property
    def event_name(self) -> str:
        """The name of the call's event, without the overload."""
        name = self.name.partition(".")[0]
        return name[1:] if name.startswith(":") else f"aten::{name}"

    @property
    def holds_memory(self) -> bool:
        """Whether the result is allocated in the call or within it."""
        return self.allocates or any(call.holds_memory for call in self.calls)


class TimedCall(NamedTuple):
    """An inner call and its span."""

    call: InnerCall
    begin_ns: int
    end_ns: int


_TOKEN = re.compile(r"(?P<name>:?[\w.]*)(?P<star>\*?)(?:\((?P<arguments>[^)]*)\))?")


@functools.cache
def parse(text: str) -> tuple[InnerCall, ...]:
    """Return the calls of a declaration.

    >>> from flambeau.autograd.traces.inner_calls import parse
    >>> [call.name for call in parse("empty*(size) fill_(y, =1)")]
    ['empty', 'fill_']
    """
    calls, rest = _parse_calls(text)
    if rest:
        raise ValueError(f"unexpected {rest!r} in the declaration {text!r}")
    return calls


def _parse_calls(text: str) -> tuple[tuple[InnerCall, ...], str]:
    """Return the calls up to a closing bracket or the end, and the text from there on."""
    calls: list[InnerCall] = []
    text = text.lstrip()
    while text and text[0] != "]":
        token = _TOKEN.match(text)
        if token is None or not token[0]:
            raise ValueError(f"no call begins at {text!r}")
        arguments = tuple(a.strip() for a in (token["arguments"] or "").split(",") if a.strip())
        inner: tuple[InnerCall, ...] = ()
        text = text[token.end():]
        if text.startswith("["):
            inner, text = _parse_calls(text[1:])
            text = text[1:]
        calls.append(InnerCall(token["name"], arguments, bool(token["star"]), inner))
        text = text.lstrip()
    return tuple(calls), text


def place(
    calls: tuple[InnerCall, ...], begin_ns: int, end_ns: int, memory: tuple[int, int] | None
) -> Iterator[TimedCall]:
    """Yield the calls, outer ones first, with spans that share the time from `begin_ns`.

    `memory`: the span in which the profile noted the result's memory, which the calls that hold
    memory cover; the composite itself has it if none of them does.
    """
    if end_ns - begin_ns > 2:  # inside the span, so that no two calls begin at the same time
        first, last = (end_ns, begin_ns) if memory is None else memory
        begin_ns, end_ns = min(begin_ns + 1, first), max(end_ns - 1, last)
    index = next((i for i, call in enumerate(calls) if call.holds_memory), None)
    if memory is None:
        yield from _share(calls, begin_ns, end_ns)
    elif index is None:
        yield from _share(calls, begin_ns, memory[0] - 1)
    else:
        before, after = calls[:index], calls[index + 1:]
        begin = memory[0] - (memory[0] - begin_ns) // (len(before) + 1)
        end = memory[1] + (end_ns - memory[1]) // (len(after) + 1)
        yield from _share(before, begin_ns, begin - 1)
        if calls[index].name:
            yield TimedCall(calls[index], begin, end)
            yield from place(calls[index].calls, begin, end, memory)
        yield from _share(after, end + 1, end_ns)


def _share(calls: tuple[InnerCall, ...], begin_ns: int, end_ns: int) -> Iterator[TimedCall]:
    """Yield the calls with equal spans, one after another, and the calls within them."""
    calls = tuple([call for call in calls if call.name])
    for i, call in enumerate(calls):
        width = (end_ns - begin_ns) // len(calls)
        begin = begin_ns + i * width
        end = end_ns if i == len(calls) - 1 else begin + max(width - 1, 0)
        yield TimedCall(call, begin, end)
        yield from place(call.calls, begin, end, None)


def read_argument(text: str, args: tuple, result: Any) -> Any:
    """Return the value of an argument of an inner call, None where the call has none."""
    if text.startswith("="):
        return float(text[1:]) if "." in text else int(text[1:])
    if text == "y":
        return result
    if text in ("size", "stride"):
        return list(result.shape) if isinstance(result, Tensor) else None
    if text == "dtype":
        return getattr(result, "dtype", None)
    position = int(text.rstrip("t"))
    value = args[position] if position < len(args) else None
    if text.endswith("t") and isinstance(value, Tensor) and value.ndim > 1:
        return wrap(value._array.swapaxes(-1, -2))
    return value


class ListedCall(NamedTuple):
    """An event of a profile's results: its number from 1, and the position of the recorder's event
    that it is or is within."""

    number: int
    position: int
    event: Event


def list_calls(recorder: Recorder) -> list[ListedCall]:
    """Return a recorder's events, and the inner calls that they declare.

    Inner calls stand for what the library calls to compute a composite, unless it called operators
    of PyTorch itself. Of an operator that only flambeau has, the event belongs to that of PyTorch's
    operator around it, or takes its name.
    """
    recorded = list(map(read_event, recorder.events))
    events = [*recorded, *_close_labels(recorder, recorded)]
    names = recorder.own_names
    covered, composed = _compare_nesting(events, names)
    calls: list[ListedCall] = []
    for k, event in enumerate(events):
        if k in covered:
            continue
        named = event._replace(name=names.get(event.name, event.name), inner=())
        for listed in (named, *(() if k in composed else _list_inner(event))):
            calls.append(ListedCall(len(calls) + 1, k, listed))
    return calls


def _close_labels(recorder: Recorder, events: list[Event]) -> Iterator[Event]:
    """Yield the events of labels that never ended: they end with the call around them."""
    for name, begin_ns, thread in recorder.open_labels.values():
        ends = [event.end_ns for event in events
                if event.thread == thread and event.begin_ns <= begin_ns <= event.end_ns]
        yield Event(name, begin_ns, min(ends, default=recorder.ended_ns), thread,
                    scope=RecordScope.USER_SCOPE.value)


def _list_inner(event: Event) -> Iterator[Event]:
    """Yield the events of the inner calls that an event has, or only declares."""
    if not isinstance(event.inner, str):
        yield from event.inner
        return
    for call, begin_ns, end_ns in place(parse(event.inner), event.begin_ns, event.end_ns, None):
        yield Event(call.event_name, begin_ns, end_ns, event.thread, None, event.stack, event.scope)


def _repeats(event: Event, around: str, names: dict[str, str]) -> bool:
    """Return whether an operator's event lies within one of the same operator, or of one that it
    calls: PyTorch's operators call neither themselves nor their callers."""
    if names.get(event.name, event.name) == names.get(around, around):
        return event.name.startswith("aten::")
    if not around.startswith("aten::"):
        return False
    if isinstance(event.inner, str):
        return any(call.event_name == around for call in parse(event.inner))
    return any(inner.name == around for inner in event.inner)


def _compare_nesting(
    events: list[Event], names: dict[str, str]
) -> tuple[set[int], set[int]]:
    """Return the indices of events that those around them stand for, and of events of composites
    with events of PyTorch's operators inside."""
    covered: set[int] = set()
    composed: set[int] = set()
    around: dict[int, list[int]] = {}
    for k in sorted(range(len(events)), key=lambda k: (events[k].begin_ns, -events[k].end_ns)):
        event = events[k]
        name = event.name
        stack = around.setdefault(event.thread, [])
        while stack and events[stack[-1]].end_ns < event.end_ns:
            stack.pop()
        if stack and _repeats(event, events[stack[-1]].name, names):
            covered.add(k)
        elif name in names:
            public = names[name].rstrip("_")
            if any(events[j].inner or events[j].name.rstrip("_") == public for j in stack):
                covered.add(k)
        elif name.startswith("aten::"):
            composed.update(stack)
        stack.append(k)
    return covered, composed
