"""Specialization: the calls with one specialization key, from the first call to a program."""

from __future__ import annotations

from typing import Any

from ..proof.guards import format_line
from ..runtime.guarded_call import Program
from ..trace.trace_signature import Precedent
from .states import Event, Installed, New, State, check_transition


class Specialization:
    """Calls with the same shapes, dtypes, flags and modes, and the state that they have reached.

    tensors: a key for those of the arguments that are tensors.
    """

    def __init__(self, tensors: Any = ()) -> None:
        self.tensors = tensors
        self.state: State = New()
        self.calls = 0  # calls that no program served
        self.unused_programs = 0  # in a row that served no call, since state changed before one
        self.moved_line = ""  # which read that state
        self.is_looked_up = False  # whether its precedent was looked for
        self.precedent_key: str | None = None  # under which its precedent is stored
        self.precedent: Precedent | None = None  # what such calls did in an earlier process

    def become(self, event: Event, state: State) -> None:
        """Enter the state that an event leads to; ImpossibleTransition if it does not."""
        check_transition(self.state, event, state)
        self.state = state

    def note_end_of_program(self, program: Program, leaves: list[Any]) -> None:
        """Count a program whose guards fail if it served no call. `leaves`: this call's arguments.
        """
        moved = program.proof.first_failing(leaves) if program.calls == 0 else None
        self.unused_programs = 0 if moved is None else self.unused_programs + 1
        if moved is not None:
            self.moved_line = format_line(*moved.line)

    @property
    def uses(self) -> int | None:
        """The number of calls; None if it must not be evicted."""
        if not self.state.is_evictable:
            return None
        state = self.state
        return self.calls + (state.program.calls if isinstance(state, Installed) else 0)

    @property
    def is_early(self) -> bool:
        """Whether the precedent had no program yet at this call."""
        return self.precedent is not None and self.calls < self.precedent.start
