"""The compiled step for runs that must be bit-identical: compiled before it is used.

Otherwise a program takes over when it is ready, at a different step in each run, and rounds the
last bit differently. Here, whether a step is compiled depends only on the training state and the
batch, so a resumed run decides like an uninterrupted one.
"""

from __future__ import annotations

from typing import Any

from ...compiler.driver.compiled_function import Compiled
from ...native.foundation.user_frames import warn
from ...native.runtime.frameless_call import MISS
from ...native.target.compile_costs import MAX_RECORDED_CALLS
from ...nn import Module
from .batch_kinds import BatchKinds, KindRecord, describe_kind
from .step_function import Step, try_compile
from .step_snapshot import StepSnapshot

_MAX_REBUILDS = 3  # of an invalidated program


class ExactStep:
    """A step that runs as a program whenever it compiles."""

    def __init__(
        self, step: Step, parts: tuple[Any, ...], optimizers: tuple[Any, ...], kinds: BatchKinds
    ) -> None:
        self.step, self.optimizers, self.kinds = step, optimizers, kinds
        self.modules = [part for part in parts if isinstance(part, Module)]
        self._compiled: Any = None
        self.compiled_kinds: set[str] = set()  # with a program in this process

    def attempt(self, *batch: Any) -> Any:
        """Run the batch's program, or return MISS if there is none."""
        compiled = self._compiled
        return compiled.attempt(*batch) if compiled.__class__ is Compiled else MISS

    def __call__(self, *batch: Any) -> Any:
        if self._compiled is None:
            self._compiled = try_compile(self.step, mode="now")
        if not isinstance(self._compiled, Compiled):
            return self.step(*batch)
        result = self._compiled.attempt(*batch)
        return result if result is not MISS else self._run_first(batch)

    def _run_first(self, batch: tuple[Any, ...]) -> Any:
        """Run a step that has no program, or whose program was invalidated."""
        kind = describe_kind(batch)
        record = self.kinds.find(kind)
        if record is None or record.stays_eager:
            return self.step(*batch)
        if kind in self.compiled_kinds:
            record.rebuilds += 1
            record.stays_eager = record.rebuilds > _MAX_REBUILDS
            if record.stays_eager:
                return self.step(*batch)
        return self._rehearse(kind, record, batch)

    def _rehearse(self, kind: str, record: KindRecord, batch: tuple[Any, ...]) -> Any:
        """Run the step until it is compiled, restore everything, and run the program.

        A step that creates optimizer state runs eagerly: the next step has a different program.
        """
        snapshot = StepSnapshot(self.modules, self.optimizers)
        structure = describe_structure(self.optimizers)
        try:
            outcome = self._compiled(*batch)
        except BaseException:
            snapshot.restore()
            raise
        if describe_structure(self.optimizers) != structure:
            return outcome
        try:
            for _ in range(MAX_RECORDED_CALLS + 1):
                self._compiled(*batch)
        finally:
            snapshot.restore()
        result = self._compiled.attempt(*batch)
        if result is MISS:
            record.stays_eager = True
            if record.was_compiled:
                warn("the step was compiled when the run was saved but cannot be compiled now: "
                     "the run continues, but the last bits may differ")
            return self.step(*batch)
        self.compiled_kinds.add(kind)
        record.was_compiled = True
        return result


def describe_structure(optimizers: tuple[Any, ...]) -> list[Any]:
    """Return the structure of the optimizers' state, without values."""
    return [
        (id(parameter), sorted((key, type(value).__name__) for key, value in state.items()))
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
    ]
