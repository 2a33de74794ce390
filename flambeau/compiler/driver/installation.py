"""Installer: build, check and install programs of proved calls."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from ...native.foundation.environment import DEBUG
from ...native.runtime.background_jit import run_in_background
from ...native.target.compile_costs import CACHED_PROGRAM_WAIT_SECONDS
from ..ir.errors import Unfit, catch_memory_errors
from ..runtime.argument_layout import describe_arguments
from ..runtime.commit_results import can_commit, commit, run_deferred
from ..runtime.guarded_call import Program
from ..runtime.sample_inputs import SampleInputs
from ..trace.operands import flatten_call
from ..trace.trace import Trace
from ..trace.trace_signature import make_precedent, store_precedent
from ..validation.self_check import check
from .build_task import Pending
from .explanation import write_explanation
from .fallback import Fallback
from .program_builder import ProgramBuilder
from .specialization import Specialization
from .specializations import Specializations
from .states import Building, Event, Installed, New


@dataclass(frozen=True)
class _Problem:
    """Why a program cannot be installed. `is_certain`: independent of the call's values."""

    what: str
    line: str = ""
    is_certain: bool = True


class Installer:
    """Builds programs of recorded calls, checks them, and installs them."""

    def __init__(self, builder: ProgramBuilder, specializations: Specializations,
                 fallback: Fallback) -> None:
        self.builder, self.policy = builder, builder.policy
        self.specializations, self.fallback = specializations, fallback

    def build(self, specialization: Specialization, trace: Trace, args: tuple,
              kwargs: dict[str, Any], is_stored: bool = False, is_warmup: bool = False) -> None:
        """Compile a recorded call: in the background, or at once if calls wait, in which case the
        program's results may replace the call's. `is_stored`: its precedent is on disk.
        `is_warmup`: it is the first call."""
        precedent = None if is_stored else make_precedent(trace, self.fallback.function)
        pending = self.builder.start(trace, args, kwargs, precedent)
        if can_commit(pending.graph, pending.bindings, trace.result):
            pending.precedent = precedent
            pending.result = trace.result if self.policy.is_synchronous else None
        trace.release_memory()
        if self.policy.is_synchronous or trace.communicates or self.policy.evaluates:
            if precedent is not None:
                precedent.start = specialization.calls
            self.builder.compile(pending)
            self.adopt(specialization, pending, is_warmup)
            return
        with catch_memory_errors("settle"):
            pending.bindings.snapshot_writes([slot for slot, _ in pending.graph.writes])
        specialization.become(Event.SUBMITTED, Building(
            pending=pending, trace=trace, reachable=specialization.state.reachable))
        if not run_in_background("flambeau compile", self.builder.compile, pending):
            self.builder.compile(pending)
        if is_stored:  # the program is usually cached too, and loads faster than an eager call
            pending.done.wait(CACHED_PROGRAM_WAIT_SECONDS)

    def run_deferred(self, specialization: Specialization, trace: Trace, args: tuple,
                     kwargs: dict[str, Any]) -> bool:
        """Compute a call whose operators were only recorded, using the program from disk or a new
        one. Return whether that was possible."""
        pending = self.builder.restore(trace, args, kwargs)
        if pending is None:
            pending = self.builder.start(trace, args, kwargs)
            if not can_commit(pending.graph, pending.bindings, trace.result):
                return False
            trace.deferred.expect(pending.bindings)
            self.builder.compile(pending, trace.deferred.arena)
            if pending.failed():
                return False  # retry with values, which reports why
        leaves = flatten_call(args, kwargs)
        if not run_deferred(pending.step, pending.bindings, trace, leaves, trace.result):
            return False
        pending.arguments, pending.proof = describe_arguments((args, kwargs)), trace.proof
        trace.release_memory()
        with catch_memory_errors("sample"):
            pending.sample = pending.sample or SampleInputs(pending.bindings)
        self._install(specialization, pending)
        return True

    def adopt(self, specialization: Specialization, pending: Pending, is_warmup: bool = False
              ) -> None:
        """Install a finished program if it computes what the recorded call computed."""
        if not pending.is_current():
            self.restart(specialization)
        elif (problem := self._find_problem(pending)) is None:
            self._install(specialization, pending)
        elif is_warmup and not problem.is_certain:
            # Adam's first step amplifies gradients that are only noise.
            self.restart(specialization)
        else:
            self.fallback.stop(specialization, problem.what, problem.line)

    def restart(self, specialization: Specialization) -> None:
        """Discard the recorded call; the next call counts as the first."""
        specialization.become(Event.RESTARTED, New())

    def _find_problem(self, pending: Pending) -> _Problem | None:
        """Return why a program cannot be installed (build failed, or wrong results), or None."""
        if pending.failed():
            return _Problem(pending.why())
        take = None
        if pending.result is not None:
            take = functools.partial(commit, pending.bindings, pending.result)
        try:
            with catch_memory_errors("selfcheck"):
                problem = check(pending.step, pending.bindings, pending.backward, take)
                pending.sample = SampleInputs(pending.bindings)
        except Unfit as error:
            return _Problem(error.what, error.line)
        pending.result = None
        if problem is None:
            return None
        return _Problem(f"the compiled step computes another {problem} than the eager one; "
                        "please report this", is_certain=False)

    def _install(self, specialization: Specialization, pending: Pending) -> None:
        """Install a program, so that calls use it."""
        state = specialization.state
        assert state.reachable is not None
        assert state.trace is not None
        program = Program(  # type: ignore[call-arg]
            self.fallback.function, pending.step, pending.bindings, *pending.arguments,
            state.reachable, pending.proof, pending.modes, pending.backward, pending.sample,
            self.builder.build,
        )
        specialization.become(Event.INSTALLED, Installed(
            program=program, trace=state.trace, reachable=state.reachable))
        if pending.precedent is not None:
            pending.precedent.arena = pending.step.size
            pending.precedent.table = pending.step.key
            store_precedent(specialization.precedent_key, pending.precedent)
        specialization.precedent = None
        self.specializations.register(program)
        pending.bindings.release_recording()
        program.grads.note_counts()
        level = min(DEBUG.value(), 6)
        if level:
            text = write_explanation(self.specializations, self.fallback, level)
            print(text, file=sys.stderr)
        if pending.bindings.calls and self.policy.is_strict:
            raise RuntimeError(f"fullgraph=True, but these operators run eagerly: "
                               f"{'; '.join(pending.bindings.calls)}")
