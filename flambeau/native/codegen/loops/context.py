"""The state of code generation for one kernel.

`Context` holds the builder, arguments and threads of a kernel; `Scope` describes one point in its
loops: index values, vector lanes and memoized values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Affine, Buffer, Expression, Extent, Index, Kernel, Load, Size, get_operands,
    iterate_postorder,
)
from ...target.machine import Target
from ..llvm.builder import I64, Builder, lane_numbers
from .reductions import ReductionState
from .stream_prefetch import find_streams
from .vectorization import VectorizationPlan

Bindings = Mapping[Index, ir.Value]


@dataclass
class Scope:
    """One point in the loop nest.

    `bindings` maps indices to i64 values, outermost loops first; for `lane`, the vectorized index,
    it is the value of the first lane. `mask` has the lanes that are iterations of the loop (None:
    all). `memo` caches values computed so far.
    """

    bindings: dict[Index, ir.Value] = field(default_factory=dict)
    lane: Index | None = None
    lanes: int = 1
    mask: ir.Value | None = None
    memo: dict = field(default_factory=dict)

    def inside(self, bindings: Bindings) -> Scope:
        """A nested scope in which more indices have values."""
        known = {**self.bindings, **bindings}
        return Scope(known, self.lane, self.lanes, self.mask, dict(self.memo))

    def across(self, lane: Index, start: ir.Value, lanes: int, mask: ir.Value | None) -> Scope:
        """A nested scope vectorized over lanes of an index."""
        known = {**self.bindings, lane: start}
        if lanes == 1:
            return Scope(known, None, 1, mask, dict(self.memo))
        return Scope(known, lane, lanes, mask, dict(self.memo))


@dataclass
class PendingSum:
    """A partial sum in registers and the memory that it will be added to."""

    buffer: Buffer
    scope: Scope
    where: tuple[ir.Value, object]
    total: ir.Value


class Context:
    """The code generation state of one kernel.

    `pointers` are the addresses of buffers, local ones included; `sizes` the i64 values of run-time
    sizes; `tid` and `threads` i64. `scope` is the current point in the loops.
    """

    def __init__(
        self, kernel: Kernel, target: Target, builder: Builder, plan: VectorizationPlan
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.builder = builder
        self.plan = plan
        self.streams = find_streams(kernel.body, plan.widths)
        self.pointers: dict[Buffer, ir.Value] = {}
        self.sizes: dict[Size, ir.Value] = {}
        self.tid: ir.Value = builder.integer(0)
        self.threads: ir.Value = builder.integer(1)
        self.scope = Scope()
        self.pending_sums: dict[tuple, PendingSum] | None = None  # sums of a tile's rows, by place
        self.parallel = False  # within a PARALLEL loop: no work is left to split
        self.sum: Accumulator | None = None  # the one of the Contract being emitted
        self.accumulators: dict[Accumulator, ReductionState | ir.Value] = {}
        # long sums that a loop around is making
        self.active_reductions: set[ReductionState] = set()
        self.versions: dict[Buffer | Accumulator, int] = {}
        self._changing: dict[Expression, tuple[Buffer | Accumulator, ...]] = {}

    # ----------------------------------------------------------- for tiled kernels

    @property
    def bindings(self) -> dict[Index, ir.Value]:
        """The values of the enclosing loops' indices."""
        return self.scope.bindings

    def extent(self, extent: Extent | Affine) -> ir.Value:
        """Return an extent or stride as an i64."""
        if isinstance(extent, Affine):
            total = self.builder.integer(extent.base)
            for index, stride in extent.terms:
                total = self.builder.add(total, self.scale(self.bindings[index], stride))
            return total
        return self.builder.integer(extent) if isinstance(extent, int) else self.sizes[extent]

    def address(self, buffer: Buffer, at: Affine, bindings: Bindings) -> ir.Value:
        """Return an element's address; `bindings` adds to the indices of the enclosing loops."""
        return self.pointer(buffer, at, self.scope.inside(bindings))

    def tile_scope(
        self, bindings: Bindings, column: tuple[Index, ir.Value] | None, lanes: int,
        mask: ir.Value | None,
    ) -> Scope:
        scope = self.scope.inside(bindings)
        return scope if column is None else scope.across(*column, lanes, mask)

    # ----------------------------------------------------------------- what changes

    def dependencies(self, expression: Expression) -> tuple[Buffer | Accumulator, ...]:
        """The accumulators and written buffers that an expression's value depends on."""
        for current in iterate_postorder([expression], self._changing):
            dependencies: dict[Buffer | Accumulator, None] = {}
            if isinstance(current, Accumulator):
                dependencies[current] = None
            elif isinstance(current, Load) and current.buffer in self.versions:
                dependencies[current.buffer] = None
            for operand in get_operands(current):
                dependencies.update(dict.fromkeys(self._changing[operand]))
            self._changing[current] = tuple(dependencies)
        return self._changing[expression]

    def key(self, expression: Expression) -> object:
        """The memo key of an expression's current value: it includes the version of each
        dependency.
        """
        changing = self._changing.get(expression)
        if changing is None:
            changing = self.dependencies(expression)
        if not changing:
            return expression
        return (expression, *[self.versions.get(dependency, 0) for dependency in changing])

    def invalidate(self, targets: Sequence[Buffer | Accumulator]) -> None:
        """Mark buffers or accumulators as changed, so that values computed from them are
        recomputed.
        """
        for dependency in targets:
            self.versions[dependency] = self.versions.get(dependency, 0) + 1
            if isinstance(dependency, Buffer) and dependency.aliased:
                for other in self.pointers:
                    if other.aliased and other in self.versions:
                        self.versions[other] += 1

    # -------------------------------------------------------------------- addresses

    def scale(self, index: ir.Value, stride: Extent) -> ir.Value:
        """Return index * stride."""
        if isinstance(stride, int) and stride == 1:
            return index
        return self.builder.mul(index, self.extent(stride), flags=("nsw",))

    def pointer(self, buffer: Buffer, at: Affine, scope: Scope) -> ir.Value:
        """The address of an element (of the first lane), outermost index first.

        Partial sums that neighboring addresses share are computed once.
        """
        terms = list(at.terms)
        if len(terms) > 1:
            depth = {index: i for i, index in enumerate(scope.bindings)}
            terms.sort(key=lambda term: depth[term[0]])
        pointer, key = self.pointers[buffer], (buffer, *terms)
        inbounds = at.base >= 0 and all(isinstance(s, int) and s >= 0 for _, s in terms)
        for count in range(1, len(terms) + 1):
            address = scope.memo.get(key[: count + 1])
            if address is None:
                index, stride = terms[count - 1]
                step = self.scale(scope.bindings[index], stride)
                address = self.builder.offset_elements(pointer, step, buffer.type, inbounds)
                scope.memo[key[: count + 1]] = address
            pointer = address
        if at.base:
            base = self.builder.integer(at.base)
            pointer = self.builder.offset_elements(pointer, base, buffer.type, inbounds)
        return pointer

    def prefix(self, buffer: Buffer, at: Affine, scope: Scope) -> None:
        """Precomputes the part of an address that depends only on indices bound so far."""
        known = tuple(term for term in at.terms if term[0] in scope.bindings)
        if known:
            self.pointer(buffer, Affine(min(at.base, 0), known), scope)

    def lane_offsets(self, stride: Extent, lanes: int) -> ir.Value:
        """Return <0, stride, 2 * stride, ...> as i64."""
        if isinstance(stride, int):
            return lane_numbers(lanes, I64, stride)
        return self.builder.mul(lane_numbers(lanes), self.builder.splat(self.sizes[stride], lanes))
