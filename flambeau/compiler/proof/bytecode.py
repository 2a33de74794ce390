"""Instructions of a code object, indexed by offset, and the possible successors of each."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from typing import Any


# Python >= 3.12: LOAD_ATTR has a flag for method loads, and SEND keeps its delegate on the stack.
IS_METHOD_FLAG = KEEPS_DELEGATE = sys.version_info >= (3, 12)
# Python >= 3.14: an exhausted loop leaves its iterator for POP_ITER to remove, and CALL_FUNCTION_EX
# has a NULL slot when there are no keyword arguments.
KEEPS_ITERATOR = HAS_KEYWORDS_SLOT = sys.version_info >= (3, 14)


@functools.lru_cache(maxsize=1024)
def decode_instructions(code: types.CodeType) -> tuple[dict[int, Any], dict[int, tuple[int, ...]]]:
    """Return the instructions of a code object by offset, and the possible next offsets of each.

    The offset of an EXTENDED_ARG maps to the instruction that it extends.
    """
    by_offset: dict[int, Any] = {}
    order: list[tuple[Any, tuple[int, ...]]] = []
    prefix: list[int] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            prefix.append(instruction.offset)
            continue
        by_offset[instruction.offset] = instruction
        by_offset.update(dict.fromkeys(prefix, instruction))
        order.append((instruction, (*prefix, instruction.offset)))
        prefix = []
    return by_offset, _map_successors(order)


def _map_successors(order: list[tuple[Any, tuple[int, ...]]]) -> dict[int, tuple[int, ...]]:
    starts = {offset: offsets for _, offsets in order for offset in offsets}
    successors: dict[int, tuple[int, ...]] = {}
    for k, (instruction, _) in enumerate(order):
        after = order[k + 1][1] if k + 1 < len(order) else ()
        if after and order[k + 1][0].opname == "RESUME" and k + 2 < len(order):
            after += order[k + 2][1]  # a resumed generator
        if instruction.opcode in dis.hasjrel:
            after += starts[instruction.argval]
            if instruction.opname == "FOR_ITER":  # jumps past END_FOR and its POP
                first = next(n for n, (_, offsets) in enumerate(order)
                             if instruction.argval in offsets)
                after += tuple(o for _, offsets in order[first : first + 3] for o in offsets)
        successors[instruction.offset] = after
    return successors


def find_starts(by_offset: dict[int, Any], target: int) -> tuple[int, ...]:
    """Return the offsets at which an instruction can start, counting its EXTENDED_ARG prefixes."""
    instruction = by_offset[target]
    offsets = range(target, instruction.offset + 1, 2)
    return tuple(offset for offset in offsets if by_offset.get(offset) is instruction)


def loop_ends(by_offset: dict[int, Any], target: int) -> tuple[int, ...]:
    """Return the offsets at which execution continues after a loop's iterator is exhausted: past
    END_FOR (Python >= 3.12), and in 3.13 also past the POP_TOP after it."""
    offsets = sorted(by_offset)
    if by_offset[target].opname == "END_FOR":
        skipped = 2 if sys.version_info[:2] == (3, 13) else 1
        target = offsets[offsets.index(target) + skipped]
    return find_starts(by_offset, target)


def keeps_locals(code: types.CodeType) -> bool:
    """Whether code mentions `locals`, or calls `vars` without arguments."""
    if "vars" not in code.co_names:
        return "locals" in code.co_names
    names = [i for i in dis.get_instructions(code) if i.opname != "PRECALL"]
    return "locals" in code.co_names or any(
        i.argval == "vars" and call.opname == "CALL" and call.arg == 0
        for i, call in itertools.pairwise(names))


def decode_exception_table(code: types.CodeType) -> list[Any]:
    """Return the exception table; entries have `start`, `end`, `target`, `depth` and `lasti`."""
    return dis._parse_exception_table(code)  # type: ignore[attr-defined]
