"""CallRecorder: record a call that no program serves, and decide what to do next.

A proof allows skipping Python. Whether a program is worth building is a separate question, which
`_is_worth_building` answers with a heuristic. A wrong guess costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...native.foundation.transparent_frames import skip_in_stacks
from ...native.runtime.frameless_call import Steps
from ...native.target.compile_costs import (
    MAX_ACCUMULATING_CALLS, MAX_RECORDED_CALLS, MAX_UNUSED_PROGRAMS,
)
from ..capture.capture import capture_steps
from ..capture.escapes import RETAINED
from ..ir.errors import Unfit
from ..ir.reasons import Advice, Reason
from ..trace.carried_values import list_new_grads
from ..trace.host_numbers import Place
from ..trace.trace import Trace, find_divergence, have_same_pins
from .fallback import Fallback
from .installation import Installer
from .specialization import Specialization
from .specializations import Specializations
from .states import Event, Outdated, Recorded, State


class CallRecorder:
    """Records calls until one gets a program, or until none can."""

    def __init__(self, function: Callable, installer: Installer, fallback: Fallback,
                 specializations: Specializations) -> None:
        self.function, self.policy = function, fallback.policy
        self.installer, self.fallback = installer, fallback
        self.specializations = specializations

    def blocks_on_build(self, specialization: Specialization) -> bool:
        """Whether calls wait for a program. They also wait for a cached one, because loading it is
        faster than an eager call."""
        return self.policy.is_synchronous or specialization.signature is not None

    @skip_in_stacks
    def record(self, specialization: Specialization, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Record an eager call and return its result."""
        before = specialization.state
        waits = self.blocks_on_build(specialization)
        signature = None
        if before.trace is None and not specialization.is_early:
            signature = specialization.signature
        # Values are needed for the self-check if this call may get a program.
        values = waits or before.trace is not None
        result, trace = yield from capture_steps(
            self.function, args, kwargs, values, self.policy.draws_by_counter, signature,
            prove=True, places=self.specializations.carried.places,
            varying=self.specializations.varying)
        if trace is None:
            return result
        specialization.learn(args, kwargs, trace.proof)
        specialization.become(Event.RECORDED, Recorded(
            trace=trace, recordings=before.recordings + 1))
        try:
            self._judge(specialization, trace, before, args, kwargs)
        except Unfit as error:
            trace.compute_deferred()
            if self._is_warmup(specialization):
                self.installer.restart(specialization)
            elif error.__cause__ is not None:
                self.fallback.stop(specialization, error.what, error.line)
            else:
                self.fallback.stop_skipping(specialization, error.what, error.line)
        except BaseException:  # the call's Python has already run
            trace.compute_deferred()
            raise
        return result

    def _judge(self, specialization: Specialization, trace: Trace, before: State, args: tuple,
               kwargs: dict[str, Any]) -> None:
        """Decide what to do after a recorded call. `before`: the state in which it ran."""
        if specialization.is_early:
            self.installer.restart(specialization)
        elif not trace.problems and self.specializations.carry(
                specialization, _list_places_to_carry(trace)):
            trace.compute_deferred()
        elif trace.problems or (self._is_warmup(specialization)
                                and not all(effect.is_print for effect in trace.effects)):
            self._judge_problem(specialization, trace, before)
        elif not trace.proof.holds:
            self._judge_unproved(specialization, trace, before)
        else:
            self._judge_proved(specialization, trace, before.trace, args, kwargs)

    def _judge_problem(self, specialization: Specialization, trace: Trace, before: State) -> None:
        """Stop skipping Python, unless the first call, or outdated state, caused the problem."""
        trace.compute_deferred()
        if isinstance(before, Outdated) or self._is_warmup(specialization):
            self.installer.restart(specialization)
        else:
            self._stop_at(specialization, trace.problems[0], trace)

    def _judge_unproved(self, specialization: Specialization, trace: Trace, before: State) -> None:
        """Stop skipping Python; after a first call, or of outdated state, record another one."""
        trace.compute_deferred()
        if isinstance(before, Outdated):
            self.installer.restart(specialization)
        elif not self._is_warmup(specialization):
            self.fallback.stop_skipping(specialization, *trace.proof.why)
        trace.release_memory()

    def _judge_proved(self, specialization: Specialization, trace: Trace, last: Trace | None,
                      args: tuple, kwargs: dict[str, Any]) -> None:
        """Build a program if it will serve the next calls; else compare them with this one."""
        divergence = self._find_divergence(specialization, trace, last)
        if last is not None and divergence is None and not have_same_pins(last, trace):
            divergence = ("it gets another object in each call", "")
        if divergence is not None and last is not None and self.specializations.note_accumulation(
            last.list_absent_grads(), trace.list_absent_grads()
        ):
            trace.compute_deferred()
            return
        reachable = self.specializations.snapshot(trace)
        if self._is_worth_building(specialization, trace, last, divergence):
            specialization.state.reachable = reachable
            self._promote(specialization, trace, args, kwargs)
            return
        trace.compute_deferred()
        if specialization.state.recordings >= MAX_RECORDED_CALLS and divergence is not None:
            self._stop_at(specialization, divergence, trace)
        trace.release_memory()

    def _is_worth_building(self, specialization: Specialization, trace: Trace, last: Trace | None,
                           divergence: tuple[str, str] | None) -> bool:
        """Guess whether the next calls will pass the guards of this call's program.

        They probably will if this call did the same as the last one, or what its stored signature
        lists. In synchronous mode, the first proved call is enough, unless its program would keep
        an object alive that was only an argument of this call.
        """
        if last is not None:
            return divergence is None
        return not trace.pins and (
            self.policy.is_synchronous or _matches_signature(specialization, trace))

    def _promote(self, specialization: Specialization, trace: Trace, args: tuple,
                 kwargs: dict[str, Any]) -> None:
        """Build a program for a call."""
        if specialization.unused_programs >= MAX_UNUSED_PROGRAMS:
            raise Unfit(Reason("it reads a value that changes with each call", Advice.PASS_TENSOR),
                        specialization.moved_line)
        if trace.deferred is not None and self.installer.run_deferred(
            specialization, trace, args, kwargs
        ):
            return
        is_stored = _matches_signature(specialization, trace)
        trace.compute_deferred()
        self.installer.build(specialization, trace, args, kwargs, is_stored,
                             self._is_warmup(specialization))

    def _find_divergence(self, specialization: Specialization, trace: Trace, last: Trace | None
                         ) -> tuple[str, str] | None:
        """Return how a recorded call differs from the last one, as (what, line), or None."""
        if last is None:
            return None
        state, result = specialization.state, find_divergence(last, trace)
        moved = last.list_incoming_grads() != trace.list_incoming_grads()
        if result and specialization.calls < MAX_ACCUMULATING_CALLS and moved:
            state.recordings -= 1  # grads keep their memory only once a program owns it
        return result

    def _is_warmup(self, specialization: Specialization) -> bool:
        """Whether this is the first call, which may fill caches and create state."""
        return specialization.calls == 1 and not self.policy.is_settled

    def _stop_at(self, specialization: Specialization, problem: tuple[str, str], trace: Trace
                 ) -> None:
        """Stop skipping Python."""
        proof = trace.proof
        if trace.failure is not None:
            self.fallback.stop(specialization, trace.failure, "")
        else:
            # A proof that failed does not know what the step stored after that.
            known = proof.holds or (problem[1] and problem[0] != RETAINED)
            self.fallback.stop_skipping(specialization, *(problem if known else proof.why))


def _list_places_to_carry(trace: Trace) -> list[Place]:
    """Return the places whose tensors a call took and replaced."""
    return [*trace.proof.replaced, *(place for place, _ in list_new_grads(trace))]


def _matches_signature(specialization: Specialization, trace: Trace) -> bool:
    """Whether a call did what the stored signature lists."""
    known = specialization.signature
    return known is not None and (trace.deferred is not None or known.matches(trace))
