"""SegmentRecorder: record a new segment of a followed call while its operators run eagerly.

When it ends, the segment is stored at its exit, and its program is built. Segments of different
lengths may be merged there (`FollowedFunction.grow`). If calls reached that exit only by leaving
older segments, those are parts of one growing list too, so the next calls are recorded from the
fork.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.tape import next_sequence
from ...native.foundation.user_frames import WarningCount
from ...native.target.compile_costs import LENGTHS_BEFORE_MERGING, MAX_FAILED_RECORDINGS
from ...nn.parameter import Parameter
from ...ops.core.operator import Operator
from ...tensor.layout import as_bytes, find_owner
from ..capture.live_tensors import find_live_tensors
from ..capture.recorder import Recorder
from ..trace.ambient_modes import read_ambient_modes
from ..trace.bindings import view_bytes
from ..trace.trace import CALL, UPDATE, Event, Value, address, collect_values
from .backward_pass import BackwardPass
from .hooks import RECORDING, Hook
from .segment import (
    INPUT, INTERNAL, STABLE, Exit, Memory, Segment, find_twin, find_written,
)

if TYPE_CHECKING:
    from .session import Session

# flambeau modules whose functions wrap memory that Python created, or that a node of an earlier
# segment saved as its output and whose tensor is gone.
_WRAPPING = ("flambeau.autograd.saved.",
             "flambeau.ops.creation.interchange",
             "flambeau.ops.creation.creation", "flambeau.ops.creation.sequences",
             "flambeau.tensor.", "flambeau.utils.", "flambeau.serialization.")


class SegmentRecorder(Recorder):
    """Records one segment for a session.

    cut: the number of events before the first unsupported one; None if all are supported.
    fault: why the whole recording is discarded; empty if it is not.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        super().__init__(values=False)
        self.cut: int | None = None
        self.why = self.fault = ""
        tensors = find_live_tensors()
        owners = [find_owner(t._array) for t in tensors]
        self.trace.known_owners.update(map(id, owners))
        self.trace.existing_tensors = {id(t) for t in tensors}
        self.stable = {id(find_owner(t._array)) for t in tensors if isinstance(t, Parameter)}
        # The owners of tensors whose memory calls replace.
        self.moving = {id(find_owner(t._array)) for t in session.driver.moving.iterate()}
        self.keep_alive.append((tensors, owners))
        self.modes = read_ambient_modes()
        self.calls: dict[int, list[Any]] = {}  # composite calls, by the number of events before
        self.sequence: int = next_sequence()
        self.backwards: list[BackwardPass] = []
        self.group_updates: set[int] = set()  # events that are an optimizer's step over a group
        self.silent: set[str] = set()  # operators that returned windows on their operands

    @property
    def on(self) -> bool:
        """Whether this thread is currently recorded."""
        return not self.session.quiet

    @property
    def quiet(self) -> int:
        """Nesting depth of operators and of the library's own code."""
        return self.session.quiet

    @quiet.setter
    def quiet(self, value: int) -> None:
        """Ignore the value; the session counts."""

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Record nothing inside the block."""
        with self.session.silence():
            yield

    def problem(self, message: str) -> None:
        """End the segment before an unsupported event."""
        if self.cut is None:
            self.cut, self.why = len(self.trace.events), f"{message} ({self.line()[0]})"

    def record(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call an intercepted function. If an operator warns, end the segment before it: the
        filters that are set at its line decide about the warning. Composites warn anew each call.
        """
        if hook.operator is None:
            return hook.record(hook.original, args, kwargs)
        warnings, count = WarningCount.value, len(self.trace.events)
        try:
            return hook.record(hook.original, args, kwargs)
        finally:
            if WarningCount.value != warnings and (self.cut is None or self.cut > count):
                self.cut = count
                self.why = f"{hook.function.__name__}() warns ({self.line()[0]})"

    def adopt(self, array: np.ndarray) -> None:
        """Treat memory that Python allocated during the recording as outside memory."""
        owner = find_owner(array)
        if id(owner) not in self.trace.storage_numbers:
            self.trace.known_owners.add(id(owner))
            self.keep_alive.append(owner)

    def window(self, array: np.ndarray, line: str = "") -> Value | None:
        """Return the Value of an array. Unknown memory is adopted as outside memory."""
        result = self.trace.value_of(array)
        if result is not None:
            return result
        maker = self.trace.unrecorded_makers.get(id(find_owner(array)), "")
        if maker and not maker.startswith(_WRAPPING):
            self.fault = self.fault or f"{maker} computes values unseen ({line or self.line()[0]})"
        self.adopt(array)
        return self.trace.value_of(array)

    def computes(self, array: np.ndarray) -> bool:
        """Whether recorded events compute or write an array's memory."""
        storage = self.trace.storage_of(array)
        return storage is not None and (not storage.external or any(
            value.storage == storage.number
            for event in self.trace.events for value in find_written(event)))

    def write(self, target: np.ndarray, source: np.ndarray, **parts: Any) -> None:
        """Record a copy of `source` into `target`."""
        self.trace.value_of(target)  # registers outside memory
        super().write(target, source, **parts)

    def write_new(self, target: np.ndarray, source: np.ndarray) -> None:
        """Record a copy of `source` into memory that was allocated for it."""
        super().write(target, source)

    def add(self, kind: str, **parts: Any) -> Event:
        """Append an event."""
        if kind == CALL:
            self.problem(f"{getattr(parts.get('function'), '__name__', kind)} is called eagerly")
        return super().add(kind, **parts)

    def result(self, operator: Operator, refs: tuple, bound: tuple, result: Any) -> None:
        """Record an operator's results."""
        count = len(self.trace.events)
        super().result(operator, refs, bound, result)
        if len(self.trace.events) == count:
            self.silent.add(operator.name)

    # --------------------------------------------------------------------------- the end

    def finish(self) -> tuple[Segment, list[Any], list[np.ndarray | None], set[int]] | None:
        """Return the segment, the owner of each storage, the input array of each storage, and the
        surviving storages; None if there is nothing to follow."""
        trace = self.trace
        events = trace.events if self.cut is None else trace.events[: self.cut]
        self.keep_alive.clear()
        trace.walked_nodes.clear()
        trace.grads.clear()
        if self.fault or not events or self.trace.problems:
            self.why = self.fault or self.why or "".join(message for message,
                                                         _ in trace.problems[:1])
            return None
        for event in events:
            if event.kind == UPDATE:
                self._note_states(event)
        self._note_buffers()
        memory, owners, inputs = self._describe_memory(events)
        segment = Segment(events, memory, self.modes, self.silent, self.calls)
        segment.group_updates = {i for i in self.group_updates if i < len(events)}
        alive = {s.number for s in trace.storages
                 if s.owner_ref is not None and s.owner_ref() is not None}
        for backward in self.backwards:
            entries = segment.entries[backward.start : backward.end]
            result = {s for entry in entries for s in entry.allocated}
            result -= {grad.window.storage for grad in backward.grads}
            if backward.is_closed(events, memory) and not result & alive:
                segment.backwards[backward.start] = backward
        return segment, owners, inputs, alive

    def _note_states(self, event: Event) -> None:
        for param, _, states in event.args:
            for value in (param, *states):
                owner = self.trace.storages[value.storage].owner
                if owner is not None:
                    self.stable.add(id(owner))

    def _note_buffers(self) -> None:
        for reference in self.trace.modules:
            module = reference()
            if module is not None:
                for buffer in module._buffers.values():
                    if buffer is not None:
                        self.stable.add(id(find_owner(buffer._array)))

    def _describe_memory(
        self, events: list[Event]
    ) -> tuple[list[Memory], list[np.ndarray | None], list[np.ndarray | None]]:
        trace = self.trace
        first: dict[int, Value] = {}
        for event in events:
            for value in collect_values((event.args, event.kwargs)):
                first.setdefault(value.storage, value)
        memory, owners, inputs = [], [], []
        for storage in trace.storages:
            owner, array = storage.owner, None
            if not storage.external:
                kind = INTERNAL
            elif id(owner) in self.stable and id(owner) not in self.moving:
                kind = STABLE
            else:
                kind = INPUT
                use = first.get(storage.number)
                if use is not None and owner is not None:
                    array = create_window_in(owner, use)
            stored = owner if kind == STABLE else None
            memory.append(Memory(kind, storage.whole, stored, first.get(storage.number)))
            owners.append(storage.owner_ref() if storage.owner_ref is not None else owner)
            inputs.append(array)
        return memory, owners, inputs


def create_window_in(owner: np.ndarray, value: Value) -> np.ndarray:
    """Return the window of a Value on the array that owns its storage."""
    if value.offset == 0 and value.shape == owner.shape and value.strides == owner.strides:
        return owner
    memory = as_bytes(owner)
    start = value.offset + address(owner) - memory.ctypes.data
    return view_bytes(memory, replace(value, offset=start))


# --------------------------------------------------------------- the end of a recording


def end_recording(session: Session) -> None:
    """Finish the recorded segment and start building its program."""
    recorder, session.recorder = session.recorder, None
    assert recorder is not None
    with session.silence():
        RECORDING.remove()
        result = recorder.finish()
        if recorder.why:
            session.driver.note(recorder.why)
        if result is None:
            if recorder.trace.events:
                _count_failure(session, recorder.why)
            return
        exit, segment = session.position.exit, result[0]
        twin = None if exit.fresh else find_twin(session.driver.root, segment, exit)
        if twin is not None:
            _continue_with(session, twin, recorder)
            return
        exit.segments.insert(0, segment)
        grown = session.driver.grow(exit, result[3])
        is_partial = exit.fresh > 0 or recorder.cut is not None
        if grown is not None:
            segment = grown
            _record_from_fork(session, exit)
        elif exit.fresh:
            _count_fresh(exit)
        else:
            session.driver.build(segment, segment.count, *result[1:])
    if not is_partial:
        session.position.move_to(segment.exit(segment.count))
    else:  # events after the cut ran eagerly and belong to no segment
        session.retire()


def _continue_with(session: Session, twin: Segment, recorder: SegmentRecorder) -> None:
    """Take the segment that does the same instead of the recorded one."""
    known = twin.calls.setdefault(0, [])
    known += [call for call in recorder.calls.get(0, ()) if call not in known]
    session.position.exit.segments.insert(0, twin)
    if recorder.cut is None:
        session.position.move_to(twin.exit(twin.count))
    else:
        session.retire()


def _record_from_fork(session: Session, exit: Exit) -> None:
    """After a merge at an exit, record the next calls from the fork that led there, if any."""
    exit.fresh, fork = 0, session.position.fork
    if fork is not None and fork is not exit and fork.grows:
        fork.fresh = LENGTHS_BEFORE_MERGING


def _count_fresh(exit: Exit) -> None:
    """Count a call recorded from a fork. After the last one, return to the known segments."""
    exit.fresh -= 1
    if not exit.fresh:
        exit.grows = False
        exit.segments = [s for s in exit.segments if s.is_ready or s.exit(s.count).pending]


def _count_failure(session: Session, why: str) -> None:
    """Count a failed recording; close the exit after MAX_FAILED_RECORDINGS."""
    exit = session.position.exit
    exit.failures += 1
    if exit.failures >= MAX_FAILED_RECORDINGS:
        exit.closed = why or "it cannot be recorded"
        session.driver.stop_at(exit)
