"""SegmentProgram: the first events of a segment, compiled to a native program.

It writes surviving storages to the memory that the followed call allocated, and updates outside
memory in place. Its first run is checked against a replay of the same events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...tensor.layout import as_bytes
from ..functionalization.functionalize import Functionalization
from ..functionalization.graph_inputs import make_draw
from ..ir.axis_order import invert_permutation, order_axes
from ..ir.errors import CheckFailed, Unfit, describe_failure
from ..ir.graph import Graph, permute
from ..lowering.registry import Untraceable
from ..trace.bindings import Argument, Bindings, RandomInput, Scalar, State
from ..trace.trace import DRAW, Event, Storage, Trace, Value, address
from ..validation.self_check import (
    CANCELLATION_TOLERANCE, KINK_TOLERANCE, agree, compute_max_magnitude, is_small_change,
    sum_squared_differences, sum_squares,
)
from .following import Following
from .segment import INPUT, INTERNAL, Segment


@dataclass(frozen=True)
class Target:
    """Where an output is written: a storage, and the layout within it."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    is_packed: bool

    def array(self, owner: np.ndarray) -> np.ndarray:
        """Return the window of its storage that the output is written to."""
        if self.offset == 0 and owner.shape == self.shape and owner.flags.c_contiguous \
                and owner.dtype == self.dtype:  # kernels may compute on the bits of numbers
            return owner
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, as_bytes(owner), self.offset, self.strides)


class _Builder(Functionalization):
    """Builds the graph of a segment's first events."""

    def __init__(self, segment: Segment, trace: Trace, leaves: list[Any],
                 shifts: dict[int, int]) -> None:
        super().__init__(trace, leaves)
        self.segment, self.shifts = segment, shifts
        self.position = 0  # of the event being added
        self.targets: list[Target] = []

    def build_graph(self, survivors: frozenset[int]) -> Graph:
        """Return the graph; its outputs are the storages that outlive the segment."""
        self._lay_out()
        for i, event in enumerate(self.trace.events):
            self.position = i
            self.handle(event)
        for s in sorted(survivors):
            for region in self.regions.get(s, ()):
                if region.written or region.node is not None:
                    self._write_output_region(s, region)
        graph = Graph(self.sources, self.inputs, self.outputs, self._written())
        return self._check_values(graph)

    def _write_output_region(self, s: int, region: Any) -> None:
        shape = region.shape
        strides = tuple(stride for _, stride in region.axes)
        packed = tuple(region.dtype.itemsize * math.prod(shape[i + 1 :])
                       for i in range(len(shape)))
        self.targets.append(Target(s, region.offset, shape, strides, region.dtype,
                                   strides == packed or 0 in shape))
        self.outputs.append(region.value)

    def bind_argument(self, leaf: int, window: Value) -> Argument:
        """Bind a window of an input, relative to the array through which the call first used it."""
        offset = window.offset + self.shifts.get(window.storage, 0)
        return super().bind_argument(leaf, replace(window, offset=offset))

    def handle(self, event: Event) -> None:
        """Add one event to the graph."""
        if event.kind != DRAW:
            super().handle(event)
            return
        window = event.args[0]
        order = order_axes(window.strides)
        entry = self.segment.entries[self.position]
        if entry.buffer is None:
            entry.buffer = make_draw(event)
        slot = entry.buffer
        node = self.source("drawn", slot.view.shape, window.dtype, slot, event.name, None)
        self.write(window, permute(node, invert_permutation(order)))


class SegmentProgram:
    """The program of a segment's first `count` events, for one set of surviving storages."""

    def __init__(
        self, segment: Segment, count: int, owners: Sequence[np.ndarray | None],
        inputs: Sequence[np.ndarray | None], survivors: frozenset[int], shifts: dict[int, int],
    ) -> None:
        """Build the graph. Raises Unfit. `shifts`: how many bytes later than recorded each input
        starts in its owner."""
        self.segment, self.count, self.survivors = segment, count, survivors
        trace = _trace(segment, count, owners)
        self.leaves = [s for s, array in enumerate(inputs)
                       if array is not None and segment.memory[s].kind == INPUT]
        builder = _Builder(segment, trace, [inputs[s] for s in self.leaves], shifts)
        try:
            self.graph = builder.build_graph(survivors)
        except Untraceable as error:
            event = segment.entries[builder.position].event
            raise Unfit(str(error), event.line) from None
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(describe_failure(error, "trace_to_graph")) from error
        self.bindings: Bindings = builder.bindings
        self.targets = builder.targets
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
        copied += [t.array(owners[t.storage]) if t.is_packed  # type: ignore[arg-type]
                   else np.empty(t.shape, t.dtype) for t in self.targets]
        self.step.run_into(values, [*copied, *self.flags])

    def _copy_out(self, following: Following, copied: list[np.ndarray]) -> None:
        """Copy outputs whose layout is not packed to their storages."""
        for target, array in zip(self.targets, copied, strict=False):
            if not target.is_packed:
                owner = following.owners[target.storage]
                target.array(owner)[...] = array  # type: ignore[arg-type]

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
        written = {slot for slot, _ in self.step.edges.writes}
        slots = self.bindings.slots
        changing = self.step.changing
        arrays = {i: slots[i].array if isinstance(slots[i], State)
                  else values[changing.index(i)] for i in written}
        before = {i: a.copy() for i, a in arrays.items()}
        noise = CANCELLATION_TOLERANCE * min(1.0, max(
            (compute_max_magnitude(v) for v in values if isinstance(v, np.ndarray) and v.dtype.kind
             == "f"),
            default=0.0))
        outputs = None
        try:
            outputs = [np.array(y) for y in self.step.run(values)][: len(self.targets)]
            result = {i: a.copy() for i, a in arrays.items()}
        except CheckFailed:
            pass
        finally:
            for i, array in arrays.items():
                array[...] = before[i]
        if outputs is None:
            replay()
            return None
        replay()
        return self._compare_outputs(following, outputs, noise) \
            or self._compare_writes(arrays, before, result, noise)

    def _compare_outputs(self, following: Following, outputs: list[np.ndarray],
                         noise: float) -> str | None:
        pairs = [(y, t.array(following.owners[t.storage]))  # type: ignore[arg-type]
                 for t, y in zip(self.targets, outputs, strict=True)]
        floats = [(a, b) for a, b in pairs if b.dtype.kind == "f" or b.dtype.kind == "V"]
        scale = max((compute_max_magnitude(b) for _, b in floats), default=0.0)
        loose = []
        for k, (a, b) in enumerate(pairs):
            if agree(a, b, noise):
                continue
            if b.dtype.kind not in "fV" or not agree(a, b, max(noise, scale)) and b.size < 2:
                return f"result {k}"
            loose.append((a, b))
        # Rounding may move an activation across its kink, which changes single elements.
        gap = sum(sum_squared_differences(a, b) for a, b in loose)
        size = sum(sum_squares(b) for _, b in floats)
        return None if gap <= KINK_TOLERANCE**2 * size else "set of results"

    def _compare_writes(self, arrays: dict[int, np.ndarray], before: dict[int, np.ndarray],
                        actual: dict[int, np.ndarray], noise: float) -> str | None:
        moved = gap = 0.0
        agrees = True
        for i, expected in arrays.items():
            is_float = expected.dtype.kind in "fV"
            if is_float and self.bindings.updates:
                moved += sum_squared_differences(expected, before[i])
                gap += sum_squared_differences(actual[i], expected)
                agrees = agrees and agree(actual[i], expected)
            elif not agree(actual[i], expected, noise):
                return f"value of {self.step.edges.sources[i].name or 'a state'}"
        if not agrees and not is_small_change(gap, moved):
            return "update of the parameters"
        return None


def _trace(segment: Segment, count: int, owners: Sequence[np.ndarray | None]) -> Trace:
    """Return a trace of the first events on this call's memory."""
    trace = Trace(False)
    trace.events = [entry.event for entry in segment.entries[:count]]
    for s, memory in enumerate(segment.memory):
        owner = owners[s]
        external = memory.kind != INTERNAL
        trace.storages.append(Storage(
            s, owner if external else None, external, memory.whole,
            0 if owner is None else address(owner),
        ))
        if external and owner is not None:
            trace.storage_numbers[id(owner)] = s
    return trace
