"""Kernels of pointwise operations and reductions: loops over a group's domain.

Reductions over rows run in stages. Each stage passes over the row once and reduces all values whose
inputs are known; the next stage uses the results (a maximum, a sum). The last axis is vectorized.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...native.loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Expression, Index, IndexValue, Kernel, Load, Loop, LoopKind,
    Statement, Store, Update,
)
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    CACHE_LINE_ELEMENTS, CHUNK_ELEMENTS, COLUMN_BLOCK_SIZES, MAX_ROW_SCRATCH_ELEMENTS,
    MAX_SHARED_COLUMN_ROUNDS, MIN_CHUNK_ELEMENTS,
)
from ...native.target.load_balance import TYPICAL_THREADS
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion, is_blocked_transpose
from ..fusion.fusion_group import FusionGroup, iterate_fused_nodes, reshape_chain
from ..fusion.materialization import EXPENSIVE_OPERATIONS
from ..fusion.placement import Place
from ..ir.any_length import serves_any_length
from ..ir.graph import Node, Op
from .expressions import ExpressionBuilder
from .index_maps import FIXED, Coordinate, map_index, split, wrap_in_loops
from .loop_axes import POSITION_REDUCTIONS, count_along_axes, is_narrow, merge_axes
from .stages import assign_stages


def choose_chunk(extent: int, count: int) -> int:
    """Return the elements per chunk: fewer if some of `count` threads would be idle."""
    chunk = CHUNK_ELEMENTS
    while count > TYPICAL_THREADS and chunk > MIN_CHUNK_ELEMENTS and extent < 4 * count * chunk:
        chunk //= 2
    return chunk


class LoopKernel:
    """Builder of one fusion group's kernel."""

    def __init__(self, group: FusionGroup, fusion: Fusion, layout: BufferAssignment) -> None:
        self.group, self.fusion, self.layout = group, fusion, layout
        self.nodes = [node for node in group.nodes if id(node) not in layout.elsewhere]
        self.own = {id(node) for node in self.nodes}
        self.values = ExpressionBuilder(self._place)
        self.stages = assign_stages(group, self.nodes, fusion)
        self.chunk = choose_chunk(prod(group.shape), threads())
        merged_axes = merge_axes(group, self.nodes, fusion, layout)
        self.free = [axes for axes in merged_axes if axes[-1] not in group.axes]
        self.folded = [axes for axes in merged_axes if axes[-1] in group.axes]
        # Whether lanes run along axes that are not reduced.
        self.by_columns = group.by_columns or is_narrow(group, self.free, self.folded)
        # Values of earlier stages: nodes that are read from memory, buffers of a row by node.
        self.stored: set[int] = set()
        self.scratch: dict[int, Buffer] = {}

    def _place(self, node: Node) -> Place | None:
        """Return the memory to load a node from; None to compute it."""
        if id(node) not in self.fusion.materialized:
            return None
        if id(node) in self.own and id(node) not in self.stored:
            return None
        return self.layout.place(node)

    def kernel(self) -> Kernel:
        """Build the kernel, with its buffers in the order of `values.memories`."""
        if len(self.nodes) == 1 and is_blocked_transpose(self.nodes[0]):
            body = self._transpose_in_blocks(self.nodes[0])
        elif not self.group.axes:
            body = self._loop_over_elements()
        elif self.by_columns:
            body = self._loop_over_columns()
        else:
            point, loops = self._open_axes(self.free)
            body = wrap_in_loops(self._compute_stages(point), loops, LoopKind.PARALLEL)
        buffers = [self.values.buffers[id(m)] for m in self.values.memories]
        return Kernel(_name_kernel(self.group), buffers, body)

    # ------------------------------------------------------------------------------- loops

    def _open_axes(
        self, merged_axes: Sequence[list[int]], start: Sequence[Coordinate] | None = None
    ) -> tuple[list[Coordinate], list[tuple[Index, int]]]:
        """Return `start`, by default the origin, moved along these axes, and the loops over them:
        their indices and extents.
        """
        point = [FIXED] * len(self.group.shape) if start is None else list(start)
        loops = []
        for axes in merged_axes:
            index = Index(f"i{axes[-1]}")
            point[axes[-1]] = map_index(index)
            loops.append((index, self._count_points(axes)))
        return point, loops

    def _count_points(self, axes: list[int]) -> int:
        return count_along_axes(self.group.shape, axes)

    def _loop_over_elements(self) -> list[Statement]:
        *outer, last = self.free or [[]]
        if not last:
            return self._compute_stages([FIXED] * len(self.group.shape))
        extent = self._count_points(last)
        if not outer and extent > self.chunk and not serves_any_length():
            return self._loop_over_chunks(last[-1], extent)
        point, loops = self._open_axes(outer)
        lane = Index("lane")
        point[last[-1]] = map_index(lane)
        is_shared = not outer and serves_any_length()
        kind = LoopKind.PARALLEL if is_shared else LoopKind.VECTORIZED
        return wrap_in_loops([Loop(lane, extent, self._compute_stages(point), kind)], loops,
                             LoopKind.PARALLEL)

    def _loop_over_chunks(self, axis: int, extent: int) -> list[Statement]:
        """Split the only long axis into chunks that threads share, and a remainder."""
        chunk, lane = Index("chunk"), Index("lane")
        point = [FIXED] * len(self.group.shape)
        point[axis] = split(chunk, self.chunk, lane)
        inner = Loop(lane, self.chunk, self._compute_stages(point), LoopKind.VECTORIZED)
        body: list[Statement] = [Loop(chunk, extent // self.chunk, [inner], LoopKind.PARALLEL)]
        rest = extent % self.chunk
        if rest:
            lane = Index("lane")
            point[axis] = map_index(lane, 1, extent - rest)
            body.append(Loop(lane, rest, self._compute_stages(point), LoopKind.VECTORIZED))
        return body

    def _loop_over_columns(self) -> list[Statement]:
        """Reduce adjacent columns together, in blocks if threads have too little other work."""
        *outer, last = self.free
        point, loops = self._open_axes(outer)
        extent, lane = self._count_points(last), Index("lane")
        width = self._choose_column_block(extent, prod(rounds for _, rounds in loops))
        if width == extent:
            point[last[-1]] = map_index(lane)
        else:
            chunk = Index("chunk")
            point[last[-1]] = split(chunk, width, lane)
            loops.append((chunk, extent // width))
        body: list[Statement] = [
            Loop(lane, width, self._compute_stages(point), LoopKind.VECTORIZED)
        ]
        return wrap_in_loops(body, loops, LoopKind.PARALLEL)

    def _choose_column_block(self, extent: int, rounds: int) -> int:
        """Return how many of the columns one thread reduces at a time."""
        if rounds >= MAX_SHARED_COLUMN_ROUNDS or prod(self.group.shape) <= CHUNK_ELEMENTS:
            return extent
        return next((n for n in COLUMN_BLOCK_SIZES if extent % n == 0 and extent > n), extent)

    def _transpose_in_blocks(self, node: Node) -> list[Statement]:
        """Transpose in blocks of features and channels that fit the caches."""
        shape = self.group.shape
        *kernel_size, channels, features = node.inputs[0].shape
        channel_axis, feature_axis = map(node.axes.index, (len(kernel_size), len(kernel_size) + 1))
        rest = [[axis] for axis in range(len(shape)) if axis not in (feature_axis, channel_axis)]
        point, loops = self._open_axes(rest)
        block, inner, across, lane = Index("block"), Index("i"), Index("across"), Index("lane")
        point[feature_axis] = split(block, CACHE_LINE_ELEMENTS, inner)
        point[channel_axis] = split(across, CACHE_LINE_ELEMENTS, lane)
        row = Loop(lane, CACHE_LINE_ELEMENTS, self._compute_stages(point), LoopKind.VECTORIZED)
        body = wrap_in_loops([Loop(inner, CACHE_LINE_ELEMENTS, [row])], loops)
        blocks = [(block, features // CACHE_LINE_ELEMENTS),
                  (across, channels // CACHE_LINE_ELEMENTS)]
        return wrap_in_loops(body, blocks, LoopKind.PARALLEL)

    # -------------------------------------------------------------------------------- body

    def _compute_stages(self, point: Sequence[Coordinate]) -> list[Statement]:
        """Build all stages of a row, or of an element if nothing is reduced."""
        body: list[Statement] = []
        for stage in range(self.stages.count):
            members = [n for n in self.nodes if self.stages.of.get(id(n)) == stage]
            reductions = [n for n in members if n.op is Op.REDUCE]
            sums = {id(node): Accumulator(node.fold, node.type, f"{node.fold.name.lower()}{k}")
                    for k, node in enumerate(reductions)}
            inside, loops = self._open_axes(self.folded, point)
            statements = self._compute_stage(members, sums, inside, loops)
            if not self.by_columns:
                statements = wrap_in_loops(statements, loops[-1:], LoopKind.VECTORIZED)
                loops = loops[:-1]
            body += [*map(Begin, sums.values()), *wrap_in_loops(statements, loops)]
            body += self._compute_row_numbers(point, sums, stage + 1)
        return body

    def _compute_stage(
        self, members: list[Node], sums: dict[int, Accumulator], point: list[Coordinate],
        loops: list[tuple[Index, int]],
    ) -> list[Statement]:
        """Build the body of one stage: what it computes at one element."""
        values, group, layout = self.values, self.group, self.layout
        at_hand = values.at_hand
        values.enter(point)
        column = _number_iterations(loops)
        at_hand |= {key: Load(buffer, column) for key, buffer in self.scratch.items()}
        body: list[Statement] = []
        deferred: list[Statement] = []
        for node in members:
            if node.op is Op.REDUCE:
                body.append(self._update(node, sums[id(node)], point))
            elif node.op is Op.SUM_PARTS:
                body += [values.add_to_part(node, place.memory, (), group.shape)
                         for place in layout.targets(node)]
            else:
                value = at_hand[id(node)] = values.compute(node)
                body += values.stores(layout.targets(node), value, (), deferred)
                if self._needs_scratch(node):
                    row = Buffer(node.type, "row", local=prod(n for _, n in loops))
                    self.scratch[id(node)] = row
                    body.append(Store(row, column, value))
        self._leave_stage(members)
        return body + deferred

    def _update(self, node: Node, total: Accumulator, point: list[Coordinate]) -> Update:
        """Fold the element at a point into a reduction."""
        position = None
        if node.fold in POSITION_REDUCTIONS:
            position = IndexValue(Affine(*point[node.axes[0]]))
        return Update(total, self.values.value(node.inputs[0]), position)

    def _leave_stage(self, members: list[Node]) -> None:
        """Drop the expressions of elements, which hold only inside the stage's loops. Rows' later
        stages load what this one stored."""
        for node in members:
            if self.values.at_hand.pop(id(node), None) and self.group.axes \
                    and self.layout.targets(node):
                self.stored.add(id(node))
        for key in self.scratch:
            self.values.at_hand.pop(key, None)

    def _needs_scratch(self, node: Node) -> bool:
        """Whether a later stage reads an expensive value that is not stored anyway."""
        if not self.folded or self.by_columns or self.layout.targets(node):
            return False
        if prod(map(self._count_points, self.folded)) > MAX_ROW_SCRATCH_ELEMENTS:
            return False
        costly = any(item.op is Op.APPLY and item.operation in EXPENSIVE_OPERATIONS
                     for item in iterate_fused_nodes(node, self.fusion.materialized))
        now = self.stages.of[id(node)]
        return costly and any(
            leaf is node
            for other in self.nodes if self.stages.of.get(id(other), 0) > now
            for leaf, _ in self.fusion.read(other)
        )

    def _compute_row_numbers(
        self, point: Sequence[Coordinate], sums: dict[int, Accumulator], stage: int
    ) -> list[Statement]:
        """Compute and store the per-row values that become known at a stage."""
        values = self.values
        body: list[Statement] = []
        deferred: list[Statement] = []
        values.enter(point)
        for node in self.nodes:
            if self.stages.known_from.get(id(node)) != stage:
                continue
            chain = reshape_chain(node, self.group.rows)
            number: Expression = (
                sums[id(node)] if node.op is Op.REDUCE else values.compute(node, chain)
            )
            values.at_hand[id(node)] = number
            body += values.stores(self.layout.targets(node), number, chain, deferred)
        return body + deferred


def _number_iterations(loops: list[tuple[Index, int]]) -> Affine:
    """Return the number of a loop nest's iteration, in execution order."""
    terms, step = [], 1
    for index, extent in reversed(loops):
        terms.append((index, step))
        step *= extent
    return Affine(0, tuple(terms))


def _name_kernel(group: FusionGroup) -> str:
    """Name a kernel after the first few operators that it computes."""
    origins = (node.origin.split(" ")[0] if node.origin else node.op.name.lower()
               for node in group.nodes)
    return "_".join(list(dict.fromkeys(origins))[:3]) or "kernel"
