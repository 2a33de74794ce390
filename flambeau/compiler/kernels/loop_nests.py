"""Kernels of pointwise operations and reductions: loops over a group's domain.

Reductions over rows run in stages. Each stage passes over the row once and reduces all values whose
inputs are known; the next stage uses the results (a maximum, a sum). The last axis is vectorized.
"""

from __future__ import annotations

from math import prod

from ...native.loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Expression, Index, Kernel, LoopKind, Load, Loop,
    IndexValue, Statement, Store, Update,
)
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    CACHE_LINE_ELEMENTS, CHUNK_ELEMENTS, COLUMN_BLOCK_ELEMENTS, MAX_ROW_SCRATCH_ELEMENTS,
)
from ...native.target.load_balance import TYPICAL_THREADS
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion, is_blocked_transpose
from ..fusion.fusion_group import (
    FusionGroup, fused_nodes, reshape_chain,
)
from ..fusion.materialization import EXPENSIVE_OPERATIONS
from ..fusion.placement import Place
from ..ir.any_length import serves_any_length
from ..ir.graph import Node, Op
from .expressions import FIXED, At, ExpressionBuilder, along
from .loop_axes import POSITION_REDUCTIONS, axes_extent, is_narrow, merge_axes
from .stages import assign_stages


def chunk_for(extent: int, count: int) -> int:
    """Return the elements per chunk: fewer if some of `count` threads would be idle."""
    chunk = CHUNK_ELEMENTS
    while count > TYPICAL_THREADS and chunk > CHUNK_ELEMENTS // 8 and extent < 4 * count * chunk:
        chunk //= 2
    return chunk


class LoopKernel:
    """Builder of one fusion group's kernel."""

    def __init__(self, group: FusionGroup, fusion: Fusion, layout: BufferAssignment) -> None:
        self.group, self.materialized, self.read = group, fusion.materialized, fusion.read
        self.fusion, self.layout = fusion, layout
        self.nodes = [node for node in group.nodes if id(node) not in layout.elsewhere]
        self.own = {id(node) for node in self.nodes}
        self.values = ExpressionBuilder(self._place)
        self.stages = assign_stages(group, self.nodes, fusion)
        self.done: set[int] = set()  # stored full-size values of earlier stages
        self.scratch: dict[int, Buffer] = {}
        self.at: list[At] = []
        self.columns = group.by_columns  # whether lanes run along axes that are not reduced
        self.chunk = chunk_for(prod(group.shape), threads())

    def _place(self, node: Node) -> Place | None:
        if id(node) not in self.materialized:
            return None
        if id(node) in self.own and id(node) not in self.done:
            return None
        return self.layout.place(node)

    def kernel(self) -> Kernel:
        """Build the kernel, with its buffers in the order of `values.memories`."""
        group = self.group
        merged_axes = merge_axes(group, self.nodes, self.fusion, self.layout)
        free = [b for b in merged_axes if b[-1] not in group.axes]
        folded = [b for b in merged_axes if b[-1] in group.axes]
        self.columns = group.by_columns or is_narrow(group, free, folded)
        if len(self.nodes) == 1 and is_blocked_transpose(self.nodes[0]):
            body = self._transpose_in_blocks()
        elif not group.axes:
            body = self._loop_over_elements(free)
        elif self.columns:
            body = self._loop_over_columns(free, folded)
        else:
            body = self._loop_over_rows(free, folded)
        buffers = [self.values.buffers[id(m)] for m in self.values.memories]
        return Kernel(_name_kernel(group), buffers, body)

    # ------------------------------------------------------------------------------- loops

    def _loop_over_elements(self, merged_axes: list[list[int]]) -> list[Statement]:
        shape = self.group.shape
        at = [FIXED] * len(shape)
        if not merged_axes:
            return self._compute_stages(at, [])
        outer, last = merged_axes[:-1], merged_axes[-1]
        indices = [self._open_axis(at, axes) for axes in outer]
        extent = axes_extent(shape, last)
        lane = Index("lane")
        if outer or extent <= self.chunk or serves_any_length():
            at[last[-1]] = along(lane)
            stages = self._compute_stages(at, [])
            is_long = not outer and serves_any_length()
            kind = LoopKind.PARALLEL if is_long else LoopKind.VECTORIZED
            body: list[Statement] = [Loop(lane, extent, stages, kind)]
            for index, axes in zip(reversed(indices), reversed(outer), strict=True):
                body = [Loop(index, axes_extent(shape, axes), body, LoopKind.PARALLEL)]
            return body
        return self._split_in_chunks(at, last[-1], extent)

    def _transpose_in_blocks(self) -> list[Statement]:
        """Transpose in blocks of features and channels that fit the caches."""
        shape = self.group.shape
        *_, j, i = self.nodes[0].inputs[0].shape  # the source's last axes: channels and features
        i_axis, j_axis = (self.nodes[0].axes.index(k) for k in (3, 2))
        at: list[At] = [FIXED] * len(shape)
        block, inner, across, lane = Index("block"), Index("i"), Index("across"), Index("lane")
        at[i_axis] = (0, ((block, CACHE_LINE_ELEMENTS), (inner, 1)))
        at[j_axis] = (0, ((across, CACHE_LINE_ELEMENTS), (lane, 1)))
        rest = [axis for axis in range(len(shape)) if axis not in (i_axis, j_axis)]
        indices = [self._open_axis(at, [axis]) for axis in rest]
        body: list[Statement] = [
            Loop(lane, CACHE_LINE_ELEMENTS, self._compute_stages(at, []), LoopKind.VECTORIZED)
        ]
        body = [Loop(inner, CACHE_LINE_ELEMENTS, body)]
        for index, axis in zip(reversed(indices), reversed(rest), strict=True):
            body = [Loop(index, shape[axis], body)]
        body = [Loop(across, j // CACHE_LINE_ELEMENTS, body, LoopKind.PARALLEL)]
        return [Loop(block, i // CACHE_LINE_ELEMENTS, body, LoopKind.PARALLEL)]

    def _split_in_chunks(self, at: list[At], axis: int, extent: int) -> list[Statement]:
        """Split a long axis into chunks that threads share, and a remainder."""
        chunk, lane = Index("chunk"), Index("lane")
        at[axis] = (0, ((chunk, self.chunk), (lane, 1)))
        inner = Loop(lane, self.chunk, self._compute_stages(at, []), LoopKind.VECTORIZED)
        body: list[Statement] = [Loop(chunk, extent // self.chunk, [inner], LoopKind.PARALLEL)]
        rest = extent % self.chunk
        if rest:
            lane = Index("lane")
            at[axis] = along(lane, 1, extent - rest)
            self._forget_values()
            body.append(Loop(lane, rest, self._compute_stages(at, []), LoopKind.VECTORIZED))
        return body

    def _forget_values(self) -> None:
        """Drop cached expressions, which hold for one position only."""
        self.values.at_hand = {}
        self.done = set()

    def _loop_over_rows(self, free: list[list[int]], folded: list[list[int]]) -> list[Statement]:
        at = [FIXED] * len(self.group.shape)
        indices = [self._open_axis(at, axes) for axes in free]
        body = self._compute_stages(at, folded)
        for index, axes in zip(reversed(indices), reversed(free), strict=True):
            body = [Loop(index, axes_extent(self.group.shape, axes), body, LoopKind.PARALLEL)]
        return body

    def _loop_over_columns(self, free: list[list[int]], folded: list[list[int]]) -> list[Statement]:
        shape = self.group.shape
        at = [FIXED] * len(shape)
        outer, last = free[:-1], free[-1]
        indices = [self._open_axis(at, axes) for axes in outer]
        extent = axes_extent(shape, last)
        rounds = prod(axes_extent(shape, axes) for axes in outer)
        lane, chunk = Index("lane"), Index("chunk")
        widths = (COLUMN_BLOCK_ELEMENTS, 32, 16)
        width = next((c for c in widths if extent % c == 0 and extent > c), 0)
        if width and rounds < 8 and prod(shape) > CHUNK_ELEMENTS:
            at[last[-1]] = (0, ((chunk, width), (lane, 1)))
            body: list[Statement] = [
                Loop(lane, width, self._compute_stages(at, folded), LoopKind.VECTORIZED)
            ]
            body = [Loop(chunk, extent // width, body, LoopKind.PARALLEL)]
        else:
            at[last[-1]] = along(lane)
            body = [Loop(lane, extent, self._compute_stages(at, folded), LoopKind.VECTORIZED)]
        for index, axes in zip(reversed(indices), reversed(outer), strict=True):
            body = [Loop(index, axes_extent(shape, axes), body, LoopKind.PARALLEL)]
        return body

    def _open_axis(self, at: list[At], axes: list[int]) -> Index:
        index = Index(f"i{axes[-1]}")
        at[axes[-1]] = along(index)
        return index

    # -------------------------------------------------------------------------------- body

    def _compute_stages(self, at: list[At], folded: list[list[int]]) -> list[Statement]:
        """Build all stages of a row, or of an element if nothing is reduced."""
        body: list[Statement] = []
        for stage in range(self.stages.count):
            inside = list(at)
            indices = [self._open_axis(inside, axes) for axes in folded]
            members = [n for n in self.nodes if self.stages.of.get(id(n)) == stage]
            sums = self._begin_sums([n for n in members if n.op is Op.REDUCE], body)
            loop = self._compute_stage(members, sums, inside, folded, indices)
            for k in range(len(folded) - 1, -1, -1):
                innermost = k == len(folded) - 1 and not self.columns
                kind = LoopKind.VECTORIZED if innermost else LoopKind.SERIAL
                loop = [Loop(indices[k], axes_extent(self.group.shape, folded[k]), loop, kind)]
            body += loop
            self._compute_row_numbers(at, sums, stage + 1, body)
        return body

    def _begin_sums(self, nodes: list[Node], body: list[Statement]) -> dict[int, Accumulator]:
        sums = {}
        for k, node in enumerate(nodes):
            sums[id(node)] = Accumulator(node.fold, node.type, f"{node.fold.name.lower()}{k}")
            body.append(Begin(sums[id(node)]))
        return sums

    def _compute_stage(
        self, members: list[Node], sums: dict[int, Accumulator], at: list[At],
        folded: list[list[int]], indices: list[Index],
    ) -> list[Statement]:
        """Build the body of one stage: what it computes at one element."""
        values = self.values
        body: list[Statement] = []
        deferred: list[Statement] = []
        values.enter(at)
        self._load_scratch(folded, indices)
        full = []
        for node in members:
            if node.op is Op.REDUCE:
                value = values.value(node.inputs[0])
                where = self._index_along(node, at) if node.fold in POSITION_REDUCTIONS else None
                body.append(Update(sums[id(node)], value, where))
                continue
            if node.op is Op.SUM_PARTS:
                body += [values.add_to_part(node, place.memory, (), self.group.shape)
                         for place in self.layout.targets(node)]
                continue
            value = values.at_hand[id(node)] = values.compute(node)
            full.append(node)
            body += values.stores(self.layout.targets(node), value, (), deferred)
            if self._needs_scratch(node, folded):
                extent = prod(axes_extent(self.group.shape, axes) for axes in folded)
                buffer = self.scratch[id(node)] = Buffer(node.type, "row", local=extent)
                body.append(Store(buffer, self._scratch_index(folded, indices), value))
        for node in full:
            if folded or self.group.axes:
                del values.at_hand[id(node)]
                if self.layout.targets(node):
                    self.done.add(id(node))
        for key in self.scratch:
            values.at_hand.pop(key, None)
        return body + deferred

    def _load_scratch(self, folded: list[list[int]], indices: list[Index]) -> None:
        """Load the values that earlier stages stored in scratch buffers."""
        for key, buffer in self.scratch.items():
            self.values.at_hand[key] = Load(buffer, self._scratch_index(folded, indices))

    def _scratch_index(self, folded: list[list[int]], indices: list[Index]) -> Affine:
        terms, step = [], 1
        for axes, index in zip(reversed(folded), reversed(indices), strict=True):
            terms.append((index, step))
            step *= axes_extent(self.group.shape, axes)
        return Affine(0, tuple(terms))

    def _needs_scratch(self, node: Node, folded: list[list[int]]) -> bool:
        """Whether a later stage reads an expensive value that is not stored anyway."""
        if not folded or self.columns or self.layout.targets(node):
            return False
        if prod(axes_extent(self.group.shape, axes) for axes in folded) > MAX_ROW_SCRATCH_ELEMENTS:
            return False
        costly = any(item.op is Op.APPLY and item.operation in EXPENSIVE_OPERATIONS
                     for item in fused_nodes(node, self.materialized))
        now = self.stages.of[id(node)]
        return costly and any(
            leaf is node
            for other in self.nodes if self.stages.of.get(id(other), 0) > now
            for leaf, _ in self.read(other)
        )

    def _compute_row_numbers(
        self, at: list[At], sums: dict[int, Accumulator], stage: int, body: list[Statement]
    ) -> None:
        """Compute and store the per-row values that become known at a stage."""
        values = self.values
        deferred: list[Statement] = []
        values.enter(at)
        for node in self.nodes:
            if self.stages.known_from.get(id(node)) != stage:
                continue
            chain = reshape_chain(node, self.group.rows)
            number: Expression = (
                sums[id(node)] if node.op is Op.REDUCE else values.compute(node, chain)
            )
            values.at_hand[id(node)] = number
            body += values.stores(self.layout.targets(node), number, chain, deferred)
        body += deferred

    def _index_along(self, node: Node, at: list[At]) -> Expression:
        base, steps = at[node.axes[0]]
        return IndexValue(Affine(base, tuple(steps)))


def _name_kernel(group: FusionGroup) -> str:
    names = []
    for node in group.nodes:
        name = node.origin.split(" ")[0] if node.origin else node.op.name.lower()
        if name not in names:
            names.append(name)
    return "_".join(names[:3]) or "kernel"
