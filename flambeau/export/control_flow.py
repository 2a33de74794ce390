"""Subgraphs of an exported program: the branches of torch.cond and the body of map."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ..autograd.mode import no_grad
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..ops.interception import torch_function
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .errors import UserError, UserErrorType
from .symbolic.sizes import SymbolicFloat, SymbolicSize, get_first_value, get_second_value

__all__ = ["Subgraph", "SubgraphRecorder", "add_subgraph", "choose", "map_over", "unrecorded"]


@contextmanager
def unrecorded() -> Iterator[None]:
    """Hide calls from the active recorders; those activated inside still see them."""
    before = torch_function.STATE.modes[:]
    torch_function.STATE.modes[:] = []
    try:
        yield
    finally:
        torch_function.STATE.modes[:] = before


class SubgraphRecorder(Protocol):
    """What a subgraph needs of the Recorder of the program around it."""

    graph: Graph
    subgraphs: dict[str, GraphModule]
    unbacked: set[Node]

    def subgraph_recorder(self, graph: Graph, subgraph: Subgraph) -> Any:
        """Return the recorder of a subgraph."""

    def node_of(self, value: Any) -> Any:
        """Return a value's node, or the value if it is a constant."""

    def entry_of(self, tensor: Tensor) -> Any:
        """Return a tensor's entry or None."""

    def second_input(self, value: Any) -> Any:
        """Return the second input's counterpart of a value."""

    def register(self, tensor: Tensor, node: Node, other: Any = None) -> None:
        """Register the node that computes a tensor, and the second input's counterpart."""

    def register_results(self, value: Any, other: Any, node: Node) -> Any:
        """Register the nodes that compute the parts of a result."""

    def add(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        """Add a node."""

    def note(self, node: Node) -> None:
        """Store a node's module stack and source line in its meta."""


class Subgraph:
    """The graph of a function.

    Its inputs are the operands and the outer values that the function reads. `result`: what the
    function returned; `leaves` and `spec`: the same, flattened.
    """

    def __init__(self, recorder: SubgraphRecorder) -> None:
        self.outer = recorder
        self.graph = Graph()
        self.inner = recorder.subgraph_recorder(self.graph, self)
        self.operands: list[Any] = []  # the outer value of each input
        self.result: Any = None
        self.leaves: list[Any] = []
        self.spec: Any = None

    @classmethod
    def record(cls, recorder: SubgraphRecorder, function: Callable[..., Any], operands: Any, *,
               is_loop: bool = False) -> Subgraph:
        """Record a function by calling it on operands.

        `is_loop`: whether the operands that are numbers change from step to step.
        """
        part = cls(recorder)
        for leaf in pytree.tree_leaves(operands):
            if isinstance(leaf, (Tensor, SymbolicSize, SymbolicFloat)):
                part.take(leaf)
        if is_loop:
            operands = [part.inside(x) if isinstance(x, SymbolicSize) else x for x in operands]
        with unrecorded(), part.inner.active():
            part.result = function(*operands)
        part.leaves, part.spec = pytree.tree_flatten(part.result)
        for leaf in part.leaves:  # a result from outside is an input, too
            part.inner.node_of(leaf)
        return part

    def take(self, value: Any) -> Node:
        """Add an input for a value of the outer program."""
        outer = self.outer.node_of(value)
        if isinstance(value, Tensor) and id(value) in self.inner.entries:
            known: Node = self.inner.entries[id(value)].node
            return known
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), self.graph._root)
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(outer.name)
        node.target = node.name  # two values of the outer program may have one name
        node.meta["val"] = value
        self.operands.append(value)
        if isinstance(value, Tensor):
            self.inner.register(value, node, self.outer.second_input(value))
            if outer in self.outer.unbacked:
                self.inner.unbacked.add(node)
        else:
            self.inner.numbers[id(value)] = value, node
        return node

    def inside(self, value: SymbolicSize) -> SymbolicSize:
        """Return the symbolic number that stands for an outer one inside the graph."""
        _, node = self.inner.numbers[id(value)]
        number = SymbolicSize(get_first_value(value), get_second_value(value), lambda: node,
                              value.expression,
                              value.table)
        node.meta["val"] = number
        return number

    def finish(self, inputs: list[Any], *, is_single: bool = False) -> GraphModule:
        """Return the graph as a module that takes these values of the outer program.

        `is_single`: whether to return the only result bare rather than in a tuple.
        """
        missing = [v for v in inputs if not any(v is w for w in self.operands)]
        for value in missing:
            self.take(value)
        order = [next(n for n, w in zip(self.placeholders(), self.operands, strict=True) if w is v)
                 for v in inputs]
        results = tuple(self.inner.node_of(leaf) for leaf in self.leaves)
        self.graph.output(results[0] if is_single else results)
        body = Graph()
        values = {node: body.node_copy(node) for node in order}
        for node in values.values():
            node.target = node.name
        body.output(body.graph_copy(self.graph, values))
        return GraphModule(self.inner.subgraphs, body)

    def placeholders(self) -> list[Node]:
        """Return the nodes of the inputs, in order."""
        return [n for n in self.graph.nodes if n.op == "placeholder"]


def add_subgraph(recorder: SubgraphRecorder, name: str, module: GraphModule) -> Node:
    """Attach a function's graph to the outer module and return its get_attr node."""
    path = f"{name}_{sum(key.startswith(f'{name}_') for key in recorder.subgraphs)}"
    recorder.subgraphs[path] = module
    node: Node = recorder.graph.create_node("get_attr", path, (), {}, path)
    recorder.note(node)
    node.meta["val"] = module
    return node


def _collect_inputs(parts: list[Subgraph]) -> list[Any]:
    """Collect the operands of all graphs, without duplicates."""
    result: list[Any] = []
    for part in parts:
        for value in part.operands:
            if not any(value is other for other in result):
                result.append(value)
    return result


def choose(recorder: SubgraphRecorder, function: Any, pred: Any,
           branches: tuple[Callable, Callable], operands: tuple[Any, ...]) -> Any:
    """Record torch.cond with both branches as subgraphs; return the chosen branch's results."""
    parts = [Subgraph.record(recorder, branch, operands) for branch in branches]
    _compare(parts)
    inputs = _collect_inputs(parts)
    nodes = [add_subgraph(recorder, name, part.finish(inputs))
             for name, part in zip(("true_graph", "false_graph"), parts, strict=True)]
    is_true = bool(pred._array if isinstance(pred, Tensor) else pred.value)
    chosen = parts[0 if is_true else 1]
    return _record_call(recorder, function, (pred, *nodes, inputs), chosen)


def map_over(recorder: SubgraphRecorder, function: Any, f: Callable[..., Any],
             leaves: list[Tensor], spec: Any, args: tuple[Any, ...]) -> Any:
    """Record map with a subgraph that computes one slice; return the stacked results."""
    slices = [x[0] for x in leaves]

    def compute_slice(*parts: Tensor) -> Any:
        return f(pytree.tree_unflatten(list(parts), spec), *args)

    body = Subgraph.record(recorder, compute_slice, tuple(slices))
    outer = [v for v in body.operands if not any(v is s for s in slices)]
    graph = body.finish([*slices, *outer])
    node = add_subgraph(recorder, "body_graph", graph)
    with unrecorded(), no_grad():
        values = function(graph, leaves, outer)
        twins = values
        if any(recorder.second_input(x) is not x for x in (*leaves, *outer)):
            twins = function(graph, [recorder.second_input(x) for x in leaves],
                             [recorder.second_input(x) for x in outer])
    call = recorder.add(function, [node, list(leaves), outer], {}, values)
    recorder.register_results(values, twins, call)
    return pytree.tree_unflatten(list(values), body.spec)


def _compare(parts: list[Subgraph]) -> None:
    """Raise UserError unless both branches return one structure, with equal ranks and dtypes."""
    first, second = parts
    alike = first.spec == second.spec and all(
        isinstance(a, Tensor) == isinstance(b, Tensor)
        and (not isinstance(a, Tensor) or (a.ndim, a.dtype) == (b.ndim, b.dtype))
        for a, b in zip(first.leaves, second.leaves, strict=True)
    )
    if not alike:
        raise UserError(
            UserErrorType.INVALID_OUTPUT,
            "torch.cond: both branches must return the same nested structure of tensors of one "
            f"rank and dtype, but they give {first.result!r} and {second.result!r}"
        )


def _record_call(recorder: SubgraphRecorder, function: Any, args: tuple, chosen: Subgraph) -> Any:
    """Add the call's node and return the chosen branch's results as its outputs."""
    call = recorder.add(function, list(args), {}, tuple(chosen.leaves))
    results = []
    for i, leaf in enumerate(chosen.leaves):
        if not isinstance(leaf, Tensor):
            results.append(leaf)
            continue
        value = leaf.detach() if any(leaf is v for v in chosen.operands) else leaf
        item = recorder.graph.call_function(operator.getitem, (call, i))
        recorder.note(item)
        if call in recorder.unbacked:
            recorder.unbacked.add(item)
        recorder.register(value, item, chosen.inner.second_input(leaf))
        results.append(value)
    return pytree.tree_unflatten(results, chosen.spec)
