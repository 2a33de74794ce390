"""BuildTask: a program being built, possibly on another thread, or the error that ended it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from ..ir.errors import describe_failure
from ..ir.graph import Graph
from ..runtime.optimizer_counters import RecordedGroup
from ..runtime.sample_inputs import SampleInputs
from ..trace.bindings import Bindings
from ..trace.trace_signature import TraceSignature


@dataclass(eq=False)
class BuildTask:
    """What a program is built from, and what the build has produced so far."""

    graph: Graph
    bindings: Bindings
    modes: tuple
    proof: Any  # that the recorded call's Python may be skipped
    arguments: tuple = ()  # descriptions of (args, kwargs, carried values)
    groups: list[RecordedGroup] = field(default_factory=list)  # as they were in the recorded call
    signature: TraceSignature | None = None  # stored once the program is verified
    result: Any = None  # of the recorded call, if the program's results replace it

    step: Any = None
    backward: Any = None
    sample: SampleInputs | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def is_current(self) -> bool:
        """Whether the optimizers still have the parameters and state of the recorded call."""
        return all(group.is_same() for group in self.groups)

    def has_failed(self) -> bool:
        """Whether the build failed. Reraises a KeyboardInterrupt or SystemExit from the build."""
        if self.error is not None and not isinstance(self.error, Exception):
            raise self.error
        return self.error is not None

    def describe_error(self) -> str:
        """Return why the build failed, or "" if it did not."""
        return "" if self.error is None else describe_failure(self.error)
