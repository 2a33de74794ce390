"""A program being built, possibly on another thread, or the error that ended the build."""

from __future__ import annotations

import threading
from typing import Any

from ..ir.errors import describe_failure
from ..runtime.optimizer_counters import RecordedGroup
from ..runtime.sample_inputs import SampleInputs
from ..trace.trace_signature import Precedent


class Pending:
    """A program being built."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.graph: Any = None
        self.step: Any = None
        self.backward: Any = None
        self.sample: SampleInputs | None = None
        self.modes: tuple = ()
        self.bindings: Any = None
        self.proof: Any = None  # proof that its Python may be skipped
        self.arguments: tuple = ()  # descriptions of (args, kwargs)
        self.result: Any = None  # of the recorded call, if the program's results replace it
        self.precedent: Precedent | None = None  # stored once its program is verified
        self.groups: list[RecordedGroup] = []
        self.error: BaseException | None = None

    def is_current(self) -> bool:
        """Whether the optimizers still have the parameters and state of the recorded call."""
        return all(group.is_same() for group in self.groups)

    def failed(self) -> bool:
        """Whether the build failed. Reraises a KeyboardInterrupt or SystemExit from the build."""
        if self.error is not None and not isinstance(self.error, Exception):
            raise self.error
        return self.error is not None

    def why(self) -> str:
        """Return why the build failed, or "" if it did not."""
        return "" if self.error is None else describe_failure(self.error)
