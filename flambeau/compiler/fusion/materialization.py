"""Materialization: which values of a graph are stored in memory, and which are recomputed.

A value is stored if a reader cannot recompute it, or only at too high a cost. All such decisions
are made here: `_choose` applies the rules before nodes are grouped, `refine` those that depend on
the groups. If a reader needs a copy of an input, passes/contiguous_inputs.py has inserted a node
for it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...native.loop_ir.ir import Scalar
from ...native.target.graph_costs import EXPENSIVE_OPERATION, MAX_RECOMPUTE_OPERATIONS
from ..ir.graph import CONTRACTIONS, Graph, Node, Op
from ..ir.strided_view import StridedView, find_strided_values, make_contiguous_view
from .fusion_group import (
    FOLDS, INLINE, MOVEMENTS, Chain, apply_movement, find_leaves, view_through,
)
from .materialize_transposed import find_transposed_operands
from .materialize_weights import find_shared_weights
from .rematerialize import find_narrower_values

if TYPE_CHECKING:
    from .fusion import Fusion

EXPENSIVE_OPERATIONS = frozenset(
    Scalar[name] for name in (
        "POW ATAN2 EXP EXP2 EXPM1 LOG LOG2 LOG10 LOG1P SIN COS TAN ASIN ACOS ATAN SINH COSH TANH "
        "ASINH ACOSH ATANH ERF ERFC DIV SQRT REM"
    ).split()
)


class Materialization:
    """The stored nodes of a graph, by id."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.nodes = graph, graph.nodes()
        self._strided = find_strided_values(graph)
        self.values: dict[int, Node] = {}
        self._choose()

    def _choose(self) -> None:
        """Choose the nodes to store: results of kernels that nothing fuses with, outputs, shared
        values, operands in another memory order, and arrays that kernels read whole.
        """
        for node in self.nodes:
            if node.op not in INLINE:
                self.values[id(node)] = node
        for node in self.graph.roots():
            self.values[id(node)] = node
        self._materialize_shared()
        self.values.update((id(node), node) for node in find_shared_weights(self.nodes))
        self.values.update(
            [(id(item), item) for item in find_transposed_operands(self.nodes, self.values)]
        )
        for node in self.nodes:
            for operand in _list_whole_array_inputs(node):
                # a convolution pads its image while packing it
                bordered = node.op in (Op.CONV, Op.CONV_WEIGHT) and operand is node.inputs[0]
                self._materialize_operand(operand, bordered)
        self._make_reachable()

    def refine(self, fusion: Fusion) -> bool:
        """Store values that replace several wider ones, once groups exist; True if any."""
        narrower = list(find_narrower_values(fusion))
        self.values.update((id(node), node) for node in narrower)
        if narrower:
            self._make_reachable()
        return bool(narrower)

    def _make_reachable(self) -> None:
        """Store the values below movements that strides cannot express."""
        for node in self.nodes:
            if id(node) in self.values:
                self._materialize_unreachable(node)

    def _materialize_shared(self) -> None:
        """Store operations that several nodes read, unless recomputing them is cheap."""
        uses: dict[int, set[int]] = {}
        for node in reversed(self.nodes):
            moved = node.op in MOVEMENTS and id(node) not in self.values
            through = uses.get(id(node), set()) if moved else {id(node)}
            for operand in node.inputs:
                uses.setdefault(id(operand), set()).update(through)
        cost: dict[int, float] = {}
        folded: dict[int, bool] = {}  # whether a node is computed from a reduction
        for node in self.nodes:
            folded[id(node)] = node.op is Op.REDUCE or (
                node.op in INLINE and any(folded[id(item)] for item in node.inputs)
            )
            cost[id(node)] = self._recompute_cost(node, cost, folded[id(node)], uses)
            shared = len(uses.get(id(node), ())) > 1
            if (
                shared
                and node.op in (Op.APPLY, Op.TAKE, Op.TAKE_ALONG)
                and cost[id(node)] > MAX_RECOMPUTE_OPERATIONS
            ):
                self.values[id(node)] = node
                cost[id(node)] = 0

    def _recompute_cost(
        self, node: Node, cost: dict[int, float], folded: bool, uses: dict[int, set[int]]
    ) -> float:
        """The cost of recomputing a node, in operations per element."""
        if id(node) in self.values or not node.inputs:
            return 0
        size = max(prod(node.shape), 1)
        # A broadcast operand is computed once for many elements.
        below = sum(
            cost[id(operand)] * min(1, prod(operand.shape) / size) for operand in node.inputs
        )
        if node.op in MOVEMENTS:
            return below
        full = [operand for operand in node.inputs if prod(operand.shape) == prod(node.shape)]
        is_expensive = node.op is not Op.APPLY or node.operation in EXPENSIVE_OPERATIONS
        operations = EXPENSIVE_OPERATION if is_expensive else 1
        if not folded and any(self._has_one_reader(_skip_movements(item), uses) for item in full):
            operations += MAX_RECOMPUTE_OPERATIONS  # cheaper once, in the epilogue
        return operations + below + (len(full) > 1)

    @staticmethod
    def _has_one_reader(node: Node, uses: dict[int, set[int]]) -> bool:
        """Whether a node is a contraction with one reader, so that its sums need not be stored."""
        return node.op in CONTRACTIONS and len(uses.get(id(node), ())) == 1

    def _materialize_operand(self, node: Node, bordered: bool = False) -> None:
        """Store the value below a chain of movements, or the end of the chain if strides fail.

        `bordered`: the reader accepts a view with zero padding.
        """
        chain: list[Node] = []
        source = node
        while source.op in MOVEMENTS and id(source) not in self.values:
            chain.insert(0, source)
            source = source.inputs[0]
        axis = self.find_inexpressible(source, tuple(chain))
        while axis is not None and axis not in chain[:1]:
            if prod(axis.inputs[0].shape) > prod(node.shape):
                break
            chain = chain[chain.index(axis) :]  # strides describe the rest
            source = axis.inputs[0]
            axis = self.find_inexpressible(source, tuple(chain))
        window = view_through(self._view_memory(source), tuple(chain))
        usable = window is not None and (bordered or window.whole) and source.op is not Op.CONSTANT
        last = source if usable else node
        self.values[id(last)] = last

    def _materialize_unreachable(self, node: Node) -> None:
        """Store the values below movements that strides cannot express."""
        while True:
            for leaf, chain in find_leaves(node, self.values):
                axis = self.find_inexpressible(leaf, chain)
                if axis is not None:
                    broken = axis.inputs[0]
                    self.values[id(broken)] = broken
                    self._materialize_unreachable(broken)
                    break
            else:
                return

    def _view_memory(self, node: Node) -> StridedView:
        """The memory layout of a materialized value."""
        return self._strided.get(id(node)) or make_contiguous_view(node.shape)

    def find_inexpressible(self, leaf: Node, chain: Chain) -> Node | None:
        """Return the first movement of a chain that strides cannot express, or None."""
        window = self._view_memory(leaf)
        for node in chain:
            after = apply_movement(window, node)
            if after is None:
                return node
            window = after
        return None


def _skip_movements(node: Node) -> Node:
    while node.op in MOVEMENTS:
        node = node.inputs[0]
    return node


def _list_whole_array_inputs(node: Node) -> list[Node]:
    """The inputs that a node needs as whole arrays."""
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return [node.inputs[0]]
    if node.op in INLINE or node.op in FOLDS:
        return []
    return list(node.inputs)
