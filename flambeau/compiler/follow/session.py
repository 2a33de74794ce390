"""Session: one followed call. It follows a segment, records one, or stands between two, where
everything has values; a retired one leaves the rest of the call eager.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...autograd.mode import no_grad
from ...ops.core.registry import Kind, Operator
from ...ops.interception.code_patching import is_anything_swapped
from ...tensor.ambient import AMBIENT
from ...tensor.exposed_memory import is_exposed
from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor, wrap
from ..trace.ambient_modes import read_ambient_modes
from ..trace.trace import CONSTANT, DRAW, EMPTY, UPDATE, WRITE, same_bits
from .following import Following
from .foreign_tensors import needs_dispatch
from .hooks import ACTIVE, RECORDING, Hook
from .cue_writer import cue_for
from .inline_cache import is_due, link
from .other_threads import compute_for_another
from .varying_number import is_number_alone, with_tensor
from .segment import FAILURES, PATHS, Entry, Exit
from .segment_recorder import SegmentRecorder

NO = object()  # an operator that is not the list's next


class Session:
    """A call that is followed."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.thread = threading.get_ident()
        self.quiet = 0  # how deep inside of operators and of this package the call is
        self.recorder: SegmentRecorder | None = None
        self.following: Following | None = None
        self.exit: Exit = driver.root
        self.tried = 0  # segments of the exit that were tried
        self.retired = False
        self.strays = False  # whether it did what no program is for
        self.is_guarded = is_anything_swapped()  # whether arguments may be foreign tensors

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing is intercepted inside."""
        cue, following = ACTIVE.cue, self.following
        ACTIVE.cue = None
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1
            if self.following is following:
                ACTIVE.cue = cue

    # --------------------------------------------------------------------------- transitions

    def advance(self) -> bool:
        """Begins to follow the next segment that may come now; False where there is none."""
        segments = self.exit.segments
        if self.tried < len(segments):
            modes = read_ambient_modes()
            for at in range(self.tried, len(segments)):
                if segments[at].is_ready and segments[at].modes == modes:
                    self.tried = at + 1
                    self.following = Following(segments[at])
                    segments[at].last_call = self.driver.calls
                    return True
        # Those of other modes may still come: a backward pass begins where gradients are recorded.
        return False

    def mismatch(self) -> None:
        """Something else happens than the list has next."""
        ACTIVE.cue = None
        if self.following is not None and self.following.pos:
            self.flush()
        else:
            self.following = None

    def flush(self) -> None:
        """Computes what was listed, or ends what is recorded; everything has values then."""
        if self.recorder is not None:
            self._conclude()
        following, self.following = self.following, None
        ACTIVE.cue = None
        if following is None:
            return
        if not following.pos:
            self.tried -= 1  # it has not been tried
            return
        if following.cues is not None:
            link(following.segment, following.cues)
            following.cues = None
        self.exit, self.tried = following.segment.exit(following.pos), 0
        with self.silence():
            self.driver.compute(self, following)

    def lend(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Another thread is about to run something on tensors."""
        compute_for_another(self, args, kwargs)

    def finish(self) -> None:
        """The end of the call."""
        if not self.retired:
            self.flush()

    def leave(self) -> None:
        """Ends following: a tensor is of a class whose functions no program computes."""
        self.driver.note("a tensor is of a class that overrides functions")
        self.flush()
        self.retire()

    def record(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls a function while a segment is recorded."""
        if self.is_guarded and not self.quiet and needs_dispatch(args, kwargs):
            self.leave()
            return hook.function(*args, **kwargs)
        return hook.record(hook.original, args, kwargs)

    def follow(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls a function of which no cue is known."""
        if self.quiet:
            return hook.follow(self, args, kwargs)
        if self.is_guarded and needs_dispatch(args, kwargs):
            self.leave()
            return hook.function(*args, **kwargs)
        if self.following is None and self.exit.varies is not None \
                and self.exit.varies in (hook.operator, hook) and self.recorder is None:
            lifted = with_tensor(args)
            if lifted is not None:
                return hook.function(*lifted, **kwargs)
        if self.following is None and self.advance():
            assert self.following is not None
            segment = self.following.segment
            if is_due(segment):
                self.following.cues = []
                self.driver.is_steady = False
            elif segment.cue is not None and segment.cue.hook is hook:
                return segment.cue.take(args, kwargs)
        following = self.following
        cues = None if following is None else following.cues
        if following is None or cues is None:
            return hook.follow(self, args, kwargs)
        at, pos = len(cues), following.pos
        cues.append(None)
        result = hook.follow(self, args, kwargs)
        if self.following is following and following.cues is cues:
            cues[at] = cue_for(hook, self, following, pos, args, kwargs, result)
        return result

    def dispatch(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls a function where no segment is followed: recorded, or eager for good."""
        if self.next_recorder() is not None:
            return self.record(hook, args, kwargs)
        return hook.function(*args, **kwargs)

    def next_recorder(self) -> SegmentRecorder | None:
        """What records from here on; None where the rest of the call is eager."""
        if self.recorder is not None or self.retired:
            return self.recorder
        exit = self.exit
        self.strays = self.strays or not exit.pending
        if exit.closed or exit.failures >= FAILURES or not self.driver.may_record(exit):
            self.retire()
            return None
        self.driver.is_steady = False
        if len(exit.segments) >= PATHS:
            exit.segments.pop()
        with self.silence():
            self.recorder = SegmentRecorder(self)
            RECORDING.install()
        return self.recorder

    def _conclude(self) -> None:
        """The end of a segment that was recorded."""
        recorder, self.recorder = self.recorder, None
        assert recorder is not None
        with self.silence():
            RECORDING.remove()
            result = recorder.finish()
            if recorder.why:
                self.driver.note(recorder.why)
            if result is None:
                if recorder.trace.events:
                    self._give_up(recorder.why)
                return
            segment = result[0]
            self.exit.segments.insert(0, segment)
            self.driver.build(segment, segment.count, *result[1:])
        if recorder.cut is None:
            self.exit, self.tried = segment.exit(segment.count), 0
        else:  # something was recorded beyond it that does not count
            self.retire()

    def _give_up(self, why: str) -> None:
        self.exit.failures += 1
        if self.exit.failures >= FAILURES:
            self.exit.closed = why or "it cannot be recorded"
            self.driver.stop_at(self.exit)

    def retire(self) -> None:
        """The rest of the call is eager."""
        self.retired = True
        ACTIVE.session = ACTIVE.cue = None

    def barrier(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Calls a function that needs values."""
        self.flush()
        with self.silence():
            return hook.original(*args, **kwargs)

    def settle(self, x: Any) -> None:
        """Makes sure that a tensor has its values."""
        following = self.following
        if following is not None and isinstance(x, Tensor) and following.is_pending(x._array):
            self.flush()

    # ------------------------------------------------------------------------------ operators

    def operator(self, hook: Hook, operator: Operator, bound: tuple, args: tuple,
                 kwargs: dict[str, Any]) -> Any:
        """An operator's result without values; NO where nothing is followed any more."""
        is_view = operator.kind is Kind.VIEW
        while True:
            following = self.following
            if following is None:
                if is_view:
                    with self.silence():
                        return hook.original(*args, **kwargs)
                if not self.advance():
                    return NO
                continue
            entry = following.next
            if entry.operator is operator and following.matches(entry, bound):
                return following.produce(entry, bound)
            if is_view or operator.name in following.segment.silent:
                result = self._windows(hook, bound, args, kwargs)
                if result is not NO:
                    return result
            varies = entry.operator is operator and is_number_alone(
                operator, entry.event.args, bound)
            self.mismatch()
            if varies and self.following is None and with_tensor(args) is not None:
                self.exit.varies = operator
                return self.follow(hook, args, kwargs)

    def _windows(self, hook: Hook, bound: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What an operator gives that makes windows on what it takes; NO where it does more."""
        with self.silence():
            try:
                result = hook.original(*args, **kwargs)
            except Exception:
                return NO
        if hook.operator.kind is Kind.VIEW:
            return result
        seen = {id(owner_of(x._array)) for x in bound if isinstance(x, Tensor)}
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(y, Tensor) and id(owner_of(y._array)) not in seen:
                return NO
        return result

    # ------------------------------------------------------------------------- other events

    def match(self, kind: str, test: Callable[[Following, Entry], bool]) -> Following | None:
        """Goes past the next event, if the test holds for it. None where nothing is followed any
        more, with everything computed."""
        while self.recorder is None and not self.retired:
            following = self.following
            if following is None:
                if not self.advance():
                    return None
                continue
            entry = following.next
            if entry.kind == kind and following.ambient == AMBIENT.changes \
                    and test(following, entry):
                following.step()
                return following
            self.mismatch()
        return None

    def write(self, target: np.ndarray, source: np.ndarray) -> None:
        """Lists that `source` is written over `target`."""

        def test(following: Following, entry: Entry) -> bool:
            into, what = entry.event.args
            fresh = into.storage in entry.made
            begun = (following.begins(entry, into, target) if fresh
                     else following.same_window(into, target))
            return begun and following.same_window(what, source)

        if is_exposed(owner_of(target)):
            self.flush()
        elif self.match(WRITE, test) is not None:
            return
        np.copyto(target, source, casting="unsafe")
        recorder = self.next_recorder()
        if recorder is not None:
            recorder.write(target, source)

    def constant(self, array: np.ndarray, function: Any = None) -> None:
        """Lists numbers made from nothing, which are there."""

        def test(following: Following, entry: Entry) -> bool:
            result = entry.event.array
            return result is not None and following.begins(entry, entry.event.results[0], array) \
                and same_bits(np.asarray(result), array)

        if self.following is None and self.exit.varies == CONSTANT and self.recorder is None:
            return
        following = self.following
        other = following is not None and following.next.kind == CONSTANT \
            and following.next.event.array is not None \
            and np.shape(following.next.event.array) == array.shape
        if self.match(CONSTANT, test) is None:
            if other and self.recorder is None and not self.retired:
                self.exit.varies, self.tried = CONSTANT, 0
                return
            recorder = self.next_recorder()
            if recorder is not None:
                recorder.constant(array, function)

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """Lists memory that was reserved."""
        if self.match(EMPTY, lambda f, e: f.begins(e, e.event.results[0], array)) is None:
            recorder = self.next_recorder()
            if recorder is not None:
                recorder.empty(array, function)

    def root(self, array: np.ndarray, function: Any) -> None:
        """A cotangent from which a backward pass begins, as a constant if the list has one."""
        following = self.following
        if following is not None and following.next.kind == CONSTANT and array.base is None \
                and id(array) not in following.bound:
            self.constant(array, function)

    def copy_of(self, leaf: Tensor, g: Tensor) -> Tensor | None:
        """A cotangent as a leaf's own grad, without values; None where the list has another."""

        def test(following: Following, entry: Entry) -> bool:
            into, what = entry.event.args
            return (into.storage in entry.made and into.strides == leaf._array.strides
                    and following.same_window(what, g._array))

        following = self.match(WRITE, test)
        if following is None:
            return None
        entry = following.segment.entries[following.pos - 1]
        owner, into = following.make(entry), entry.event.args[0]
        assert owner is not None
        part = into.shape != owner.shape or into.dtype != owner.dtype
        return following.tensor(into, part, None)

    def draw(self, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Draws random numbers, now, for the program to read."""
        array, *rest = args

        def test(following: Following, entry: Entry) -> bool:
            event = entry.event
            if event.function.__name__ != original.__name__:
                return False
            into = event.args[0]
            fresh = into.storage in entry.made
            begun = (following.begins(entry, into, array) if fresh
                     else following.same_window(into, array))
            return begun and following.all_same(event.args[1:], rest) and following.same(
                event.kwargs, kwargs)

        following = self.match(DRAW, test)
        with self.silence():
            if following is not None:
                following.segment.entries[following.pos - 1].buffer.fill()
                return array
            original(*args, **kwargs)
        recorder = self.next_recorder()
        if recorder is not None:
            into = recorder.trace.value_of(array, fresh=True)
            recorder.add(DRAW, function=original, args=(into, *rest), kwargs=kwargs,
                         array=array.copy())
        return array

    def update(self, rows: tuple, where: dict[str, Any], scalars: Any, formula: Callable) -> None:
        """Lists an optimizer's update. `rows`: (parameter, grad, states) for each."""

        def test(following: Following, entry: Entry) -> bool:
            event = entry.event
            return event.kwargs == where and following.all_same(event.args, rows)

        following = self.match(UPDATE, test)
        if following is not None:
            following.updates[following.pos - 1] = scalars
            if following.shows_writes:
                self.flush()
            return
        recorder = self.next_recorder()
        if recorder is not None:
            refs = tuple([(recorder.refer(p), recorder.refer(g), tuple(map(recorder.refer, s)))
                          for p, g, s in rows])
            recorder.add(UPDATE, function=formula, args=refs, kwargs=where,
                         array=np.array(scalars, np.float64))
        with self.silence(), no_grad():
            for param, grad, states in rows:
                tensors = [wrap(t._array) for t in (param, grad, *states)]
                where["optimiser"]._flambeau_run_formula(
                    where["flags"], scalars, *tensors[:2], tensors[2:]
                )
