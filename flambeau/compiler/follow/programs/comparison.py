"""Compare a segment's program with a replay of the same events, before the program is trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.errors import CheckFailed
from ...trace.bindings import State
from ...validation.self_check import (
    KINK_TOLERANCE, agree, compute_max_magnitude, estimate_noise_floor, is_small_change,
    sum_squared_differences, sum_squares,
)
from ..following import Following

if TYPE_CHECKING:
    from .segment_program import SegmentProgram


@dataclass
class _Writes:
    """The arrays that a program writes in place, by source, and their values before and after."""

    arrays: dict[int, np.ndarray]
    before: dict[int, np.ndarray]
    after: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, program: SegmentProgram, values: list[Any]) -> _Writes:
        """Note the arrays that a call with these arguments writes, and copy their values."""
        slots, changing = program.bindings.slots, program.step.changing
        arrays = {i: slots[i].array if isinstance(slots[i], State) else values[changing.index(i)]
                  for i in {slot for slot, _ in program.step.edges.writes}}
        return cls(arrays, {i: a.copy() for i, a in arrays.items()})

    def run(self, program: SegmentProgram, values: list[Any]) -> list[np.ndarray] | None:
        """Run the program and undo its writes. Return copies of its outputs; None if one of its
        checks fails."""
        try:
            outputs = [np.array(y) for y in program.step.run(values)][: len(program.targets)]
            self.after = {i: a.copy() for i, a in self.arrays.items()}
            return outputs
        except CheckFailed:
            return None
        finally:
            for i, array in self.arrays.items():
                array[...] = self.before[i]


def compare_with_replay(program: SegmentProgram, following: Following, values: list[Any],
                        replay: Callable[[], None]) -> str | None:
    """Run the program on these arguments, then the replay, which leaves its results in memory.
    Return the name of what differs, or None."""
    noise = estimate_noise_floor(values)
    writes = _Writes.of(program, values)
    outputs = writes.run(program, values)
    replay()
    if outputs is None:
        return None
    expected = [t.array(following.owners[t.storage]) for t in program.targets]
    return _compare_outputs(outputs, expected, noise) or _compare_writes(program, writes, noise)


def _compare_outputs(outputs: list[np.ndarray], expected: list[np.ndarray],
                     noise: float) -> str | None:
    floats = [b for b in expected if b.dtype.kind in "fV"]
    scale = max(map(compute_max_magnitude, floats), default=0.0)
    loose = []
    for k, (a, b) in enumerate(zip(outputs, expected, strict=True)):
        if agree(a, b, noise):
            continue
        if b.dtype.kind not in "fV" or not agree(a, b, max(noise, scale)) and b.size < 2:
            return f"result {k}"
        loose.append((a, b))
    # Rounding may move an activation across its kink, which changes single elements.
    gap = sum(sum_squared_differences(a, b) for a, b in loose)
    size = sum(map(sum_squares, floats))
    return None if gap <= KINK_TOLERANCE**2 * size else "set of results"


def _compare_writes(program: SegmentProgram, writes: _Writes, noise: float) -> str | None:
    moved = gap = 0.0
    agrees = True
    for i, expected in writes.arrays.items():
        actual = writes.after[i]
        if expected.dtype.kind in "fV" and program.bindings.updates:
            moved += sum_squared_differences(expected, writes.before[i])
            gap += sum_squared_differences(actual, expected)
            agrees = agrees and agree(actual, expected)
        elif not agree(actual, expected, noise):
            return f"value of {program.step.edges.sources[i].name or 'a state'}"
    if not agrees and not is_small_change(gap, moved):
        return "update of the parameters"
    return None
