"""Kernels of matrix products and convolutions, with the group's other nodes as epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from ...native.loop_ir.ir import (
    Accumulator, Axis, Contract, ReduceOp, Index, Kernel, LoopKind, Load, Loop, Statement,
)
from ...native.runtime.thread_pool import threads
from ...native.target.load_balance import TYPICAL_THREADS
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion
from ..fusion.fusion_group import (
    FusionGroup, get_element, reshape_chain, broadcast_chain, view_through,
)
from ..fusion.placement import Allocation, Place
from ..ir.graph import Node, Op
from ..ir.strided_view import StridedView
from .depthwise import emit_convolution, emit_weight_gradient, is_depthwise
from .expressions import ExpressionBuilder
from .index_maps import FIXED, Coordinate, map_index, split, wrap_in_loops


def get_planned_threads() -> int:
    """The number of threads that contractions are split for."""
    return 2 if threads() <= TYPICAL_THREADS else threads()


class ContractionKernel:
    """Build the kernel of a group around a contraction."""

    def __init__(self, group: FusionGroup, fusion: Fusion, layout: BufferAssignment) -> None:
        self.group, self.materialized, self.layout = group, fusion.materialized, layout
        assert group.contraction is not None
        self.node: Node = group.contraction
        self.own = {id(node) for node in group.nodes}
        self.values = ExpressionBuilder(self._place)

    def _place(self, node: Node) -> Place | None:
        if id(node) not in self.materialized or id(node) in self.own:
            return None
        return self.layout.place(node)

    def kernel(self) -> Kernel:
        """Build the kernel, with its buffers in the order of `values.memories`."""
        rules = {
            Op.MATMUL: self._emit_matmul, Op.CONV: self._emit_conv,
            Op.CONV_WEIGHT: self._emit_conv_weight
        }
        body = rules[self.node.op]()
        buffers = [self.values.buffers[id(m)] for m in self.values.memories]
        return Kernel(self.node.op.name.lower(), buffers, body)

    def operand(self, node: Node) -> tuple[Allocation, StridedView]:
        """The memory of an operand, and the view of it that has the operand's shape."""
        chain: list[Node] = []
        while self._place(node) is None:
            chain.insert(0, node)
            node = node.inputs[0]
        place = self._place(node)
        assert place is not None
        window = view_through(place.window, tuple(chain))
        assert window is not None, self.node
        return place.memory, window

    def load(self, operand: tuple[Allocation, StridedView], point: Sequence[Coordinate]) -> Load:
        """Load an operand's element."""
        memory, window = operand
        self.values.enter(point)
        mask = self.values.mask(window)  # the padding of a convolution's image
        return Load(self.values.buffer(memory), self.values.affine(window, point), mask=mask)

    def epilogue(self, total: Accumulator, point: Sequence[Coordinate]) -> list[Statement]:
        """Build the statements that use one element of the product: the epilogue and its stores."""
        values = self.values
        body: list[Statement] = []
        deferred: list[Statement] = []
        values.enter(point)
        values.at_hand[id(self.node)] = total
        for node in self.group.nodes:
            chain = reshape_chain(get_element(node), self.group.shape)
            if node.op is Op.SUM_PARTS:
                body += [values.add_to_part(node, place.memory, chain, self.group.shape)
                         for place in self.layout.targets(node)]
                continue
            if node is not self.node:
                values.at_hand[id(node)] = values.compute(node, chain)
            value = values.at_hand[id(node)]
            body += values.stores(self.layout.targets(node), value, chain, deferred)
        return body + deferred

    def _create_sum(self) -> Accumulator:
        return Accumulator(ReduceOp.SUM, self.node.type)

    def _emit_matmul(self) -> list[Statement]:
        a, b = self.node.inputs
        *batch, rows, columns = self.node.shape
        depth = a.shape[-1]
        m, n, k = Index("m"), Index("n"), Index("k")
        indices = [Index(f"batch{i}") for i in range(len(batch))]
        outer: list[Coordinate] = [map_index(i) if e != 1 else FIXED
                           for i, e in zip(indices, batch, strict=True)]
        left = self._broadcast_operand(a, (*batch, rows, depth))
        right = self._broadcast_operand(b, (*batch, depth, columns))
        total = self._create_sum()
        first = self.load(left, [*outer, map_index(m), map_index(k)])
        second = self.load(right, [*outer, map_index(k), map_index(n)])
        body = self.epilogue(total, [*outer, map_index(m), map_index(n)])
        product = Contract(
            (Axis(m, rows),), Axis(n, columns), (Axis(k, depth),), first, second, total, body,
            self.node.precision, shares=get_planned_threads(),
        )
        loops = [(i, e) for i, e in zip(indices, batch, strict=True) if e != 1]
        return wrap_in_loops([product], loops, LoopKind.PARALLEL)

    def _broadcast_operand(
        self, node: Node, shape: tuple[int, ...]
    ) -> tuple[Allocation, StridedView]:
        memory, window = self.operand(node)
        moved = view_through(window, broadcast_chain(node, shape, ()))
        assert moved is not None
        return memory, moved

    def _emit_conv(self) -> list[Statement]:
        x, w = (self.operand(operand) for operand in self.node.inputs)
        height, width, channels, _ = self.node.inputs[1].shape
        images, rows, columns, features = self.node.shape
        if is_depthwise(self.node, channels):
            return emit_convolution(self.node, x, w, self.load, self.epilogue)
        groups = self.node.groups
        n, h, c, k = Index("n"), Index("h"), Index("c"), Index("k")
        v, i, j, g = Index("w"), Index("kh"), Index("kw"), Index("g")
        (sh, sw), (dh, dw) = self.node.stride, self.node.dilation
        feature: Coordinate = split(g, features // groups, k) if groups > 1 else map_index(k)
        channel: Coordinate = split(g, channels, c) if groups > 1 else map_index(c)
        total = self._create_sum()
        down, right = (0, ((h, sh), (i, dh))), (0, ((v, sw), (j, dw)))
        a = self.load(x, [map_index(n), down, right, channel])
        b = self.load(w, [map_index(i), map_index(j), map_index(c), feature])
        body = self.epilogue(total, [map_index(n), map_index(h), map_index(v), feature])
        contract = Contract(
            (Axis(n, images), Axis(h, rows), Axis(v, columns)), Axis(k, features // groups),
            (Axis(i, height), Axis(j, width), Axis(c, channels)), a, b, total, body,
            shares=get_planned_threads(),
        )
        return [Loop(g, groups, [contract], LoopKind.PARALLEL)] if groups > 1 else [contract]

    def _emit_conv_weight(self) -> list[Statement]:
        x, y = (self.operand(operand) for operand in self.node.inputs)
        images, rows, columns, features = self.node.inputs[1].shape
        height, width, channels, _ = self.node.shape
        if is_depthwise(self.node, channels):
            return emit_weight_gradient(self.node, x, y, self.load, self.epilogue)
        groups, parts = self.node.groups, self.node.attributes.get("parts", 1)
        n, h, c, k = Index("n"), Index("h"), Index("c"), Index("k")
        v, i, j, g = Index("w"), Index("kh"), Index("kw"), Index("g")
        (sh, sw), (dh, dw) = self.node.stride, self.node.dilation
        feature: Coordinate = split(g, features // groups, k) if groups > 1 else map_index(k)
        channel: Coordinate = split(g, channels, c) if groups > 1 else map_index(c)
        image = map_index(n)
        if parts > 1:  # loop over parts, as over groups
            image, images = split(g, images // parts, n), images // parts
        result: Coordinate = split(g, features // groups, k) if groups * parts > 1 else feature
        total = self._create_sum()
        down, right = (0, ((h, sh), (i, dh))), (0, ((v, sw), (j, dw)))
        a = self.load(x, [image, down, right, channel])
        b = self.load(y, [image, map_index(h), map_index(v), feature])
        body = self.epilogue(total, [map_index(i), map_index(j), map_index(c), result])
        contract = Contract(
            (Axis(i, height), Axis(j, width), Axis(c, channels)), Axis(k, features // groups),
            (Axis(n, images), Axis(h, rows), Axis(v, columns)), a, b, total, body,
            shares=get_planned_threads(),
        )
        reductions = groups * parts
        if reductions == 1:
            return [contract]
        return [Loop(g, reductions, [contract], LoopKind.PARALLEL)]
