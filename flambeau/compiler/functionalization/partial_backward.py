"""Partial backward: the part of a backward graph for some of the outputs' cotangents.

A backward pass from some outputs only must not run with zeros for the others: 0 times an infinite
value is NaN, and inputs that no given output depends on get no gradient at all. Backward is linear
in the cotangents, so what depends on absent ones only is absent too. Each part is derived and
built when a pass first needs it, which costs as much as building a backward program does.
"""

from __future__ import annotations

from ...native.loop_ir.ir import Scalar
from ..ir.graph import (
    Graph, Node, Op, apply, constant, expand, is_operation, rewrite, with_inputs,
)
from ..trace.bindings import BackwardBindings, BackwardPart, Cotangent

def select_cotangents(whole: BackwardBindings, outputs: int) -> BackwardPart:
    """Return the part for a bit mask of outputs."""
    reached = 0
    for k, mask in enumerate(whole.reached):
        if outputs >> k & 1:
            reached |= mask
    numbers = [i for i in range(len(whole.inputs)) if reached >> i & 1]
    selection = _Selection(whole, outputs)
    roots = [selection.present(whole.graph.outputs[i]) for i in numbers]
    graph = Graph(whole.graph.sources, whole.graph.inputs, roots, [])
    slots = sorted(node.slot for node in graph.nodes() if node.op is Op.INPUT)
    return BackwardPart(_renumber(graph, slots), slots, numbers)


def _renumber(graph: Graph, slots: list[int]) -> Graph:
    """Return the graph with only the sources at `slots`."""
    new = {slot: i for i, slot in enumerate(slots)}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is not Op.INPUT:
            return with_inputs(node, inputs)
        return Node(Op.INPUT, (), node.shape, node.type,
                    {**node.attributes, "slot": new[node.slot]}, node.origin)

    graph = rewrite(graph, rule)
    inputs = sorted((n for n in graph.nodes() if n.op is Op.INPUT), key=lambda node: node.slot)
    graph.sources, graph.inputs = [graph.sources[slot] for slot in slots], inputs
    return graph


class _Selection:
    """A backward graph without the cotangents of some outputs: new nodes, None where absent."""

    def __init__(self, whole: BackwardBindings, outputs: int) -> None:
        self.dependent: set[Node] = set()  # on any cotangent
        self.new: dict[Node, Node | None] = {}
        self.zeros: dict[Node, Node] = {}
        for node in whole.graph.nodes():
            slot = whole.slots[node.slot] if node.op is Op.INPUT else None
            if isinstance(slot, Cotangent):
                self.dependent.add(node)
                self.new[node] = node if outputs >> slot.live & 1 else None
            else:
                self.new[node] = self._select(node)

    def _select(self, node: Node) -> Node | None:
        cotangents = [a for a in node.inputs if a in self.dependent]
        if cotangents:
            self.dependent.add(node)
        absent = [a for a in cotangents if self.new[a] is None]
        if absent and len(absent) == len(cotangents):
            return None
        if absent and is_operation(node, Scalar.ADD, Scalar.SUB) and len(cotangents) == 2 \
                and absent != cotangents:  # -0 + 0 is 0: leave the sum out
            left, right = (self.new[a] for a in node.inputs)
            if right is None:
                assert left is not None
                return expand(left, node.shape)
            return expand(right if node.operation is Scalar.ADD else apply(Scalar.NEG, right),
                          node.shape)
        return with_inputs(node, tuple(map(self.present, node.inputs)))

    def present(self, node: Node) -> Node:
        """Return the new node, zeros if it is absent."""
        new = self.new[node]
        if new is not None:
            return new
        if node not in self.zeros:
            zero = 0.0 if node.type.floating else 0
            self.zeros[node] = constant(zero, node.type, node.shape)
        return self.zeros[node]
