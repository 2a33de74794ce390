"""SegmentProgram: the first events of a segment, compiled to a native program.

It writes surviving storages to the memory that the followed call allocated, and updates outside
memory in place. Its first run is checked against a replay of the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...trace.bindings import Argument, RandomInput, Scalar
from ..following import Following
from ..segment import INPUT, Segment
from .comparison import compare_with_replay
from .segment_graph import build_segment_graph


class SegmentProgram:
    """The program of a segment's first `count` events, for one set of surviving storages."""

    def __init__(
        self, segment: Segment, count: int, owners: Sequence[np.ndarray | None],
        inputs: Sequence[np.ndarray | None], survivors: frozenset[int], shifts: dict[int, int],
    ) -> None:
        """Build the graph. Raises Unfit. See `build_segment_graph`."""
        self.segment, self.count, self.survivors = segment, count, survivors
        self.leaves = [s for s, array in enumerate(inputs)
                       if array is not None and segment.memory[s].kind == INPUT]
        built = build_segment_graph(
            segment, count, owners, [inputs[s] for s in self.leaves], survivors, shifts)
        self.graph, self.bindings, self.targets = built.graph, built.bindings, built.targets
        self.target_storages = [t.storage for t in self.targets]
        # Buffers for the outputs of checks, which are not read back.
        self.flags = [np.empty((), np.bool_) for _ in self.graph.outputs[len(self.targets) :]]
        # Whether every output covers its storage, so that an address suffices.
        self.outputs_are_whole = all(t.is_packed and not t.offset for t in self.targets)
        self.step: Any = None
        self.is_trusted = False
        self.calls = 0
        self.update_positions = [i for i, entry in enumerate(segment.entries[:count])
                                 if entry.kind == "update"]

    def compile(self, build: Callable[[Graph], Any]) -> None:
        """Compile the graph."""
        self.step = build(self.graph)
        self._prepare()

    # -------------------------------------------------------------------------------- running

    def values(self, following: Following) -> list[Any] | None:
        """Return the program's arguments; None if an index is out of bounds."""
        inputs = following.inputs
        arrays: list[Any] = [inputs.get(s) for s in self.leaves]
        for check in self.quick_checks:
            if not check(arrays):
                return None
        return [read(arrays, following.updates) for read in self.readers]

    def _prepare(self) -> None:
        """Prepare readers for the arguments that change from call to call."""
        self.quick_checks = [self._build_quick_check(check) for check in self.bindings.checks]
        slots = self.bindings.slots
        self.readers = [self._build_reader(slots[i]) for i in self.step.changing]

    def _build_quick_check(self, check: Any) -> Callable[[list[Any]], bool]:
        leaf = check.leaf
        if leaf is None:
            return lambda arrays: check.test(
                {i: a for i, a in enumerate(arrays) if a is not None})
        first = self.segment.memory[self.leaves[leaf]].first
        assert first is not None
        test = check.bound.quick(first.dtype, 0 in first.shape)
        return lambda arrays: test(arrays[leaf])

    def _build_reader(self, slot: Any) -> Callable[[list[Any], dict[int, Any]], Any]:
        """Return a function that reads a slot's value from the input arrays and update scalars."""
        if isinstance(slot, Argument):
            leaf, shape = slot.leaf, slot.shape
            if slot.order is not None and slot.order == tuple(range(len(shape))):
                return lambda arrays, _: (a if (a := arrays[leaf]).shape == shape
                                          else slot.array(arrays))
            return lambda arrays, _: slot.array(arrays)
        if isinstance(slot, Scalar):
            event, place = self.update_positions[slot.update], slot.place
            return lambda _, updates: float(updates[event][place])
        assert isinstance(slot, RandomInput)
        view = slot.view
        return lambda *_: view

    def run(self, following: Following) -> bool:
        """Compute the listed events. Return False, with no side effects, if a check fails."""
        ran = self.step.ran[0]
        copied: list[np.ndarray] = []
        try:
            values = self.values(following)
            if values is None:
                return False
            self._run(following, values, copied)
            self._copy_out(following, copied)
        except Exception:  # a failed check, or out of memory
            if self.step.ran[0] == ran:
                return False
            self._copy_out(following, copied)
            raise
        except BaseException:
            if self.step.ran[0] != ran:  # interrupted after the last write
                following.is_computed = True
                self._copy_out(following, copied)
            raise
        following.is_computed = True
        self.calls += 1
        return True

    def _run(self, following: Following, values: list[Any], copied: list[np.ndarray]) -> None:
        """Run the program. Add to `copied` the outputs that may still have to be copied."""
        owners = following.owners
        if self.outputs_are_whole and self.step.is_direct:  # addresses suffice
            self.step.run_into(values, [owners[s] for s in self.target_storages])
            return
        copied += [t.array(owners[t.storage]) if t.is_packed
                   else np.empty(t.shape, t.dtype) for t in self.targets]
        self.step.run_into(values, [*copied, *self.flags])

    def _copy_out(self, following: Following, copied: list[np.ndarray]) -> None:
        """Copy outputs whose layout is not packed to their storages."""
        for target, array in zip(self.targets, copied, strict=False):
            if not target.is_packed:
                owner = following.owners[target.storage]
                target.array(owner)[...] = array

    def may_run_alone(self) -> bool:
        """Whether the program may compute a call unchecked."""
        return self.is_trusted

    def note_agreement(self) -> None:
        """Note a call in which the program agreed with a replay."""
        self.is_trusted = True

    def verify(self, following: Following, replay: Callable[[], None]) -> str | None:
        """Compute the events by program and by replay. Return the name of what differs, or None."""
        values = self.values(following)
        if values is None:
            replay()
            return None
        return compare_with_replay(self, following, values, replay)
