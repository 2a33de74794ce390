"""The shadow of one frame: provenances of its stack, variables and cells."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .bytecode import decode_exception_table, decode_instructions
from .provenance import Kind, NotProvedError, Provenance, Variable


@dataclass
class CallState:
    """The call made by the current opcode; the next opcode settles its result.

    `slot`: a placeholder for the result's provenance. `code`, `function`, `bind`: the Python
    function about to run, and how to bind its parameters from the frame. `entered`: whether it
    started. `created`: the class of the object that the call creates. `keeps_slot`: values returned
    by callbacks are not the result. `decides`: the result determines the step's control flow.
    """

    slot: Provenance | None = None
    name: str = ""
    code: types.CodeType | None = None
    function: Provenance | None = None
    bind: Callable[[Any], dict[str, Provenance]] | None = None
    entered: bool = False
    created: type | None = None
    keeps_slot: bool = False
    decides: bool = False
    tainted: bool = False
    takes_tensors: bool = False
    takes_optimizer: bool = False
    takes_plain_values: bool = False  # and nothing else
    runs_code: bool = False  # any code, such as an operator's or a property's
    metadata_path: str = ""  # path of a tensor's property
    attribute: str = ""
    result: Provenance | None = None  # returned by a watched function
    returned: tuple[Any, str] | None = None  # a library function's return value and name
    taints: bool = False  # a function that read tensor values ran inside
    carries: bool = False  # the result's guards are those of the arguments
    performed: bool = False  # the program performs this call; nothing inside it is watched


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
