"""Variant: the history of calls with one specialization key, from the first call to a program."""

from __future__ import annotations

from typing import Any

from ..runtime.guarded_call import Program
from ..runtime.guards import Environment, Modules
from ..trace.trace import Trace
from ..trace.trace_signature import Precedent
from .build_task import Pending


class Variant:
    """Calls with the same shapes, dtypes, flags and modes."""

    def __init__(self, tensors: Any = ()) -> None:
        """`tensors`: a key for those of the arguments that are tensors."""
        self.tensors = tensors
        self.calls = 0
        self.trace: Trace | None = None
        self.recorded = 0
        self.difference: tuple[str, str] | None = None
        self.stopped = False
        self.changed = False  # guards failed, and nothing has been recorded since
        self.seeks_line = False  # whether a call is watched for the line that keeps its Python
        self.program: Program | None = None
        self.pending: Any = None
        self.known = False  # whether the two that follow were looked for
        self.place: str | None = None  # under which it is kept what such calls do
        self.kept: Precedent | None = None  # what they did in an earlier process
        self.candidate: Pending | None = None  # the program of the one call that was recorded
        self.like: Precedent | None = None  # what that call did
        self.environment: Environment | None = None
        self.modules: Modules | None = None

    def stop(self) -> None:
        """Stop recording, and drop references to what the step reaches."""
        self.stopped = True
        self.trace = self.environment = self.modules = self.kept = self.like = None

    @property
    def used(self) -> int | None:
        """The number of calls; None while a program is being built, and once recording stopped."""
        if self.stopped or self.pending is not None:
            return None
        return self.calls + (0 if self.program is None else self.program.calls)
