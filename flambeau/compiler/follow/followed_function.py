"""FollowedFunction: run a function's Python on every call, but compile its operators."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...native.foundation.transparent_frames import skip_in_stacks
from ...native.runtime.background_jit import run_in_background
from ...native.runtime.frameless_call import Steps
from ...native.target.compile_costs import (
    MAX_FOLLOWED_PROGRAMS, MAX_PROGRAMS_PER_EXIT, WATCHED_CALLS, WATCHED_FROM_PROGRAMS,
)
from ...ops.interception.code_patching import is_anything_observed
from ...tensor.ambient import AMBIENT
from ..ir.errors import Unfit, catch_memory_errors, describe_failure
from ..ir.graph import Graph
from .following import Following
from .growing_segment import GrowingSegment, find_growth
from .holder_census import take_census
from .hooks import ACTIVE, TABLE
from .interception import hooks
from .moving_tensors import MovingTensors
from .orphans import drop_orphans
from .programs.growing_program import GrowingProgram, Plan
from .programs.segment_program import SegmentProgram
from .replay import Replay
from .segment import Exit, Program, Segment, iterate_exits
from .session import Session
from .trial import Trial


_RUNNING = threading.Lock()  # stubs are process-wide: one followed call at a time


class FollowedFunction:
    """A function whose calls are followed.

    build: compiles a graph. waits: whether calls wait for the compiler.
    tell: warns why the function stays eager.
    always: follow without a trial.
    plan: plans the kernels of a graph; None disables programs that serve several lengths.
    """

    def __init__(self, function: Callable, build: Callable[[Graph], Any], waits: bool,
                 tell: Callable[[str], None], always: bool = False, plan: Plan | None = None
                 ) -> None:
        self.function, self.make, self.waits, self.tell = function, build, waits, tell
        self.plan = plan
        self.trial = Trial(not always)
        self.built = 0  # builds started so far
        self.late: list[bool] = []  # for recent calls: whether each took a new path
        self.root = Exit()
        self.notes: list[str] = []
        self.lock = threading.RLock()
        self.failed = ""
        # Composites that compute without operators, or read values before any: (hook, classes of
        # the arguments). In another step, or with other arguments, the same composite may not.
        self.opaque: set[tuple[Any, tuple]] = set()
        self.moving = MovingTensors()
        self.is_steady = True  # whether the last call only ran existing programs
        self.programs: list[Program] = []
        self.calls = 0  # followed so far

    @skip_in_stacks
    def steps(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Follow one call, or run it eagerly if following is off or does not pay."""
        trial = self.trial
        if self.failed or not trial.pays or AMBIENT.observers or is_anything_observed():
            return (yield self.function, args, kwargs)
        if not _RUNNING.acquire(blocking=False):
            return (yield self.function, args, kwargs)
        try:
            if self.root.pending:
                return (yield self.function, args, kwargs)
            if trial.is_over:
                return (yield from self._follow(args, kwargs))
            return (yield from self._try(args, kwargs))
        finally:
            ACTIVE.session = ACTIVE.cue = None
            _RUNNING.release()

    @skip_in_stacks
    def _follow(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        self.calls += 1
        session = Session(self)
        TABLE.install(hooks)
        ACTIVE.session, ACTIVE.thread = session, session.thread
        try:
            result = yield self.function, args, kwargs
            session.finish()
        except BaseException:
            session.finish()
            raise
        if self.built >= WATCHED_FROM_PROGRAMS:
            self._watch(session)
        if session.took_new_path:
            drop_orphans(self)
        self._drop_idle_memory()
        return result

    @skip_in_stacks
    def _try(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Run and time one call of the trial."""
        trial, eager = self.trial, self.trial.wants_eager
        begun = time.perf_counter()
        if eager:
            result = yield self.function, args, kwargs
        else:
            self.is_steady = True
            result = yield from self._follow(args, kwargs)
        elapsed_s = time.perf_counter() - begun
        if eager or self.is_steady:
            trial.add(elapsed_s, eager)
        return result

    def _watch(self, session: Session) -> None:
        """Give up following if most calls still take new paths after many programs."""
        late = self.late
        late.append(session.strays)
        if len(late) == WATCHED_CALLS:
            strayed = sum(late)
            late.clear()
            if 2 * strayed > WATCHED_CALLS:
                self.failed = (f"most calls run other operators, or on other shapes or numbers, "
                               f"than those that {self.built} programs were made for")
                self.tell(self.failed)

    def summary(self) -> str:
        """Describe the programs and the trial, for explain()."""
        programs = self.programs
        ends = "".join(f"\n  a program ends where {why}" for why in self.notes[:8])
        outcome = self.trial.describe_outcome()
        plural = "" if len(programs) == 1 else "s"
        return (f"  {len(programs)} program{plural}, run {sum(p.calls for p in programs)} times"
                f"{outcome and '; '}{outcome}{ends}")

    @property
    def is_building(self) -> bool:
        """Whether a program is being compiled."""
        return any(exit.pending for exit in iterate_exits(self.root))

    def _drop_idle_memory(self, idle_calls: int = 32) -> None:
        """Every `idle_calls` calls, free the memory of paths that none of those calls took."""
        if self.calls % idle_calls:
            return
        for exit in iterate_exits(self.root):
            for segment in exit.segments:
                if segment.last_call <= self.calls - idle_calls:
                    segment.recycled.drop()

    # ------------------------------------------------------------------ the sessions' interface

    def may_record(self, exit: Exit) -> bool:
        """Whether a segment may be recorded from an exit now."""
        if exit.pending:
            self.is_steady = False
        grows = any(isinstance(s, GrowingSegment) and s.exit(s.count).pending
                    for s in exit.segments)
        return not exit.pending and not grows and self.built < MAX_FOLLOWED_PROGRAMS

    def note(self, why: str) -> None:
        """Remember why a segment ended or was not recorded, for explain()."""
        if why not in self.notes:
            self.notes.append(why)

    def stop_at(self, exit: Exit) -> None:
        """Stop recording at an exit. If it is the root, the function stays eager."""
        if exit is self.root:
            self.failed = exit.closed
            self.tell(exit.closed)

    def compute(self, session: Session, following: Following) -> None:
        """Compute the listed events with a program if one fits, else with a replay."""
        alive = take_census(following)
        segment = following.segment
        exit = segment.exit(following.pos)
        for program in exit.programs:
            if alive <= program.survivors:
                self._run(program, following, exit)
                return
        self.is_steady = False
        Replay(following).run()
        if not exit.pending and not segment.problem and self.built < MAX_FOLLOWED_PROGRAMS:
            owners = following.owners
            inputs = [following.inputs.get(s) for s in range(len(owners))]
            self.build(segment, following.pos, owners, inputs, alive, following.shifts)

    def _run(self, program: Program, following: Following, exit: Exit) -> None:
        if program.may_run_alone():
            if not program.run(following):
                Replay(following).run()
            return
        self.is_steady = False
        problem = program.verify(following, Replay(following).run)
        if problem is None:
            program.note_agreement()
            return
        exit.programs.remove(program)
        self._give_up(program.segment,
                      f"the compiled step computes another {problem} than the eager "
                    "one; please report this")

    def build(self, segment: Segment, count: int, owners: Sequence[np.ndarray | None],
              inputs: Sequence[np.ndarray | None], alive: Any,
              shifts: dict[int, int] | None = None) -> None:
        """Start building a program of a segment's first `count` events."""
        exit = segment.exit(count)
        computed = frozenset(
            s for s in alive
            if segment.memory[s].computed is not None and segment.memory[s].computed < count
        )
        try:
            if isinstance(segment, GrowingSegment) and count > segment.first_varying:
                program: GrowingProgram | SegmentProgram = GrowingProgram(
                    segment, count, computed
                )
            else:
                program = SegmentProgram(segment, count, owners, inputs, computed, shifts or {})
        except Unfit as error:
            self._give_up(segment, f"{error.what} ({error.line})" if error.line else error.what)
            return
        exit.pending = True
        self.built += 1
        if self.waits or not run_in_background(
            "flambeau compile", self._work, program, segment, exit
        ):
            self._work(program, segment, exit)

    def _work(
        self, program: GrowingProgram | SegmentProgram, segment: Segment, exit: Exit
    ) -> None:
        try:
            with catch_memory_errors("compile"):
                if isinstance(program, GrowingProgram):
                    assert self.plan is not None
                    program.compile(self.plan, not self.waits)
                else:
                    program.compile(self.make)
            exit.programs.insert(0, program)
            del exit.programs[MAX_PROGRAMS_PER_EXIT:]
            self.programs.append(program)
        except Unfit as error:
            self._give_up(segment, error.what)
        except Exception as error:
            self._give_up(segment, describe_failure(error))
        finally:
            exit.pending = False

    def grow(self, exit: Exit, alive: Any) -> GrowingSegment | None:
        """Merge an exit's segments that differ only in a length; None if they do not merge."""
        segment = find_growth(exit.segments) if exit.grows and self.plan is not None else None
        if segment is None:
            return None
        before = exit.segments
        exit.segments = [segment, *[s for s in before if s not in segment.parts]]
        segment.parts.clear()
        segment.origin = exit
        self.build(segment, segment.count, segment.owners, [], alive)
        if segment.problem:
            exit.segments = before
            return None
        return segment

    def _give_up(self, segment: Segment, why: str) -> None:
        """Give up on a segment that no program can compute. The function stays eager, unless the
        segment merged several lengths; then each length gets its own program."""
        segment.problem = why
        if isinstance(segment, GrowingSegment):
            self.note(why)
            segment.origin.grows = False
            segment.origin.segments.remove(segment)
            return
        self.failed = why
        self.tell(why)
