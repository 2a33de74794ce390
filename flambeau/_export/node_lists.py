"""Lists of nodes, splits at some of them, and calls of submodules replaced by their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..fx.graph_module import GraphModule
from ..fx.module_paths import attribute_at
from ..fx.node import Node
from ..fx.passes.split_module import split_module

__all__ = ["node_inline_", "node_replace_", "nodes_count", "nodes_filter", "nodes_first",
           "nodes_map", "sequential_split"]

Condition = Callable[[Node], Any]


def nodes_filter(nodes: Iterable[Node], node_call_back: Condition) -> list[Node]:
    """Return the nodes that meet a condition."""
    return [node for node in nodes if node_call_back(node)]


def nodes_first(nodes: Iterable[Node], node_call_back: Condition | None = None) -> Node | None:
    """Return the first node that meets a condition, or None."""
    return next((n for n in nodes if node_call_back is None or node_call_back(n)), None)


def nodes_count(nodes: Iterable[Node], node_call_back: Condition) -> int:
    """Return the number of nodes that meet a condition."""
    return len(nodes_filter(nodes, node_call_back))


def nodes_map(nodes: Any, node_call_back: Condition) -> Any:
    """Call a function with each node; return the nodes."""
    for node in nodes:
        node_call_back(node)
    return nodes


def node_replace_(old_node: Node, new_node: Node) -> None:
    """Replace a node everywhere, and remove it."""
    old_node.replace_all_uses_with(new_node)
    old_node.graph.erase_node(old_node)


def node_inline_(call_mod_node: Node) -> GraphModule | None:
    """Replace the call of a submodule by the nodes of its graph; return the module around it."""
    if call_mod_node.op != "call_module":
        raise AssertionError(f"expected call_module op, got {call_mod_node.op}")
    module: Any = call_mod_node.graph.owning_module
    assert module is not None, "owning_module should not be None"
    inner = attribute_at(module, str(call_mod_node.target))
    inputs = [node for node in inner.graph.nodes if node.op == "placeholder"]
    values: dict[Node, Any] = dict(zip(inputs, call_mod_node.args, strict=True))
    with module.graph.inserting_before(call_mod_node):
        result = module.graph.graph_copy(inner.graph, values)
    for node in inner.graph.nodes:
        if node.op == "get_attr":
            setattr(module, str(node.target), attribute_at(inner, str(node.target)))
    _replace_result(call_mod_node, result)
    module.delete_all_unused_submodules()
    module.recompile()
    return module


def _replace_result(call: Node, result: Any) -> None:
    """Let the users of a call's result, or of its parts, use the nodes that compute them."""
    if isinstance(result, (tuple, list)):
        for user in list(call.users):
            assert user.op == "call_function", f"{user} takes a whole tuple"
            node_replace_(user, result[int(user.args[1])])  # type: ignore[arg-type]
    elif result is not None:
        call.replace_all_uses_with(result)
    call.graph.erase_node(call)


def sequential_split(gm: GraphModule, node_call_back: Condition) -> GraphModule:
    """Return a module of submodules, each of which begins at a node that meets the condition."""
    parts: dict[Node, int] = {}
    part = 0
    for node in gm.graph.nodes:
        part += bool(node_call_back(node))
        parts[node] = part
    result = split_module(gm, gm, parts.__getitem__, keep_original_order=True,
                          keep_original_node_name=True)
    result.graph._codegen = gm.graph._codegen
    result.recompile()
    return result
