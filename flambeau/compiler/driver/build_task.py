"""Pending: a program that is being made, perhaps on another thread, or why it could not be."""

from __future__ import annotations

import threading
from typing import Any

from ..runtime.optimizer_counters import RecordedGroup
from ..trace.trace_signature import Precedent
from ..runtime.sample_inputs import SampleInputs
from ..ir.errors import describe_failure


class Pending:
    """A program being made, perhaps on another thread."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.graph: Any = None
        self.step: Any = None
        self.backward: Any = None
        self.sample: SampleInputs | None = None
        self.modes: tuple = ()
        self.bindings: Any = None
        self.proof: Any = None  # that its Python may be skipped
        self.given: tuple = ()
        self.result: Any = None  # of the recorded call, where the program's are to replace it
        self.precedent: Precedent | None = None  # what is kept once its program was right
        self.groups: list[RecordedGroup] = []
        self.error: BaseException | None = None

    def is_current(self) -> bool:
        """Whether the optimizers have the parameters and the state that the recorded call met."""
        return all(group.is_same() for group in self.groups)

    def failed(self) -> bool:
        """Whether there is no program. Ctrl-C while it was made is raised: it is the caller's."""
        if self.error is not None and not isinstance(self.error, Exception):
            raise self.error
        return self.error is not None

    def why(self) -> str:
        """Why there is none."""
        return "" if self.error is None else describe_failure(self.error)
