"""Specialization: the calls that share a specialization key, and their progress to a program."""

from __future__ import annotations

from typing import Any

from ..proof.guards import Proof, Test, format_line
from ..proof.provenance import is_number
from ..runtime.guarded_call import Program
from ..trace.trace_signature import TraceSignature
from .conditions import Conditions
from .states import Event, Installed, New, State, check_transition


class Specialization:
    """Calls with the same shapes, dtypes, flags and modes, and their current state.

    tensors: a key for the tensor arguments.
    kind: the key without numbers; training flags of modules come first.
    conditions: which calls of this kind belong here.
    supplied: the number arguments of its first call, by leaf.
    """

    def __init__(self, tensors: Any = (), kind: Any = (), conditions: Conditions | None = None,
                 supplied: dict[int, int | float] | None = None) -> None:
        self.tensors, self.kind, self.supplied = tensors, kind, supplied or {}
        self.conditions = conditions or Conditions((), {})
        self.is_variant = False  # whether it may be a new path of calls seen before
        self.numbers: Conditions | None = None  # on the numbers its last recorded call consumed
        self.path: Conditions | None = None  # on the decisions of its last recorded call, if any
        self.state: State = New()
        self.calls = 0  # calls that no program served
        self.unused_programs = 0  # consecutive programs whose guards failed before any call
        self.moved_line = ""  # the line that read the changed state
        self.is_looked_up = False  # whether a stored signature was looked up
        self.signature_key: str | None = None  # cache key of its signature
        self.signature: TraceSignature | None = None  # of an equal call in an earlier process

    def become(self, event: Event, state: State) -> None:
        """Enter the state that an event leads to. Raises ImpossibleTransition if it is illegal."""
        check_transition(self.state, event, state)
        self.state = state

    def replace_flags(self, before: tuple, flags: tuple) -> None:
        """Take other training flags into the key if it has those of `before`."""
        if self.kind and self.kind[0] == before:
            self.kind = (flags, *self.kind[1:])

    def learn(self, args: tuple, kwargs: dict[str, Any], proof: Proof) -> None:
        """Note what the path of a recorded call depends on."""
        self.path = None
        is_free = proof.is_free
        if proof.decisions:
            self.path = Conditions(args, kwargs, proof, lambda leaf: True)
        if proof.holds:
            self.conditions = Conditions(args, kwargs, proof, proof.is_free)
        elif self.path is not None:
            self.conditions, is_free = self.path, lambda leaf: True
        self.numbers = Conditions(args, kwargs, None, is_free)

    def note_end_of_program(self, program: Program, leaves: list[Any]) -> str | None:
        """Count a program whose guards failed before it served a call. `leaves`: the arguments.
        Return the key of the path whose number changed, if that is why they failed."""
        moved = program.proof.first_failing(leaves)
        is_unused = moved is not None and program.calls == 0
        self.unused_programs = self.unused_programs + 1 if is_unused else 0
        if moved is None:
            return None
        if is_unused:
            self.moved_line = format_line(*moved.line)
        is_of_number = moved.test is Test.VALUE and is_number(moved.value)
        return program.proof.identify_path(moved.path) if is_of_number else None

    @property
    def uses(self) -> int | None:
        """The number of calls; None if it must not be evicted."""
        if not self.state.is_evictable:
            return None
        state = self.state
        return self.calls + (state.program.calls if isinstance(state, Installed) else 0)

    @property
    def is_early(self) -> bool:
        """Whether the signature had no program yet at this call."""
        return self.signature is not None and self.calls < self.signature.start
