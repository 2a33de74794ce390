"""Check a graph: values are defined before use, and targets exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..nn.module import Module
from .node import Node, _legal_ops
from .qualified_names import torch_module

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["check_graph"]


def check_graph(graph: Graph) -> None:
    """Raise RuntimeError if the graph is malformed (ValueError for a target of the wrong type)."""
    names: set[str] = set()
    defined: set[Node] = set()
    for node in graph.nodes:
        if node.op not in _legal_ops:
            raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if node not in graph._find_nodes_lookup_table:
            raise RuntimeError(f"Node '{node}' is not added to the side table")
        for value in node._input_nodes:
            _check_input(graph, node, value, defined)
        defined.add(node)
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        names.add(node.name)
    if graph.owning_module:
        for node in graph.nodes:
            _check_target(node, graph.owning_module)


def _check_input(graph: Graph, node: Node, value: Node, defined: set[Node]) -> None:
    if value.graph is not graph:
        raise RuntimeError(
            f"Argument '{value}' of Node '{node}' does not belong to this Graph, but was used as "
            "an argument! If you are copying nodes from another graph, make sure to use "
            f"``arg_transform`` on node_copy() to remap values\n{graph}"
        )
    if value not in defined:
        raise RuntimeError(
            f"Argument '{value}' of Node '{node}' was used before it has been defined! Please "
            f"check that Nodes in the graph are topologically ordered\n{graph}"
        )


def _check_target(node: Node, owner: Any) -> None:
    expected = "Callable" if node.op == "call_function" else "str"
    if not (callable(node.target) if expected == "Callable" else isinstance(node.target, str)):
        raise ValueError(
            f"Node {node} target {node.target} has type "
            f"{torch_module().typename(node.target)} but a {expected} is expected"
        )
    if node.op not in ("get_attr", "call_module"):
        return
    parts = str(node.target).split(".")
    for i, part in enumerate(parts):
        above = ".".join(parts[:i])
        owner = getattr(owner, part, None)
        if owner is None:
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent "
                               f"attribute {part} of {above}")
        if node.op == "call_module" and not isinstance(owner, Module):
            raise RuntimeError(f"Node {node} target {node.target} {part} of {above} does not "
                               "reference an nn.Module")
