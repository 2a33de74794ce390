"""replace_pattern: replace every occurrence of a small graph by another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn.module import Module
from ._compatibility import compatibility
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .module_paths import attribute_at, has_attribute
from .node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


@compatibility(is_backward_compatible=True)
class Match(NamedTuple):
    """A match: its last node, and a map from pattern nodes to matched nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]


@compatibility(is_backward_compatible=False)
@dataclass
class ReplacedPatterns:
    """A match and the nodes that replaced it."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@compatibility(is_backward_compatible=True)
def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace each occurrence of a function in a graph by another function.

    `pattern`, `replacement`: functions or GraphModules with the same parameters. Matching follows
    the data flow, not names; if matches overlap, only the first is replaced.

    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> _ = torch.fx.replace_pattern(gm, lambda x: torch.relu(x), lambda x: torch.sigmoid(x))
    >>> print(gm.code.split(";")[0].strip())
    def forward(self, x):
        sigmoid = torch.sigmoid(x)
    """
    replaced = _replace(gm, pattern, replacement)
    return [Match(anchor=r.anchor, nodes_map=r.nodes_map) for r in replaced]


@compatibility(is_backward_compatible=False)
def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None, ignore_literals: bool = False,
    replacement_callback: Callable[..., Graph] | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Do `replace_pattern` for matches where all `match_filters(match, graph, pattern)` are true.

    `replacement_callback`: builds the replacement graph from a match. `node_name_match`: nodes
    whose name contains it match regardless of what they do.
    """
    return _replace(gm, pattern, replacement, match_filters or [], ignore_literals,
                    replacement_callback, node_name_match)


def _find_graph(code: Any) -> Graph:
    if isinstance(code, GraphModule):
        return code.graph
    return code if isinstance(code, Graph) else symbolic_trace(code).graph


def _replace(
    gm: GraphModule, pattern: Any, replacement: Any, filters: Any = (),
    ignore_literals: bool = False, callback: Callable[..., Graph] | None = None, name: str = "",
) -> list[ReplacedPatterns]:
    from .passes.utils.matcher_utils import SubgraphMatcher

    pattern_graph = _find_graph(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [m for m in matcher.match(gm.graph, node_name_match=name)
               if all(accept(m, gm.graph, pattern_graph) for accept in filters)]
    if replacement is None and callback is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    shared = None if replacement is None else _find_graph(replacement)
    changed: dict[Node, Node] = {}
    replaced = []
    for match in matches:
        new: Any = shared if callback is None else callback(match, gm.graph, pattern_graph)
        replaced.append(_replace_one(gm.graph, pattern_graph, match, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _copy_missing(gm, replacement)
    return replaced


def _replace_one(
    graph: Graph, pattern: Graph, match: Any, new: Graph, changed: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs "
                             f"{len(inputs)}")
    values: dict[Node, Any] = {}
    for i, (node, value) in enumerate(zip(inputs, match.placeholder_nodes, strict=True)):
        if isinstance(value, Node) and value in changed:  # result of an earlier replacement
            key = next(p for p, g in match.nodes_map.items() if g is value)
            match.placeholder_nodes[i] = match.nodes_map[key] = changed[value]
        values[node] = match.placeholder_nodes[i]
    with graph.inserting_before(_find_insertion_point(graph, match)):
        results: Any = graph.graph_copy(new, values)
    results = (results,) if isinstance(results, Node) else results
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs "
                             f"{len(results)}")
    added = [v for v in values.values()
             if isinstance(v, Node) and v not in match.placeholder_nodes]
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        changed[old] = result
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _find_insertion_point(graph: Graph, match: Any) -> Node:
    """Return the first user of the pattern's results, or the node after them."""
    users = {user for node in match.returning_nodes for user in node.users}
    if users:
        return min(users)
    last: Node = max(match.returning_nodes)
    return last.next


def _copy_missing(gm: GraphModule, replacement: Module) -> None:
    """Copy the submodules and attributes that `gm`'s graph uses but `gm` lacks."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or has_attribute(gm, node.target):
            continue
        if not has_attribute(replacement, node.target):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        value = copy.deepcopy(attribute_at(replacement, node.target))
        if isinstance(value, Module):
            gm.add_submodule(node.target, value)
        else:
            setattr(gm, node.target, value)
    gm.graph.lint()
