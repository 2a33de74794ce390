"""Fuse parts of a graph into submodules."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm",
           "legalize_graph", "topo_sort", "validate_partition"]


def topo_sort(nodes: Any) -> list[Node]:
    """Return the nodes in topological order. AssertionError if they form a cycle."""
    chosen = dict.fromkeys(nodes)
    waits = {node: sum(n in chosen for n in node.all_input_nodes) for node in chosen}
    ready = deque(node for node, count in waits.items() if count == 0)
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for user in node.users:
            if user in waits:
                waits[user] -= 1
                if waits[user] == 0:
                    ready.append(user)
    if len(ordered) != len(chosen):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return ordered


def validate_partition(partition: Any) -> bool:
    """Return whether the nodes can be fused: no value leaves them and comes back."""
    inside = set(partition)
    seen: set[Node] = set()
    stack = [user for node in inside for user in node.users if user not in inside]
    while stack:
        node = stack.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            stack += node.users
    return True


def fuse_as_graphmodule(
    gm: GraphModule, nodes: list[Node], module_name: str, partition_lookup_table: Any = None,
    *, always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Return a module made of some nodes, and its input and output nodes in the original graph."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    inside = dict.fromkeys(nodes)
    if not validate_partition(inside):
        raise AssertionError("Invalid partition, found dependency cycles")
    graph = Graph()
    copies: dict[Node, Any] = {}
    inputs: dict[Node, Node] = {}

    def value(x: Node) -> Any:
        if x.op == "get_attr" and x not in inside:
            if x not in copies:
                copies[x] = graph.node_copy(x)
            return copies[x]
        if x not in copies:
            copies[x] = inputs[x] = graph.placeholder(x.name, type_expr=x.type)
            inputs[x].meta = x.meta.copy()
        return copies[x]

    for node in nodes:
        copies[node] = graph.node_copy(node, value)
    outputs = [n for n in nodes if any(user not in inside for user in n.users)]
    results = tuple(copies[n] for n in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    return GraphModule(gm, graph, class_name=module_name), tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
) -> GraphModule:
    """Insert a submodule and a call to it, and replace `orig_outputs` by its results."""
    name = sub_gm.__class__.__name__
    gm.add_submodule(name, sub_gm)
    last: Any = max(orig_outputs, default=None)
    with gm.graph.inserting_after(last):
        call = gm.graph.call_module(name, args=orig_inputs)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(result, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    after = call
    for i, original in enumerate(orig_outputs):
        with gm.graph.inserting_after(after):
            after = gm.graph.call_function(operator.getitem, (call, i))
        original.replace_all_uses_with(after, propagate_meta=True)
    call.meta["val"] = tuple(original.meta.get("val") for original in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Erase nodes, users first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, int | None]], prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Replace each partition by a call to a submodule."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        sub, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{i}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, sub, inputs, outputs)
        erase_nodes(gm, nodes)
    legalize_graph(gm)
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sort the graph topologically, with the output last. RuntimeError if it has cycles."""
    graph = gm.graph
    waits = {node: len(node.all_input_nodes) for node in graph.nodes}
    ready: deque[Node] = deque(n for n, count in waits.items() if count == 0)
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for user in node.users:
            waits[user] -= 1
            if waits[user] == 0:
                ready.append(user)
    if len(ordered) < len(graph.nodes):
        raise RuntimeError(
            "Input graph has cycles, unable to add "
            f"{[n for n in waits if waits[n] != 0]}"
        )
    output = [n for n in ordered if n.op == "output"]
    for node in [n for n in ordered if n.op != "output"] + output:
        graph._root.prepend(node)
    return gm
