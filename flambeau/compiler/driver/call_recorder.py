"""CallRecorder: records a call that no program serves, and decides what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...native.target.compile_costs import (
    MAX_ACCUMULATING_CALLS, MAX_RECORDED_CALLS, MAX_UNUSED_PROGRAMS,
)
from ..capture.capture import capture
from ..ir.errors import Unfit
from ..proof.guards import Proof
from ..runtime.reachable_state import change_counts
from ..trace.trace import Trace, find_divergence
from .fallback import Fallback
from .installation import Installer
from .program_builder import flatten_call
from .specialization import Specialization
from .specializations import Specializations
from .states import Event, Outdated, Recorded, Speculated, State


class CallRecorder:
    """Records calls until two agree, or until it is known why none will."""

    def __init__(self, function: Callable, installer: Installer, fallback: Fallback,
                 specializations: Specializations) -> None:
        self.function, self.policy = function, fallback.policy
        self.installer, self.fallback = installer, fallback
        self.specializations = specializations

    def blocks_on_build(self, specialization: Specialization) -> bool:
        """Whether calls wait for a program. They do if it is cached: loading it is faster than an
        eager call."""
        return self.policy.is_synchronous or specialization.precedent is not None

    def record(self, specialization: Specialization, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record an eager call and return its result."""
        before = specialization.state
        is_first, waits = before.trace is None, self.blocks_on_build(specialization)
        signature = None
        if waits and not specialization.is_early:
            signature = (specialization.precedent if is_first
                         else before.signature if isinstance(before, Speculated) else None)
        proof = _find_valid_proof(before, args, kwargs)
        # A first call gets no program, so its values do not matter, unless calls wait for one.
        result, trace = capture(self.function, args, kwargs, waits or not is_first,
                                self.policy.draws_by_counter, signature, proof is None)
        if trace is None:
            return result
        trace.proof = trace.proof or proof
        specialization.become(Event.RECORDED, Recorded(
            trace=trace, reach=before.reach, recordings=before.recordings + 1))
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
        except Exception:
            trace.compute_deferred()
            raise
        except BaseException:
            if trace.deferred is not None:
                trace.deferred.undo()
            raise
        return result

    def _judge(self, specialization: Specialization, trace: Trace, before: State, args: tuple,
               kwargs: dict[str, Any]) -> None:
        """Decide what to do after a recorded call; `before`: the state in which it ran."""
        last, is_warmup = before.trace, self._is_warmup(specialization)
        if specialization.is_early:
            self.installer.restart(specialization)
            return
        if trace.problems or (is_warmup and trace.effects):
            trace.compute_deferred()
            if isinstance(before, Outdated) or is_warmup:
                self.installer.restart(specialization)
            else:
                self._stop_at(specialization, trace.problems[0], trace)
            return
        if not trace.proof.holds:
            trace.compute_deferred()
            if isinstance(before, Outdated):
                self.installer.restart(specialization)
            elif not is_warmup:
                self.fallback.stop_skipping(specialization, *trace.proof.why)
            trace.release_memory()
            return
        divergence = self._find_divergence(specialization, trace, last)
        if divergence is not None and last is not None and self.specializations.note_accumulation(
            last.list_absent_grads(), trace.list_absent_grads()
        ):
            trace.compute_deferred()
            return
        specialization.state.reach = self.specializations.snapshot(trace)
        if divergence is None and (last is not None or _matches_precedent(specialization, trace)):
            self._promote(specialization, trace, before, args, kwargs)
            return
        trace.compute_deferred()
        if divergence is None and self.policy.is_synchronous and self.installer.speculate(
            specialization, trace, args, kwargs, is_warmup
        ):
            return
        if is_warmup:
            self.installer.restart(specialization)
            return
        trace.release_memory()
        if specialization.state.recordings >= MAX_RECORDED_CALLS and divergence is not None:
            self._stop_at(specialization, divergence, trace)

    def _promote(self, specialization: Specialization, trace: Trace, before: State, args: tuple,
                 kwargs: dict[str, Any]) -> None:
        """Build a program for a call that matches an earlier one, if its Python may be skipped."""
        if specialization.unused_programs >= MAX_UNUSED_PROGRAMS:
            raise Unfit("it reads what is another at each call", specialization.moved_line)
        candidate = before.candidate if isinstance(before, Speculated) else None
        if candidate is not None and (before.reach is None or not before.reach.has_same_memory()):
            candidate = None
        if trace.deferred is not None and self.installer.run_deferred(
            specialization, trace, candidate, args, kwargs
        ):
            return
        trace.compute_deferred()
        self.installer.build(specialization, trace, args, kwargs, before.trace is None)

    def _find_divergence(self, specialization: Specialization, trace: Trace, last: Trace | None
                         ) -> tuple[str, str] | None:
        """Return how a recorded call differs from the last one, as (what, line), or None."""
        if last is None:
            return None
        state, result = specialization.state, find_divergence(last, trace)
        moved = last.list_incoming_grads() != trace.list_incoming_grads()
        if result and specialization.calls < MAX_ACCUMULATING_CALLS and moved:
            state.recordings -= 1  # the grads' memory stays put only once a program owns it
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
            known = problem[1] or proof.holds
            self.fallback.stop_skipping(specialization, *(problem if known else proof.why))


def _find_valid_proof(before: State, args: tuple, kwargs: dict[str, Any]) -> Proof | None:
    """Return the previous call's proof, if it has a program and the proof still holds. Only valid
    without effects on Python objects, which a watcher would have to list, and without array reads,
    before which a deferred call must be computed."""
    if not isinstance(before, Speculated) or before.trace.effects:
        return None
    proof, reach = before.trace.proof, before.reach
    is_valid = (reach is not None and not proof.reads_numbers and not proof.arrays
                and reach.counts == change_counts()
                and proof.first_failing(flatten_call(args, kwargs)) is None)
    return proof if is_valid else None


def _matches_precedent(specialization: Specialization, trace: Trace) -> bool:
    """Whether a call did the same as its precedent."""
    known = specialization.precedent
    return known is not None and (trace.deferred is not None or known.matches(trace))
