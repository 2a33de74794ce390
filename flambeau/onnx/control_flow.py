"""Conversions of control flow: cond becomes If, while_loop Loop, map and scans become Scan.

The graphs in an operator's arguments become subgraphs, which see the values around them by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..tensor.tensor import Tensor
from .conversion_table import converts
from .graph_builder import DTYPES, GraphBuilder, short


def _run(b: GraphBuilder, module: GraphModule, names: Sequence[Any]) -> list[str]:
    """Add a graph's nodes, with names for its inputs; return the names of its results."""
    outer, b.module = b.module, module
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    b.names.update(zip(placeholders, names, strict=True))
    for node in module.graph.nodes:
        if node.op == "call_function":
            b.convert(b, node)
    b.module = outer
    results: Any = module.graph.output_node().args[0]
    values = results if isinstance(results, (tuple, list)) else (results,)
    return [b.value(x) for x in values]


def _declare_value(b: GraphBuilder, name: str, value: Any) -> Any:
    """Return the declaration of a value of a subgraph: its dtype and number of dimensions."""
    is_tensor = isinstance(value, Tensor)
    kind = DTYPES[short(value.dtype)] if is_tensor else DTYPES["int64"]
    return b.helper.make_tensor_value_info(name, kind, [None] * value.ndim if is_tensor else [])


def _example(x: Any) -> Any:
    return x.meta["val"] if isinstance(x, Node) else x


def _list_results(module: GraphModule) -> list[Any]:
    """Return the example results of a graph."""
    results: Any = module.graph.output_node().args[0]
    values = results if isinstance(results, (tuple, list)) else (results,)
    return [_example(x) for x in values]


class _Subgraph:
    """A graph under construction within another: its nodes are collected apart."""

    def __init__(self, builder: GraphBuilder, name: str) -> None:
        self.builder, self.name = builder, builder.unique(name)
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def __enter__(self) -> _Subgraph:
        b = self.builder
        self.outer, b.nodes = b.nodes, []
        return self

    def __exit__(self, *error: object) -> None:
        b = self.builder
        self.nodes, b.nodes = b.nodes, self.outer

    def input(self, value: Any) -> str:
        """Add an input like an example value; return its name."""
        name = self.builder.unique(f"{self.name}_in")
        self.inputs.append(_declare_value(self.builder, name, value))
        return name

    def output(self, name: str, value: Any) -> None:
        """Add an output, which needs a name of its own."""
        result = self.builder.op("Identity", name)
        self.outputs.append(_declare_value(self.builder, result, value))

    def graph(self) -> Any:
        """Return the ONNX graph."""
        return self.builder.helper.make_graph(self.nodes, self.name, self.inputs, self.outputs)


def _find_module(b: GraphBuilder, x: Any) -> GraphModule:
    module: GraphModule = b.module.get_submodule(str(x.target))
    return module


def _name_values(b: GraphBuilder, values: Sequence[Any]) -> list[str]:
    return [b.value(x) for x in values]


def _as_tuple(result: Any) -> tuple[str, ...]:
    return result if isinstance(result, tuple) else (result,)


@converts("cond")
def _cond(
    b: GraphBuilder, node: Node, pred: Any, true_graph: Any, false_graph: Any, operands: Any = ()
) -> tuple[str, ...]:
    names = _name_values(b, operands)
    condition = b.op("Reshape", b.value(pred), b.constant([1], "int64"))
    graphs = []
    for branch in (true_graph, false_graph):
        module = _find_module(b, branch)
        with _Subgraph(b, str(branch.target)) as part:
            for name, value in zip(_run(b, module, names), _list_results(module), strict=True):
                part.output(name, value)
        graphs.append(part.graph())
    return _as_tuple(b.op("If", condition, outputs=len(graphs[0].output), then_branch=graphs[0],
                          else_branch=graphs[1]))


@converts("while_loop")
def _while_loop(
    b: GraphBuilder, node: Node, cond_graph: Any, body_graph: Any, carried: Any,
    additional: Any = ()
) -> tuple[str, ...]:
    condition, body = _find_module(b, cond_graph), _find_module(b, body_graph)
    start, others = _name_values(b, carried), _name_values(b, additional)
    scalar = b.constant([], "int64")

    def is_true(names: Sequence[str]) -> str:
        (name,) = _run(b, condition, [*names, *others])
        return str(b.op("Reshape", name, scalar))

    first = is_true(start)
    with _Subgraph(b, str(body_graph.target)) as part:
        part.input(0)
        part.inputs.append(b.helper.make_tensor_value_info(
            b.unique(f"{part.name}_runs"), DTYPES["bool"], []))
        names = _run(b, body, [*[part.input(_example(x)) for x in carried], *others])
        continues = b.op("Identity", is_true(names))
        part.outputs.append(b.helper.make_tensor_value_info(continues, DTYPES["bool"], []))
        for name, value in zip(names, carried, strict=True):
            part.output(name, _example(value))
    return _as_tuple(b.op("Loop", "", first, *start, outputs=len(start), body=part.graph()))


@converts("scan")
def _scan(
    b: GraphBuilder, node: Node, combine_graph: Any, init: Any, xs: Any, additional: Any = ()
) -> tuple[str, ...]:
    module, others = _find_module(b, combine_graph), _name_values(b, additional)
    examples = [_example(x) for x in xs]
    with _Subgraph(b, str(combine_graph.target)) as part:
        names = [part.input(_example(x)) for x in init]
        names += [part.input(x[0]) for x in examples]
        results = _run(b, module, [*names, *others])
        for name, value in zip(results, _list_results(module), strict=True):
            part.output(name, value)
    graph = part.graph()
    inputs = [*_name_values(b, init), *_name_values(b, xs)]
    return _as_tuple(b.op("Scan", *inputs, outputs=len(graph.output), body=graph,
                          num_scan_inputs=len(xs)))


@converts("associative_scan")
def _associative_scan(
    b: GraphBuilder, node: Node, combine_graph: Any, xs: Any, additional: Any = ()
) -> tuple[str, ...]:
    """Carry the last prefix through the slices after the first one, which is a prefix itself."""
    module, others = _find_module(b, combine_graph), _name_values(b, additional)
    examples, rows = [_example(x) for x in xs], _name_values(b, xs)
    first_row, second_row, end = (b.constant([i], "int64") for i in (0, 1, 2**63 - 1))
    axis = first_row
    firsts = [b.op("Slice", x, first_row, second_row, axis) for x in rows]
    with _Subgraph(b, str(combine_graph.target)) as part:
        names = [part.input(x[0]) for x in (*examples, *examples)]
        prefixes = _run(b, module, [*names, *others])
        for name, value in zip(prefixes * 2, _list_results(module) * 2, strict=True):
            part.output(name, value)
    count = len(rows)
    results = _as_tuple(b.op(
        "Scan", *(b.op("Squeeze", x, axis) for x in firsts),
        *(b.op("Slice", x, second_row, end, axis) for x in rows), outputs=2 * count,
        body=part.graph(), num_scan_inputs=count))
    return tuple(b.op("Concat", first, rest, axis=0)
                 for first, rest in zip(firsts, results[count:], strict=True))


@converts("map_impl")
def _map(b: GraphBuilder, node: Node, graph: Any, xs: Any, additional: Any = ()
         ) -> tuple[str, ...]:
    return _scan(b, node, graph, (), xs, additional)
