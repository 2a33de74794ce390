"""Gradient regions: the nodes that a program computes under torch.no_grad() or enable_grad().

Wrapping turns each region into a submodule and a call of wrap_with_set_grad_enabled, which costs
a call; inlining undoes it, for readers that compute no gradients. Both return the module itself
if there is nothing to do.
"""

from __future__ import annotations

import operator
from typing import Any

from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.module_paths import attribute_at
from ..fx.node import Node, map_arg
from .wrap import wrap_with_set_grad_enabled

__all__ = ["MODE_META", "inline_gradient_regions", "wrap_gradient_regions"]

MODE_META = "grad_enabled"  # in a node's meta during an export: the grad mode it was recorded in

Run = tuple[bool, list[Node]]  # consecutive nodes with one grad mode


def wrap_gradient_regions(module: GraphModule, ambient: bool) -> GraphModule:
    """Make submodules of the nodes whose grad mode is not `ambient`, the caller's."""
    attributes, is_changed = _map_subgraphs(
        module, lambda node, part: wrap_gradient_regions(part, node.meta.get(MODE_META, ambient)))
    runs = _list_runs(module.graph, ambient)
    for node in module.graph.nodes:
        node.meta.pop(MODE_META, None)
    if len(runs) == 1 and not is_changed:
        return module
    wrapper = _Wrapper(attributes, len(runs))
    for node in module.graph.nodes:
        if node.op == "placeholder":
            wrapper.copy(node)
    for i, (mode, nodes) in enumerate(runs):
        if mode == ambient:
            for node in nodes:
                wrapper.copy(node)
        else:
            wrapper.add_region(f"submod_{i}", mode, nodes)
    wrapper.copy(module.graph.output_node())
    return GraphModule(wrapper.attributes, wrapper.graph)


def _map_subgraphs(module: GraphModule, change: Any) -> tuple[dict[str, Any], bool]:
    """Return what get_attr nodes refer to, graphs changed, and whether any was."""
    attributes: dict[str, Any] = {}
    is_changed = False
    for node in module.graph.nodes:
        if node.op == "get_attr":
            before = attribute_at(module, str(node.target))
            after = change(node, before) if isinstance(before, GraphModule) else before
            attributes[str(node.target)] = after
            is_changed = is_changed or after is not before
    return attributes, is_changed


def _list_runs(graph: Graph, ambient: bool) -> list[Run]:
    """Return the runs of a graph, the first in the mode `ambient`.

    Nodes without a mode of their own stay in the run before them.
    """
    runs: list[Run] = [(ambient, [])]
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        mode = node.meta.get(MODE_META, runs[-1][0])
        if mode != runs[-1][0]:
            runs.append((mode, []))
        runs[-1][1].append(node)
    return runs


class _Wrapper:
    """Copies a graph into a new one in which calls of submodules stand for regions."""

    def __init__(self, attributes: dict[str, Any], number: int) -> None:
        self.attributes, self.number = attributes, number  # of the next submodule's node
        self.graph = Graph()
        self.values: dict[Node, Node] = {}

    def copy(self, node: Node) -> None:
        """Copy a node outside of the regions."""
        self.values[node] = self.graph.node_copy(node, self.values.__getitem__)

    def add_region(self, path: str, mode: bool, nodes: list[Node]) -> None:
        """Make a submodule of nodes, and call it. Its results keep the nodes' names."""
        members = set(nodes)
        inputs = dict.fromkeys(
            x for node in nodes for x in node.all_input_nodes if x not in members)
        users = [n for n in nodes[0].graph.nodes if n not in members]
        outputs = dict.fromkeys(x for n in users for x in n.all_input_nodes if x in members)
        self.attributes[path] = _extract(nodes, list(inputs), list(outputs), self.attributes)
        origin = _find_origin(nodes)
        region = self.graph.create_node("get_attr", path, (), {}, f"submod_{self.number}")
        self.number += 1
        region.meta.update(origin, val=self.attributes[path])
        arguments = (mode, region, *(self.values[x] for x in inputs))
        call = self.graph.call_function(wrap_with_set_grad_enabled, arguments)
        call.meta.update(origin, val=tuple(x.meta.get("val") for x in outputs))
        for i, node in enumerate(outputs):
            item = self.graph.create_node(
                "call_function", operator.getitem, (call, i), {}, node.name)
            item.meta = node.meta | origin
            self.values[node] = item


def _extract(nodes: list[Node], inputs: list[Node], outputs: list[Node],
             attributes: dict[str, Any]) -> GraphModule:
    """Return a module that computes some nodes from the values they read."""
    graph = Graph()
    values: dict[Node, Node] = {}
    for node in inputs:
        values[node] = graph.placeholder(node.name)
        values[node].meta = node.meta.copy()
    for node in nodes:
        values[node] = graph.node_copy(node, values.__getitem__)
    graph.output(tuple(values[node] for node in outputs))
    owned = {str(n.target): attributes.pop(str(n.target)) for n in nodes if n.op == "get_attr"}
    return GraphModule(owned, graph)


def _find_origin(nodes: list[Node]) -> dict[str, Any]:
    """Return the module calls that all nodes are in, as meta."""
    stacks = [list(n.meta.get("nn_module_stack", {}).items()) for n in nodes]
    shared = 0
    while all(len(s) > shared and s[shared] == stacks[0][shared] for s in stacks):
        shared += 1
    return {"nn_module_stack": dict(stacks[0][:shared])}


# ------------------------------------------------------------------------------------ inlining


def inline_gradient_regions(module: GraphModule) -> GraphModule:
    """Replace the calls of wrap_with_set_grad_enabled by the nodes of their submodules."""
    attributes, is_changed = _map_subgraphs(
        module, lambda node, part: inline_gradient_regions(part))
    if not is_changed and not any(_is_region(node) for node in module.graph.nodes):
        return module
    graph = Graph()
    values: dict[Node, Any] = {}
    for node in module.graph.nodes:
        _copy_inlined(node, graph, values, attributes)
    graph._codegen = module.graph._codegen
    used = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    return GraphModule({path: attributes[path] for path in used}, graph)


def _is_region(node: Node) -> bool:
    return node.target is wrap_with_set_grad_enabled


def _copy_inlined(node: Node, graph: Graph, values: dict[Node, Any],
                  attributes: dict[str, Any]) -> None:
    """Copy a node, or the nodes of the region that it calls; `values` gets their equivalents."""
    if node.op == "get_attr" and node.users and all(map(_is_region, node.users)):
        return
    if _is_region(node):
        region: Any = node.args[1]
        values[node] = _copy_region(attributes[region.target], graph, attributes,
                                    [map_arg(x, values.__getitem__) for x in node.args[2:]])
        return
    source = node.args[0] if node.target is operator.getitem else None
    if isinstance(source, Node) and _is_region(source):
        values[node] = values[source][node.args[1]]
        return
    values[node] = graph.node_copy(node, values.__getitem__)


def _copy_region(part: GraphModule, graph: Graph, attributes: dict[str, Any],
                 arguments: list[Any]) -> Any:
    """Copy the nodes of a region's submodule; return its results, a tuple."""
    inputs = [node for node in part.graph.nodes if node.op == "placeholder"]
    for node in part.graph.nodes:
        if node.op == "get_attr":
            attributes[str(node.target)] = attribute_at(part, str(node.target))
    return graph.graph_copy(part.graph, dict(zip(inputs, arguments, strict=True)))
