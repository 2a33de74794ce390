"""ReachableState: the modules and names that a step reaches, as they were after a recorded call."""

from __future__ import annotations

from collections.abc import Callable

from ..runtime.guards import Environment, Modules, reachable_memory
from ..trace.trace import Trace


class ReachableState:
    """A snapshot of what a step reaches other than through its arguments; programs guard it."""

    def __init__(self, function: Callable, trace: Trace) -> None:
        self.environment = Environment(function)
        self.environment.ignore(trace.effects)
        self.modules = Modules(trace, self.environment)
        self.modules.ignore(trace.effects)

    def list_memory(self) -> set[int]:
        """Ids of the memory that the step reaches."""
        return reachable_memory(self.environment, self.modules)

    def find_change(self, trace: Trace) -> tuple[str, str] | None:
        """The first state that changed until `trace` was recorded, as (what, line), but for what
        the call itself wrote. A program would have to guard it, and would never run."""
        self.environment.ignore(trace.effects)
        names = self.environment.changed()
        self.modules.ignore(trace.effects)
        names += [f"{name} of a module" for _, name in self.modules.changed()]
        return (f"{names[0]}, which its code uses, is another at each call", "") if names else None
