"""The shadow of one frame: provenances of its stack, variables and cells."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .bytecode import decode_exception_table, decode_instructions
from .provenance import Kind, NotProvedError, Provenance, Variable


class Runs(Enum):
    """What may run on behalf of a call, besides a callee that is watched."""

    NOTHING = "nothing else"
    ANY_CODE = "any code, such as an operator's or a property's"
    PERFORMED = "the program performs this call; nothing inside it is watched"


@dataclass(frozen=True)
class Callee:
    """A Python function about to run, and how to bind its parameters from its frame."""

    code: types.CodeType
    function: Provenance | None
    bind: Callable[[Any], dict[str, Provenance]]


@dataclass(frozen=True)
class Operands:
    """What a call gets."""

    has_tensors: bool = False
    has_optimizer: bool = False
    are_plain: bool = False  # values, and nothing else


@dataclass(frozen=True)
class TensorAttribute:
    """The property of a tensor that a call reads. `path`: "" if no guard can cover it."""

    name: str
    path: str


@dataclass
class Observations:
    """What the watcher saw while the call ran."""

    entered_callee: bool = False
    read_values: bool = False  # a function that reads tensors' values ran inside
    watched_result: Provenance | None = None
    library_result: tuple[Any, str] | None = None  # a library function's return value and name


@dataclass(eq=False)
class Offer:
    """Numbers with symbols that a call gets, and those that operators accepted as inputs."""

    numbers: list[Provenance]
    accepted: list[Provenance] = field(default_factory=list)


@dataclass
class CallState:
    """The call made by the current opcode; the next opcode settles its result.

    `slot`: a placeholder for the result's provenance. `keeps_slot`: the placeholder is the result,
    and what functions return to the library is not. `created`: the class of the object that the
    call creates. `decides`: the result determines the step's control flow. `carries`: the result's
    guards are those of the operands. `offer`: numbers that operators may take as inputs.
    """

    slot: Provenance | None = None
    name: str = ""
    callee: Callee | None = None
    runs: Runs = Runs.NOTHING
    operands: Operands = Operands()
    attribute: TensorAttribute | None = None
    created: type | None = None
    tainted: bool = False
    keeps_slot: bool = False
    decides: bool = False
    carries: bool = False
    offer: Offer | None = None
    seen: Observations = field(default_factory=Observations)

    @property
    def callee_code(self) -> types.CodeType | None:
        """The code of the function about to run."""
        return None if self.callee is None else self.callee.code


# Python 3.12 wraps each generator's body and each `yield from` in a handler.
HANDLERS_OF_EVERY_GENERATOR = ("CALL_INTRINSIC_1", "CLEANUP_THROW")


@dataclass(eq=False)
class ShadowFrame:
    """What is known about a running frame."""

    code: types.CodeType | None = None
    function: Provenance | None = None
    variables: dict[str, Provenance] = field(default_factory=dict)
    stack: list[Provenance] = field(default_factory=list)
    cells: dict[str, Variable] = field(default_factory=dict)
    instructions: dict[int, Any] = field(default_factory=dict)
    successors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    last: int = -1  # offset of the last instruction
    after_jump: Callable[[int], None] | None = None
    keyword_names: tuple[str, ...] = ()
    call: CallState | None = None
    result: Provenance | None = None
    is_suspended: bool = False  # a generator suspended at a `yield`

    @classmethod
    def of(
        cls, code: types.CodeType, function: Provenance | None, variables: dict[str, Provenance]
    ) -> ShadowFrame:
        """Return the shadow of a new frame."""
        cells = {name: Variable(variables.get(name)) for name in code.co_cellvars}
        by_offset, successors = decode_instructions(code)
        return cls(code, function, dict(variables), [], cells, by_offset, successors)

    def pop(self, count: int) -> list[Provenance]:
        """Pop the last `count` slots; the top of the stack comes last."""
        if not count:
            return []
        slots = self.stack[-count:]
        del self.stack[-count:]
        return slots

    def enter_handler(self, offset: int) -> None:
        """Unwind the stack if an exception led to this instruction."""
        if self.last < 0 or offset in self.successors[self.last]:
            return
        assert self.code is not None
        for entry in decode_exception_table(self.code):
            if entry.start <= self.last < entry.end and entry.target == offset:
                del self.stack[entry.depth :]
                self.stack += [create_exception_slot() for _ in range(entry.lasti + 1)]
                return
        raise NotProvedError("control flow differs from what the watcher predicted")

    def cleans_up(self) -> bool:
        """Whether user code handles an exception raised at the last instruction, as it would if a
        generator is dropped within `try` or `with`."""
        assert self.code is not None
        return any(
            entry.start <= self.last < entry.end
            and self.instructions[entry.target].opname not in HANDLERS_OF_EVERY_GENERATOR
            for entry in decode_exception_table(self.code)
        )


def create_exception_slot() -> Provenance:
    """Return a slot for an exception or for the offset that raised it."""
    return Provenance(Kind.PLAIN)
