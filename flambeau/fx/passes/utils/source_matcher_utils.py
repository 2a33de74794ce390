"""Find the nodes traced from one function or layer, using the metadata that tracing records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..._compatibility import compatibility
from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@compatibility(is_backward_compatible=False)
@dataclass
class SourcePartition:
    """The nodes from one source, and the values that enter and leave them."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _find_source(node: Node, sources: list[Any]) -> tuple[Any, str] | None:
    """Return a node's source, if wanted, and the name of its call site; otherwise None."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1]
        return (source, name) if source in sources else None
    if node.meta.get("torch_fn") is not None:
        name, function = node.meta["torch_fn"]
        function = function.split(".")[1]
        if function in sources:
            return function, name
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    path, kind = list(modules.values())[-1]
    for source in sources:
        same = source == kind
        if isinstance(source, type):
            same = issubclass(kind, source) if isinstance(kind, type) else \
                kind == f"{source.__module__}.{source.__qualname__}"
        if same:
            return source, path
    return None


@compatibility(is_backward_compatible=False)
def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return, for each wanted function or layer class, the groups of nodes traced from it.

    `filter_fn`: keep only groups whose nodes all satisfy it.
    """
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        result = _find_source(node, wanted_sources)
        if result is not None:
            groups.setdefault(result[0], {}).setdefault(result[1], []).append(node)
    return {
        source: [_build_partition(nodes, source) for nodes in by_name.values()
                 if filter_fn is None or all(map(filter_fn, nodes))]
        for source, by_name in groups.items()
    }


def _build_partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs = {x: None for n in nodes for x in n.args
              if isinstance(x, Node) and x not in inside and x.op != "get_attr"}
    params = [n for n in nodes if n.op == "get_attr"]
    outputs = [n for n in nodes if n.op != "get_attr" and any(u not in inside for u in n.users)]
    return SourcePartition(nodes, source, list(inputs), outputs, params)


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether a node of the second partition uses one of the first."""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
