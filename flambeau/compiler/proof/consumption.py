"""Consumption: guard an outside value once anything other than a variable takes it.

A few opcodes only move values, or mark consumption themselves. A value that any other opcode takes
from the stack is consumed, as is one that goes to the step's caller or to unwatched code.
"""

from __future__ import annotations

from typing import Any

from .facts import Facts
from .opcodes import HANDLERS
from .provenance import Kind, NotProvedError, Provenance
from .shadow_frame import CallState, ShadowFrame

_CARRYING = frozenset((
    "POP_TOP", "STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_DEREF",
    "STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "BINARY_OP", "COMPARE_OP", "IS_OP", "UNARY_NOT",
    "UNARY_NEGATIVE", "TO_BOOL", "RETURN_VALUE", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP",
    "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", "FORMAT_VALUE", "FORMAT_SIMPLE",
    "FORMAT_WITH_SPEC", "CONVERT_VALUE", "BUILD_STRING",
))
_ATTRIBUTE_READS = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_CALLS = frozenset(("CALL", "CALL_KW"))


def handle(facts: Facts, frame: Any, s: ShadowFrame, instruction: Any) -> None:
    """Run an instruction's handler, and guard the values that it consumed from the stack."""
    handler = HANDLERS.get(instruction.opname)
    if handler is None:
        raise NotProvedError(f"the watcher does not know the opcode {instruction.opname}")
    reads = [p for p in s.stack if _has_guard(p) and not _reads_by_path(p, instruction.opname)]
    handler(facts, frame, s, instruction)
    if reads and instruction.opname not in _CARRYING and not _binds(s, instruction.opname):
        offer = None if s.call is None else s.call.offer
        remaining = {*map(id, s.stack), *map(id, () if offer is None else offer.numbers)}
        facts.need(*(p for p in reads if id(p) not in remaining))


def _has_guard(p: Provenance) -> bool:
    """Whether a value was read from outside, or is a method of an object that was."""
    return p.guard is not None or p.symbol is not None or p.text is not None or (
        p.kind is Kind.METHOD and any(map(_has_guard, p.items or ())))


def _reads_by_path(p: Provenance, name: str) -> bool:
    """Whether an opcode reads an attribute of an object that has a path; then the attribute is
    guarded instead of the object."""
    return p.kind is Kind.OUTSIDE and name in _ATTRIBUTE_READS


def _binds(s: ShadowFrame, name: str) -> bool:
    """Whether an opcode calls a Python function, whose parameters keep the arguments' guards, or a
    function whose result keeps them."""
    return name in _CALLS and s.call is not None and (s.call.callee is not None or s.call.carries)


def returns_to_stack(call: CallState | None, s: ShadowFrame, above: ShadowFrame | None,
                     root: ShadowFrame) -> bool:
    """Whether a returning function was called by a watched opcode and provides its result, rather
    than called by unwatched code or by the step's caller."""
    return (call is not None and call.callee_code is s.code and above is not root
            and not call.keeps_slot and not call.decides)
