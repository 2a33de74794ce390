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
from ..runtime.argument_layout import describe_call
from ..runtime.commit_results import can_commit, commit, run_deferred
from ..runtime.guarded_call import Program
from ..runtime.sample_inputs import SampleInputs
from ..trace.carried_values import list_leaves
from ..trace.operands import flatten_call
from ..trace.trace import Trace
from ..trace.trace_signature import make_signature, store_signature
from ..validation.self_check import check
from .build_task import BuildTask
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
        program's results may replace the call's. `is_stored`: its signature is on disk.
        `is_warmup`: it is the first call."""
        signature = None if is_stored else make_signature(trace, self.fallback.function)
        task = self.builder.start(trace, args, kwargs, signature)
        if can_commit(task.graph, task.bindings, trace.result):
            task.signature = signature
            task.result = trace.result if self.policy.is_synchronous else None
        trace.release_memory()
        if self.policy.is_synchronous or trace.communicates or self.policy.evaluates:
            if signature is not None:
                signature.start = specialization.calls
            self.builder.compile(task)
            self.adopt(specialization, task, is_warmup)
            return
        with catch_memory_errors("settle"):
            task.bindings.snapshot_writes([slot for slot, _ in task.graph.writes])
        specialization.become(Event.SUBMITTED, Building(
            pending=task, trace=trace, reachable=specialization.state.reachable))
        if not run_in_background("flambeau compile", self.builder.compile, task):
            self.builder.compile(task)
        if is_stored:  # the program is usually cached too, and loads faster than an eager call
            task.done.wait(CACHED_PROGRAM_WAIT_SECONDS)

    def run_deferred(self, specialization: Specialization, trace: Trace, args: tuple,
                     kwargs: dict[str, Any]) -> bool:
        """Compute a call whose operators were only recorded, using the program from disk or a new
        one. Return whether that was possible."""
        task = self.builder.restore(trace, args, kwargs)
        if task is None:
            task = self.builder.start(trace, args, kwargs)
            if not can_commit(task.graph, task.bindings, trace.result):
                return False
            trace.deferred.expect(task.bindings)
            self.builder.compile(task, trace.deferred.arena)
            if task.has_failed():
                return False  # retry with values, which reports why
        leaves = [*flatten_call(args, kwargs), *list_leaves(trace.carried)]
        if not run_deferred(task.step, task.bindings, trace, leaves, trace.result):
            return False
        task.arguments, task.proof = describe_call(args, kwargs, trace.carried), trace.proof
        trace.release_memory()
        with catch_memory_errors("sample"):
            task.sample = task.sample or SampleInputs(task.bindings)
        self._install(specialization, task)
        return True

    def adopt(self, specialization: Specialization, task: BuildTask, is_warmup: bool = False
              ) -> None:
        """Install a finished program if it computes what the recorded call computed."""
        if not task.is_current():
            self.restart(specialization)
        elif (problem := self._find_problem(task)) is None:
            self._install(specialization, task)
        elif is_warmup and not problem.is_certain:
            # Adam's first step amplifies gradients that are only noise.
            self.restart(specialization)
        else:
            self.fallback.stop(specialization, problem.what, problem.line)

    def restart(self, specialization: Specialization) -> None:
        """Discard the recorded call; the next call counts as the first."""
        specialization.become(Event.RESTARTED, New())

    def _find_problem(self, task: BuildTask) -> _Problem | None:
        """Return why a program cannot be installed (build failed, or wrong results), or None."""
        if task.has_failed():
            return _Problem(task.describe_error())
        take = None
        if task.result is not None:
            take = functools.partial(commit, task.bindings, task.result)
        try:
            with catch_memory_errors("selfcheck"):
                problem = check(task.step, task.bindings, task.backward, take)
                task.sample = SampleInputs(task.bindings)
        except Unfit as error:
            return _Problem(error.what, error.line)
        task.result = None
        if problem is None:
            return None
        return _Problem(f"the compiled step computes another {problem} than the eager one; "
                        "please report this", is_certain=False)

    def _install(self, specialization: Specialization, task: BuildTask) -> None:
        """Install a program, so that calls use it."""
        state = specialization.state
        assert state.reachable is not None
        assert state.trace is not None
        program = Program(  # type: ignore[call-arg]
            self.fallback.function, task.step, task.bindings, *task.arguments,
            state.reachable, task.proof, task.modes, task.backward, task.sample,
            self.builder.build,
        )
        specialization.become(Event.INSTALLED, Installed(
            program=program, trace=state.trace, reachable=state.reachable))
        if task.signature is not None:
            task.signature.arena = task.step.size
            task.signature.table = task.step.key
            store_signature(specialization.signature_key, task.signature)
        specialization.signature = None
        self.specializations.register(program)
        task.bindings.release_recording()
        program.grads.note_counts()
        level = min(DEBUG.value(), 6)
        if level:
            text = write_explanation(self.specializations, self.fallback, level)
            print(text, file=sys.stderr)
        if task.bindings.calls and self.policy.is_strict:
            raise RuntimeError(f"fullgraph=True, but these operators run eagerly: "
                               f"{'; '.join(task.bindings.calls)}")
