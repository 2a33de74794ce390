"""The instructions of a code object as the watcher meets them, and what may follow each."""

from __future__ import annotations

import dis
import functools
import sys
import types
from typing import Any


# From Python 3.12 on: LOAD_ATTR says whether it loads a method, SEND leaves its delegate.
IS_METHOD_FLAG = KEEPS_DELEGATE = sys.version_info >= (3, 12)
# From Python 3.14 on: a loop that ends leaves its iterator to POP_ITER, and CALL_FUNCTION_EX finds
# NULL where there are no keyword arguments.
KEEPS_ITERATOR = HAS_KEYWORDS_SLOT = sys.version_info >= (3, 14)


@functools.lru_cache(maxsize=1024)
def instructions(code: types.CodeType) -> tuple[dict[int, Any], dict[int, tuple[int, ...]]]:
    """The instructions of a code by offset, and the offsets that may follow each.

    The offset of an EXTENDED_ARG stands for the instruction that it extends.
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
    return by_offset, _successors(order)


def _successors(order: list[tuple[Any, tuple[int, ...]]]) -> dict[int, tuple[int, ...]]:
    starts = {offset: offsets for _, offsets in order for offset in offsets}
    successors: dict[int, tuple[int, ...]] = {}
    for k, (instruction, _) in enumerate(order):
        after = order[k + 1][1] if k + 1 < len(order) else ()
        if after and order[k + 1][0].opname == "RESUME" and k + 2 < len(order):
            after += order[k + 2][1]  # a generator that goes on
        if instruction.opcode in dis.hasjrel:
            after += starts[instruction.argval]
            if instruction.opname == "FOR_ITER":  # jumps past END_FOR, and what goes with it
                at = next(n for n, (_, offsets) in enumerate(order)
                          if instruction.argval in offsets)
                after += tuple(o for _, offsets in order[at : at + 3] for o in offsets)
        successors[instruction.offset] = after
    return successors


def starts_of(by_offset: dict[int, Any], target: int) -> tuple[int, ...]:
    """The offsets at which an instruction may be met: an EXTENDED_ARG may stand before it."""
    instruction = by_offset[target]
    offsets = range(target, instruction.offset + 1, 2)
    return tuple(at for at in offsets if by_offset.get(at) is instruction)


def loop_ends(by_offset: dict[int, Any], target: int) -> tuple[int, ...]:
    """The offsets at which a loop goes on when its iterator is exhausted: past END_FOR, which
    Python has from 3.12 on, and in 3.13 past the POP_TOP that follows it."""
    offsets = sorted(by_offset)
    if by_offset[target].opname == "END_FOR":
        skipped = 2 if sys.version_info[:2] == (3, 13) else 1
        target = offsets[offsets.index(target) + skipped]
    return starts_of(by_offset, target)


def exception_entries(code: types.CodeType) -> list[Any]:
    """The exception table: `start`, `end`, `target`, `depth` and `lasti` of each entry."""
    return dis._parse_exception_table(code)  # type: ignore[attr-defined]
