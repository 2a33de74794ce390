"""The graph of a segment's first events, with the places that its outputs are written to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....tensor.layout import as_bytes
from ...functionalization.functionalize import Functionalization
from ...functionalization.graph_inputs import make_draw
from ...ir.axis_order import invert_permutation, order_axes
from ...ir.errors import Unfit, describe_failure
from ...ir.graph import Graph, SourceKind, permute
from ...lowering.registry import Untraceable
from ...trace.bindings import Argument, Bindings
from ...trace.trace import DRAW, Event, Storage, Trace, Value, address
from ..segment import INTERNAL, Segment


@dataclass(frozen=True)
class Target:
    """Where an output is written: a storage, and the layout within it."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    is_packed: bool

    def array(self, owner: np.ndarray | None) -> np.ndarray:
        """Return the window of its storage that the output is written to."""
        assert owner is not None
        if self.offset == 0 and owner.shape == self.shape and owner.flags.c_contiguous \
                and owner.dtype == self.dtype:  # kernels may compute on the bits of numbers
            return owner
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, as_bytes(owner), self.offset, self.strides)


@dataclass(frozen=True)
class SegmentGraph:
    """A graph, its arguments, and the targets of its outputs; outputs after those are checks."""

    graph: Graph
    bindings: Bindings
    targets: list[Target]


def build_segment_graph(
    segment: Segment, count: int, owners: Sequence[np.ndarray | None], leaves: list[Any],
    survivors: frozenset[int], shifts: dict[int, int],
) -> SegmentGraph:
    """Build the graph of the first `count` events. Raises Unfit.

    `leaves`: the arrays of the inputs. `survivors`: the storages that outlive the segment.
    `shifts`: how many bytes later than recorded each input starts in its owner.
    """
    builder = _Builder(segment, _trace(segment, count, owners), leaves, shifts)
    try:
        graph = builder.build_graph(survivors)
    except Untraceable as error:
        event = segment.entries[builder.position].event
        raise Unfit(str(error), event.line) from None
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(describe_failure(error, "trace_to_graph")) from error
    return SegmentGraph(graph, builder.bindings, builder.targets)


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
        node = self.source(SourceKind.DRAWN, slot.view.shape, window.dtype, slot, event.name, None)
        self.write(window, permute(node, invert_permutation(order)))


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
