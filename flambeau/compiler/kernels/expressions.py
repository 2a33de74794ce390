"""ExpressionBuilder: a kernel's expressions, built from nodes seen through movement chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...native.loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, ReduceOp, Index, Load,
    IndexValue, Scalar, Statement, Store, Type,
)
from ..fusion.fusion_group import (
    MOVEMENTS, Chain, index_chain, view_partial_sums, broadcast_chain, view_table, view_through,
)
from ..fusion.placement import Home, Allocation, Place
from ..ir.graph import Node, Op, Shape
from ..ir.strided_view import StridedView, make_contiguous_view
from .index_maps import Coordinate, map_to_source


class ExpressionBuilder:
    """Expressions at one point of a kernel's domain; buffers are added as they are first used."""

    def __init__(self, places: Callable[[Node], Place | None]) -> None:
        self.places = places
        self.buffers: dict[int, Buffer] = {}
        self.memories: list[Allocation] = []
        self.at_hand: dict[int, Expression] = {}  # expressions of computed values, by node
        self.own: set[int] = set()  # nodes of this kernel that were stored and may be read back
        self.point: Sequence[Coordinate] = ()
        self._known: dict[tuple[int, tuple[int, ...]], Expression] = {}

    def enter(self, point: Sequence[Coordinate]) -> None:
        """Build the following values at this point."""
        self.point = point
        self._known = {}

    def buffer(self, memory: Allocation) -> Buffer:
        """The kernel's buffer for an allocation, created on first use."""
        known = self.buffers.get(id(memory))
        if known is None:
            known = self.buffers[id(memory)] = Buffer(memory.type, f"b{len(self.memories)}")
            self.memories.append(memory)
        return known

    def affine(self, window: StridedView, point: Sequence[Coordinate] | None = None) -> Affine:
        """The memory position of a point, through a view of the domain's shape."""
        base = window.offset
        terms: dict[int, list] = {}
        for stride, (start, steps) in zip(
            window.strides, self.point if point is None else point, strict=True
        ):
            base += stride * start
            for index, step in steps:
                if stride * step:
                    entry = terms.setdefault(id(index), [index, 0])
                    entry[1] += stride * step
        pairs: tuple[tuple[Index, Extent], ...] = tuple((i, s) for i, s in terms.values() if s)
        return Affine(base, pairs)

    def load(self, place: Place, chain: Chain) -> Expression:
        """Load a value from memory, through a chain."""
        window = view_through(place.window, chain)
        assert window is not None, (place, chain)
        load = Load(self.buffer(place.memory), self.affine(window), (), self.mask(window))
        return load

    def mask(self, window: StridedView) -> Expression | None:
        """Whether the point lies in a view's valid region; None if nothing is masked."""
        result: Expression | None = None
        if window.valid is None:
            return None
        for (low, high), n, (base, steps) in zip(
            window.valid, window.shape, self.point, strict=True
        ):
            position = self._read_index(base, steps)
            if low > 0:
                result = _and_compare(result, position, Scalar.GE, low)
            if high < n:
                result = _and_compare(result, position, Scalar.LT, high)
        return result

    def _read_index(self, base: int, steps: tuple[tuple[Index, int], ...]) -> Expression:
        return IndexValue(Affine(base, tuple(steps)))

    # ------------------------------------------------------------------------------ nodes

    def value(self, node: Node, chain: Chain = ()) -> Expression:
        """A node's element at the point, seen through a chain."""
        stored = self.at_hand.get(id(node))
        if stored is not None:
            return stored
        key = (id(node), tuple(map(id, chain)))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._load_or_compute(node, chain)
        return known

    def _load_or_compute(self, node: Node, chain: Chain) -> Expression:
        if node.op in (Op.CONSTANT, Op.IOTA):
            return self.compute(node, chain)
        place = self.places(node)
        if place is not None:
            return self.load(place, chain)
        return self.compute(node, chain)

    def compute(self, node: Node, chain: Chain = ()) -> Expression:
        """Compute a node's element from its inputs, even if the node is materialized."""
        if node.op is Op.CONSTANT:
            return Constant(node.type, node.value)
        if node.op is Op.IOTA:
            return self._build_iota(node, chain)
        if node.op in MOVEMENTS:
            inner = self.value(node.inputs[0], (node, *chain))
            return self._mask_padding(node, chain, inner) if node.op is Op.PAD else inner
        if node.op is Op.APPLY:
            inputs = tuple(
                self.value(operand, broadcast_chain(operand, node.shape, chain))
                for operand in node.inputs
            )
            return Apply(node.operation, inputs, node.type)
        assert node.op in (Op.TAKE, Op.TAKE_ALONG), node
        return self._load_from_table(node, chain)

    def _mask_padding(self, node: Node, chain: Chain, inner: Expression) -> Expression:
        window = view_through(
            make_contiguous_view(node.inputs[0].shape).pad(node.low, node.high), chain
        )
        if window is None:  # of constants, which no strides need to reach
            _, mask = map_to_source(self.point, (node, *chain))
        else:
            mask = self.mask(window)
        if mask is None or (isinstance(inner, Load) and inner.mask is not None):
            return inner
        return Apply(Scalar.WHERE, (mask, inner, Constant(node.type, 0)), node.type)

    def _build_iota(self, node: Node, chain: Chain) -> Expression:
        strides = tuple(1 if i == node.axis else 0 for i in range(len(node.shape)))
        window = view_through(StridedView(node.shape, strides), chain)
        if window is None:
            result, inside = map_to_source(self.point, chain)
            if inside is None:
                return result[node.axis]
            return Apply(Scalar.WHERE, (inside, result[node.axis], Constant(Type.I64, 0)), Type.I64)
        position: Expression = IndexValue(self.affine(window))
        mask = self.mask(window)
        if mask is None:
            return position
        return Apply(Scalar.WHERE, (mask, position, Constant(Type.I64, 0)), Type.I64)

    def _load_from_table(self, node: Node, chain: Chain) -> Expression:
        table, index = node.inputs
        movements: list[Node] = []
        while (place := self.places(table)) is None:
            movements.insert(0, table)
            table = table.inputs[0]
        on_table = view_through(place.window, tuple(movements))
        assert on_table is not None, node
        window, stride = view_table(node, on_table)
        moved = view_through(window, chain)
        assert moved is not None, (node, chain)
        position = self.value(index, index_chain(node, chain))
        if position.type is not Type.I64:
            position = Apply(Scalar.CAST, (position,), Type.I64)
        buffer = self.buffer(place.memory)
        return Load(buffer, self.affine(moved), ((position, stride),), self.mask(moved))

    # ----------------------------------------------------------------------------- stores

    def stores(
        self, places: Sequence[Place], value: Expression, chain: Chain, deferred: list[Statement]
    ) -> list[Statement]:
        """Store a value in each place. The old value of a source may still be read at this point,
        so the new one is kept in a register and stored in `deferred`.
        """
        result: list[Statement] = []
        for place in places:
            if place.memory.home is not Home.SOURCE:
                result.append(self.store(place, value, chain))
                continue
            first: Expression = value
            if value.type in (Type.F16, Type.BF16):
                first = Apply(Scalar.CAST, (value,), Type.F32)
            fold = ReduceOp.ANY if value.type is Type.BOOL else ReduceOp.SUM
            new = Accumulator(fold, first.type, "new")
            result.append(Begin(new, first))
            same = first.type is value.type
            fixed = new if same else Apply(Scalar.CAST, (new,), value.type)
            deferred.append(self.store(place, fixed, chain))
        return result

    def store(self, place: Place, value: Expression, chain: Chain = ()) -> Statement:
        """Store a value in a place; `chain` leads from the value's shape to the domain's."""
        window = view_through(place.window, chain)
        assert window is not None, (place, chain)
        return Store(self.buffer(place.memory), self.affine(window), value)

    def add_to_part(self, node: Node, memory: Allocation, chain: Chain, shape: Shape) -> Statement:
        """Add the point's value to this thread's part of a SUM_PARTS; `chain` leads from the shape
        of the addend to the domain's, `shape`.
        """
        window = view_partial_sums(node, shape)
        assert window is not None, node
        rows = node.shape[0]
        buffer = self.buffer(memory)
        buffer.parts = (rows, memory.elements // rows)
        return Store(buffer, self.affine(window), self.value(node.inputs[0], chain), add=True)


def _and_compare(result: Expression | None, a: Expression, test: Scalar, limit: int) -> Expression:
    new = Apply(test, (a, Constant(Type.I64, limit)), Type.BOOL)
    return new if result is None else Apply(Scalar.AND, (result, new), Type.BOOL)
