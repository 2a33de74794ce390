"""Index checks: programs do not check indices and labels themselves, so they are checked first.

Indices from arguments and outside memory are checked on each call; if one is out of bounds, the
call runs eagerly, which raises. Indices that the step computes are clamped to keep memory safe, and
the run checks their bounds before it writes anything.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Scalar, Type
from ...native.loop_ir.numpy_forms import dtype_of
from ...native.target.compile_costs import MAX_UNREAD_INDICES
from ..ir.graph import Graph, Node, Op, apply, constant, sort_topologically, rewrite
from ..ir.interpreter import evaluate
from ..lowering.numpy.node_builders import number
from ..lowering.numpy.symbolic_array import convert_to_node, wrap_node
from ..trace.bindings import Argument, State

_SELECTIONS = (Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE)


@dataclass(eq=False)
class IndexBound:
    """The legal values of an index: in [0, size), or `ignored`; in [-size, size) if it wraps."""

    node: Node
    size: int
    ignored: int | None = None
    wraps: bool = False

    @property
    def lowest(self) -> int:
        """The lowest legal value."""
        return -self.size if self.wraps else 0

    def quick(self, dtype: np.dtype, empty: bool) -> Callable[[np.ndarray], bool]:
        """Return `holds` for arrays of a dtype, in a single pass if all indices are valid."""
        if dtype.kind not in "iu" or empty:
            return lambda values: True
        unsigned = np.dtype(f"u{dtype.itemsize}")
        size, holds = self.size, self.holds

        def test(values: np.ndarray) -> bool:
            # As unsigned numbers, negative ones are large. argmax lacks the overhead of reductions.
            seen = values.view(unsigned)
            return seen.item(seen.argmax()) < size or holds(values)

        return test

    def holds(self, values: np.ndarray) -> bool:
        """Whether all values are legal."""
        inside = (values >= self.lowest) & (values < self.size)
        if self.ignored is not None:
            inside |= values == self.ignored
        return bool(inside.all())

    def condition(self) -> Node:
        """Return `holds` as a node."""
        values = wrap_node(self.node)
        inside = (values >= self.lowest) & (values < self.size)
        if self.ignored is not None:
            inside |= values == self.ignored
        return convert_to_node(np.all(inside))


@dataclass(eq=False)
class IndexCheck:
    """A bound, and where its values come from on each call: an argument, or a graph that selects
    elements of one source, such as a column of labels in each turn of a loop.

    Interpreting a graph costs some 20 us per node, and is not needed if all of the source is legal.
    """

    bound: IndexBound
    leaf: int | None = None  # the argument to check
    graph: Graph | None = None
    slots: tuple = ()  # the graph's source
    _quick: Callable[[np.ndarray], bool] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.graph is not None:
            source = self.graph.inputs[0]
            if math.prod(source.shape) <= MAX_UNREAD_INDICES * sum(
                    math.prod(node.shape) for node in self.graph.outputs):
                self._quick = self.bound.quick(dtype_of(source.type), 0 in source.shape)

    def test(self, arrays: dict[int, np.ndarray]) -> bool:
        """Whether the bound holds, given the arguments' arrays."""
        if self.leaf is not None:
            return self.bound.holds(arrays[self.leaf])
        assert self.graph is not None
        values = [s.array if isinstance(s, State) else s.array(arrays) for s in self.slots]
        if self._quick is not None and self._quick(values[0]):
            return True
        return all(map(self.bound.holds, evaluate(self.graph, values)[0]))


def label_bound(event: Any, read: Callable) -> IndexBound | None:
    """Return the bound of an operator's labels, or None."""
    names, parameter = event.operator.names, event.operator.labels
    if parameter is None:
        return None
    labels, shape = event.args[names.index(parameter)], event.args[0].shape
    if labels.dtype.kind not in "iu":
        return None
    ignored = event.args[names.index("ignore_index")] if "ignore_index" in names else None
    return IndexBound(read(labels), shape[1] if len(shape) > 1 else shape[0], ignored)


def check_indices(
    graph: Graph, labels: list[IndexBound], slots: list[Any], unused: Sequence[Node] = ()
) -> tuple[Graph, list[IndexCheck], list[Node]]:
    """Return the graph, made safe for any index; the checks before each run; and the conditions to
    check during a run. `unused`: nodes that may not reach an output but raise in eager mode."""
    bounds: dict[tuple[int, int], IndexBound] = {}
    for node in itertools.chain(graph.nodes(), unused):
        result = _find_index(node)
        if result is not None:
            bounds.setdefault((id(result[0]), result[1]), IndexBound(*result))
    distinct = {(id(b.node), b.size, b.ignored, b.wraps): b for b in labels}
    selected, computed = _group_by_source([*bounds.values(), *distinct.values()], slots)
    checks = [_make_check(group, node, graph.sources[node.slot], slots[node.slot])
              for node, group in selected.values()]
    loose = {id(bound.node) for bound in computed}
    graph = _clamp_indices(graph, loose) if loose else graph
    return graph, checks, [bound.condition() for bound in computed]


def check_all(conditions: list[Node], calls: Sequence[Node] = ()) -> Node:
    """Return the node that ends a run if one of these scalar bools is False, or if one of the
    eager calls raises."""
    always = constant(True, Type.BOOL, ())
    holds = functools.reduce(lambda a, b: apply(Scalar.AND, a, b), conditions or [always])
    return Node(Op.CHECK, (holds, *calls), (), holds.type, origin="check")


def iterate_indexing(nodes: Iterable[Node], seen: dict[int, Node]) -> Iterator[Node]:
    """Yield the nodes that read or write at an index, among `nodes` and their inputs. Skips those
    in `seen`, and adds all visited nodes to it."""
    stack = [*nodes]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            stack += node.inputs
            if _find_index(node) is not None:
                yield node


def _find_index(node: Node) -> tuple[Node, int] | None:
    """Return (index, bound) of a node that reads or writes at an index, or None."""
    if node.op is Op.TAKE:
        return node.inputs[1], node.inputs[0].shape[0]
    if node.op is Op.TAKE_ALONG:
        return node.inputs[1], node.inputs[0].shape[node.axis]
    return (node.inputs[0], node.shape[0]) if node.op is Op.ADD_ROWS else None


def _group_by_source(
    bounds: Iterable[IndexBound], slots: list[Any]
) -> tuple[dict[tuple, tuple[Node, list[IndexBound]]], list[IndexBound]]:
    """Return the bounds of indices that are elements of an argument or of outside memory, with that
    source, by source and range; and the bounds of indices that the step computes. Leaves out legal
    constants."""
    selected: dict[tuple, tuple[Node, list[IndexBound]]] = {}
    computed = []
    for bound in bounds:
        source = bound.node
        while source.op in _SELECTIONS:
            source = source.inputs[0]
        if source.op is Op.INPUT and isinstance(slots[source.slot], (Argument, State)):
            key = source.slot, bound.size, bound.ignored, bound.wraps
            selected.setdefault(key, (source, []))[1].append(bound)
        elif not _is_legal_constant(bound):
            computed.append(bound)
    return selected, computed


def _is_legal_constant(bound: IndexBound) -> bool:
    if any(n.op in (Op.INPUT, Op.CALL) for n in sort_topologically([bound.node])):
        return False
    return bound.holds(evaluate(Graph([], [], [bound.node], []), [])[0][0])


def _make_check(bounds: list[IndexBound], node: Node, source: Any, slot: Any) -> IndexCheck:
    """Return the check of all bounds of one source and range."""
    if isinstance(slot, Argument) and slot.order is not None:
        for bound in bounds:
            if math.prod(bound.node.shape) == math.prod(slot.shape):  # each element, in some order
                return IndexCheck(bound, leaf=slot.leaf)
    nodes = [bound.node for bound in bounds]
    read = Node(Op.INPUT, (), node.shape, node.type, {"slot": 0})
    small = rewrite(Graph([source], [read], nodes, []), lambda n, operands: (
        read if n.op is Op.INPUT else
        Node(n.op, operands, n.shape, n.type, n.attributes)))
    return IndexCheck(bounds[0], graph=small, slots=(slot,))


def _clamp_indices(graph: Graph, loose: set[int]) -> Graph:
    """Return the graph with uncheckable indices clamped to their bounds."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        result = _find_index(node)
        if result is not None and id(result[0]) in loose:
            operand = 0 if node.op is Op.ADD_ROWS else 1
            index = inputs[operand]
            rank = len(index.shape)
            low = apply(Scalar.MAXIMUM, index, number(0, index.type, rank))
            within = apply(Scalar.MINIMUM, low, number(max(result[1] - 1, 0), index.type, rank))
            inputs = (*inputs[:operand], within, *inputs[operand + 1 :])
        if all(a is b for a, b in zip(node.inputs, inputs, strict=True)):
            return node
        return Node(node.op, inputs, node.shape, node.type, node.attributes, node.origin)

    return rewrite(graph, rule)


def find_unread_calls(graph: Graph, calls: list[Node]) -> list[Node]:
    """Return the eager calls that no output or write depends on. `calls`: a node of each."""
    if not calls:
        return []
    read = {id(node.group) for node in graph.nodes() if node.op is Op.CALL}
    return [call for call in calls if id(call.group) not in read]
