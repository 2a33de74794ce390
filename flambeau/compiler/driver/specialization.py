"""Specialization: the calls with one specialization key, from the first call to a program."""

from __future__ import annotations

from typing import Any

from ..proof.guards import Proof, format_line
from ..runtime.guarded_call import Program
from ..trace.trace_signature import Precedent
from .conditions import Conditions
from .states import Event, Installed, New, State, check_transition


class Specialization:
    """Calls with the same shapes, dtypes, flags and modes, and the state that they have reached.

    tensors: a key for the tensor arguments.
    kind: the key but for numbers.
    conditions: which calls of this kind it is for.
    """

    def __init__(self, tensors: Any = (), kind: Any = (), conditions: Conditions | None = None
                 ) -> None:
        self.tensors, self.kind = tensors, kind
        self.conditions = conditions or Conditions((), {})
        self.is_variant = False  # whether it may be another path of calls that ran before
        self.numbers: Conditions | None = None  # those that its last recorded call consumed
        self.path: Conditions | None = None  # what its last recorded call decided, if anything
        self.state: State = New()
        self.calls = 0  # calls that no program served
        self.unused_programs = 0  # consecutive programs whose guards failed before any call
        self.moved_line = ""  # the line that read the changed state
        self.is_looked_up = False  # whether its precedent was looked up
        self.precedent_key: str | None = None  # cache key of its precedent
        self.precedent: Precedent | None = None  # such a call in an earlier process

    def become(self, event: Event, state: State) -> None:
        """Enter the state that an event leads to. Raises ImpossibleTransition if it does not."""
        check_transition(self.state, event, state)
        self.state = state

    def learn(self, args: tuple, kwargs: dict[str, Any], proof: Proof) -> None:
        """Note on what the path of a recorded call depends."""
        self.path = None
        is_free = proof.is_free
        if proof.decisions:
            self.path = Conditions(args, kwargs, proof, lambda leaf: True)
        if proof.holds:
            self.conditions = Conditions(args, kwargs, proof, proof.is_free)
        elif self.path is not None:
            self.conditions, is_free = self.path, lambda leaf: True
        self.numbers = Conditions(args, kwargs, None, is_free)

    def note_end_of_program(self, program: Program, leaves: list[Any]) -> None:
        """Count a program whose guards fail if it served no call. `leaves`: the arguments."""
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
