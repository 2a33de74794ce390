"""Session: the state of one followed call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...native.foundation.user_frames import WarningCount
from ...native.target.compile_costs import MAX_SEGMENTS_PER_EXIT
from ...ops.core.operator import Kind, Operator
from ...ops.interception.code_patching import is_anything_swapped
from ...tensor.ambient import AMBIENT
from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from ..trace.ambient_modes import read_ambient_modes
from .cues.cue_code import write_cue
from .cues.inline_cache import drop_pieces, is_due, link
from .event_listing import list_wrapped
from .following import Following
from .foreign_tensors import has_foreign
from .hooks import ACTIVE, RECORDING, Hook
from .other_threads import compute_for_another
from .position import Position
from .replay import Replay
from .segment import Entry
from .segment_recorder import SegmentRecorder, end_recording
from .varying_number import is_number_alone, replace_number

NO = object()  # sentinel: the operator is not the segment's next event


class Session:
    """One followed call: its state, and how it handles each intercepted function.

    It is in one of four states. It follows a known segment if `following` is set, and records a new
    one if `recorder` is; never both. Otherwise it is at the exit of `position`, where every tensor
    has its values, or `retired`: the rest of the call runs eagerly.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.thread = threading.get_ident()
        self.quiet = 0  # nesting depth of operators and of the library's own code
        self.composites = 0  # that are running and `repeat_operators`, while cues are generated
        self.recorder: SegmentRecorder | None = None
        self.following: Following | None = None
        self.position = Position(driver.root)
        self.retired = False
        self.took_new_path = False  # whether it recorded
        self.strays = False  # whether it took a path without a program
        self.is_guarded = is_anything_swapped()  # whether arguments may be foreign tensors

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Intercept nothing inside the block."""
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
        """Start following the next candidate segment of this exit. Return False if none is left."""
        position = self.position
        if position.tried >= len(position.exit.segments) or position.exit.fresh:
            return False
        segment = position.take_untried(read_ambient_modes())
        if segment is None:
            return False
        self.following = Following(segment)
        segment.last_call = self.driver.calls
        return True

    def mismatch(self) -> None:
        """Leave the segment, because the call differs from its next event."""
        ACTIVE.cue = None
        if self.following is not None and self.following.pos:
            fork = self.position.fork or self.position.exit
            self.flush()
            self.position.fork = fork
        elif self.following is not None:
            self.position.add_calls(self.following)
            self.following = None

    def flush(self) -> None:
        """Compute all listed events, or end the recording, so that every tensor has its values."""
        if self.recorder is not None:
            end_recording(self)
        following, self.following, self.position.fork = self.following, None, None
        ACTIVE.cue = None
        if following is None:
            return
        if not following.pos:
            self.position.tried -= 1  # nothing was compared yet
            return
        _compute(self, following)

    def lend(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Compute the values of tensors that another thread is about to use."""
        compute_for_another(self, args, kwargs)

    def finish(self) -> None:
        """Compute the events still listed at the end of the call."""
        if not self.retired:
            self.flush()

    def leave(self) -> None:
        """Stop following, because no program can compute the functions of a foreign tensor."""
        self.driver.note("a tensor is sparse, quantized or of a class that overrides functions")
        self.flush()
        self.retire()

    def record(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call an intercepted function while recording."""
        if self.is_guarded and not self.quiet and has_foreign(args, kwargs):
            self.leave()
            return hook.function(*args, **kwargs)
        if self.recorder is None:
            return hook.record(hook.original, args, kwargs)
        return self.recorder.record(hook, args, kwargs)

    def follow(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call an intercepted function that has no inline cache here."""
        if self.quiet:
            return hook.follow(self, args, kwargs)
        if self.is_guarded and has_foreign(args, kwargs):
            self.leave()
            return hook.function(*args, **kwargs)
        if self.following is None and self.position.exit.varies is not None \
                and self.position.exit.varies is hook.operator and self.recorder is None:
            lifted = replace_number(args)
            if lifted is not None:
                return hook.function(*lifted, **kwargs)
        if self.following is None and self.advance():
            return self._begin(hook, args, kwargs)
        return self._follow(hook, args, kwargs)

    def _begin(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the first function after starting to follow a segment."""
        assert self.following is not None
        segment = self.following.segment
        if is_due(segment):
            segment.choose_ready()
            self.following = Following(segment)  # restart: other memory is bound from the start
            self.following.cues = []
        elif segment.cue is not None and segment.cue.hook is hook:
            return segment.cue.take(args, kwargs)
        return self._follow(hook, args, kwargs)

    def _follow(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function, and generate its cue if this call generates cues."""
        following = self.following
        cues = None if following is None else following.cues
        if following is None or cues is None:
            return hook.follow(self, args, kwargs)
        return _follow_and_write(self, hook, following, cues, args, kwargs)

    def dispatch(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call a function that no segment matches: record it, or run it eagerly."""
        if self.next_recorder() is not None:
            return self.record(hook, args, kwargs)
        return hook.function(*args, **kwargs)

    def next_recorder(self) -> SegmentRecorder | None:
        """Return the recorder, starting a new segment if needed; None if the call is now eager."""
        if self.recorder is not None or self.retired:
            return self.recorder
        exit = self.position.exit
        self.strays = self.strays or not exit.pending
        if exit.closed or not self.driver.may_record(exit):
            self.retire()
            return None
        self.driver.is_steady = False
        if len(exit.segments) >= MAX_SEGMENTS_PER_EXIT:
            exit.segments.pop()
        self.took_new_path = True
        with self.silence():
            self.recorder = SegmentRecorder(self)
            if self.position.calls:
                self.recorder.calls[0] = self.position.take_calls()
            RECORDING.install()
        return self.recorder

    def retire(self) -> None:
        """Run the rest of the call eagerly."""
        self.retired = True
        ACTIVE.session = ACTIVE.cue = None

    def barrier(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Compute the listed events, then call a function that reads values."""
        self.flush()
        with self.silence():
            return hook.original(*args, **kwargs)

    def note_move(self, tensor: Tensor) -> None:
        """Note that a tensor is about to get other memory."""
        self.driver.moving.add(tensor)
        if self.recorder is not None:
            self.recorder.moving.add(id(find_owner(tensor._array)))

    def settle(self, x: Any) -> None:
        """Make sure that a tensor has its values, and will have them here in the next calls."""
        if not isinstance(x, Tensor):
            return
        following, recorder = self.following, self.recorder
        if (following is not None and following.is_pending(x._array)) or (
                recorder is not None and recorder.computes(x._array)):
            self.flush()

    # ------------------------------------------------------------------------------ operators

    def operator(self, hook: Hook, operator: Operator, bound: tuple, args: tuple,
                 kwargs: dict[str, Any]) -> Any:
        """List an operator. Return its result without values, or NO if no segment matches."""
        is_view = operator.kind is Kind.VIEW
        while True:
            following = self.following
            if following is None:
                if is_view:
                    with self.silence():
                        return hook.original(*args, **kwargs)
                if not self.advance():
                    return NO
                return self._begin(hook, args, kwargs)
            entry = following.next
            if entry.is_wrapped and list_wrapped(following, bound):
                entry = following.next
            if entry.operator is operator and following.matches(entry, bound):
                return following.produce(entry, bound)
            if entry.operator is operator and following.segment.adapt(following.pos, bound):
                continue
            if is_view or operator.name in following.segment.silent:
                result = self._create_views(hook, bound, args, kwargs)
                if result is not NO:
                    return result
            varies = entry.operator is operator and is_number_alone(
                operator, entry.event.args, bound)
            self.mismatch()
            if varies and self.following is None and replace_number(args) is not None:
                self.position.vary(operator)
                return self.follow(hook, args, kwargs)

    def _create_views(self, hook: Hook, bound: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return an operator's result if it only creates views of its operands, else NO."""
        with self.silence():
            try:
                result = hook.original(*args, **kwargs)
            except Exception:
                return NO
        if hook.operator.kind is Kind.VIEW:
            return result
        seen = {id(find_owner(x._array)) for x in bound if isinstance(x, Tensor)}
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(y, Tensor) and id(find_owner(y._array)) not in seen:
                return NO
        return result

    def match(self, kind: str, test: Callable[[Following, Entry], bool]) -> Following | None:
        """Step past the next event if it has this kind and passes the test; None if no segment
        matches."""
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


def _follow_and_write(session: Session, hook: Hook, following: Following, cues: list[Any],
                      args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call a function and write its cue."""
    cue_number, pos, warned = len(cues), following.pos, WarningCount.value
    cues.append(None)
    session.composites += hook.repeats_operators
    try:
        result = hook.follow(session, args, kwargs)
        if session.following is following and following.cues is cues:
            cues[cue_number] = cue = write_cue(hook, session, following, pos, args, kwargs, result)
            if warned != WarningCount.value:
                cue.take = cue.run  # it has to run to warn again
    finally:
        session.composites -= hook.repeats_operators
        if not session.composites:
            drop_pieces(cues[cue_number:])
    return result


def _compute(session: Session, following: Following) -> None:
    """Leave a segment and compute its listed events. After an error, replay them anyway, because
    their Python has already run, unless results may have been written."""
    try:
        if following.cues is not None:
            link(following.segment, following.cues)
            following.cues = None
            session.driver.is_steady = False
        session.position.move_to(following.segment.exit(following.pos))
        session.position.add_calls(following)
        session.quiet += 1  # no inline cache is active
        try:
            session.driver.compute(session, following)
        finally:
            session.quiet -= 1
    except BaseException:
        if not following.is_computed:
            with session.silence():
                Replay(following).run()
        raise
