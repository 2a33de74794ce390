"""Partition: split a joint forward and backward pass into two programs.

Forward values that the backward pass reads become outputs of the first program and are kept for the
second. Parameters are read in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.loop_ir.numpy_forms import dtype_of
from ...tensor.tree import collect_leaves
from ..ir.axis_order import invert_permutation, order_axes
from ..ir.graph import Graph, Node, Op, Source, SourceKind, permute
from ..lowering.numpy.node_builders import type_of
from ..lowering.registry import Untraceable
from ..trace import bindings as bind
from ..trace.trace import Backward

_FREE = (Op.CONSTANT, Op.ARRAY, Op.IOTA)  # recomputed, not saved


def partition_joint_graph(
    functional: Any, graph: Graph, backward: Backward
) -> bind.BackwardBindings:
    """Return the backward program; add what it needs to the outputs of the forward `graph`."""
    result = _Split(functional, graph, backward)
    return result.split()


class _Split:
    """The split of one trace into two programs."""

    def __init__(self, functional: Any, graph: Graph, backward: Backward) -> None:
        self.functional, self.graph, self.backward = functional, graph, backward
        regions = [r for region in functional.regions.values() for r in region]
        self.cut = {id(r.node) for r in regions if r.node is not None}
        self.sources: list[Source] = []
        self.inputs: list[Node] = []
        self.slots: list[Any] = []
        self.recorded: list[Any] = []
        self.new: dict[int, Node] = {}
        self.roots: list[Node] = []  # kept alive, because `new` is keyed by id
        self.returned = self._find_saved_results()

    def split(self) -> bind.BackwardBindings:
        """Process the backward events, then collect what they need."""
        functional, backward = self.functional, self.backward
        shapes = []
        gradients = (*backward.cotangents, *backward.arrays)
        if any(g is not None and g.dtype.kind == "c" for g in gradients):
            raise Untraceable("complex gradients enter or leave it")
        for k, (y, g) in enumerate(zip(backward.outputs, backward.cotangents, strict=True)):
            self._add_cotangent(k, g)
            shapes.append((y._array.shape, y._array.dtype))
        for event in functional.trace.events[backward.mark :]:
            functional.handle(event)
        outputs, inputs, orders, expected, repeats, versions = [], [], [], [], [], []
        leaves = {id(leaf): i for i, leaf in enumerate(functional.leaves)}
        for x, value, array, version in zip(
            backward.inputs, backward.grads, backward.arrays, backward.versions, strict=True
        ):
            if value is None or array is None:
                continue
            order = order_axes(array.strides)
            outputs.append(self.rebuild(permute(functional.read(value), order)))
            inputs.append(leaves.get(id(x), x))
            orders.append(invert_permutation(order))
            expected.append(array.transpose(order).copy())
            versions.append(version)
            repeats.append(tuple([axis for axis, n in enumerate(value.strides)
                                  if not n and value.shape[axis] > 1]))
        graph = Graph(self.sources, self.inputs, outputs, [])
        saved = [(item, owner) for item, owner in backward.saved_owners if owner.position is None]
        return bind.BackwardBindings(
            graph, self.slots, self.recorded, inputs, orders, expected,
            len(backward.outputs), shapes, _reads_what_it_writes(self.graph),
            backward.reached, saved, (1 << len(backward.outputs) - backward.bases) - 1,
            repeats=repeats, versions=versions,
        )

    def _add_cotangent(self, k: int, g: np.ndarray) -> None:
        functional = self.functional
        value = functional.trace.value_of(g)
        for region in functional.regions.get(value.storage, ()):
            recorded = g.reshape(region.shape)
            region.node = self._add_source(SourceKind.ARGUMENT, region.shape, g.dtype,
                                           bind.Cotangent(k, region.shape), f"cotangent {k}",
                                           recorded)
            self.new[id(region.node)] = region.node

    def _add_source(self, kind: SourceKind, shape: tuple, dtype: np.dtype, slot: Any, name: str,
                    recorded: Any, give: Any = None, strides: Any = None) -> Node:
        at = len(self.sources)
        source = Source(kind, shape, type_of(dtype), give or _raise_unread, name, strides)
        self.sources.append(source)
        self.slots.append(slot)
        self.recorded.append(recorded)
        node = Node(Op.INPUT, (), shape, type_of(dtype), {"slot": at}, origin=name)
        self.inputs.append(node)
        return node

    def rebuild(self, root: Node) -> Node:
        """Rebuild a backward node on the backward program's inputs."""
        self.roots.append(root)  # so that its id is not reused
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, inputs_done = stack.pop()
            if id(node) in self.new:
                continue
            if node.op in _FREE:
                self.new[id(node)] = node
            elif id(node) in self.cut or node.op in (Op.INPUT, Op.ATTENTION_SUMS):
                self.new[id(node)] = self._pass_from_forward(node)
            elif not inputs_done:
                stack.append((node, True))
                stack.extend((operand, False) for operand in node.inputs)
            else:
                inputs = tuple(self.new[id(operand)] for operand in node.inputs)
                self.new[id(node)] = Node(node.op, inputs, node.shape, node.type,
                                          node.attributes, node.origin)
        return self.new[id(root)]

    def _find_saved_results(self) -> dict[int, int]:
        """Return the outputs that eager nodes saved, by node. Backward reads their memory, which
        the caller has too, as eager backward would."""
        result = {}
        for leaf in collect_leaves(bind.NewTensor, self.functional.bindings.result):
            if leaf.saved and isinstance(leaf.memory, bind.Output):
                result[id(self.graph.outputs[leaf.memory.number])] = leaf.memory.number
        return result

    def _pass_from_forward(self, node: Node) -> Node:
        """Pass a forward value to the backward program as an input."""
        functional = self.functional
        written = {slot for slot, _ in self.graph.writes}
        if node.op is Op.INPUT and node.slot not in written:
            slot = functional.bindings.slots[node.slot]
            source = functional.sources[node.slot]
            if isinstance(slot, (bind.State, bind.Argument)):
                return self._add_source(source.kind, source.shape, dtype_of(source.type), slot,
                                        source.name, functional.bindings.recorded[node.slot],
                                        source.array, source.strides)
        number = self.returned.get(id(node))
        if number is None:
            self.graph.outputs.append(node)
            number = len(self.graph.outputs) - 1
        saved = bind.SavedForBackward(number)
        return self._add_source(
            SourceKind.ARGUMENT, node.shape, dtype_of(node.type), saved, node.origin, None
        )


def _reads_what_it_writes(graph: Graph) -> bool:
    """Whether an output depends on the previous value of memory that the graph writes."""
    written = {slot for slot, _ in graph.writes}
    stack, seen = list(graph.outputs), set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op is Op.INPUT and node.slot in written:
            return True
        stack.extend(node.inputs)
    return False


def _raise_unread(*_: Any) -> Any:
    raise RuntimeError("this source is given at each call")
