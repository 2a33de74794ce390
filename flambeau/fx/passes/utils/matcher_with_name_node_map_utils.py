"""SubgraphMatcherWithNameNodeMap: match a pattern that names some of its nodes in its output."""

from __future__ import annotations

from typing import Any

from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node, map_arg
from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_names(pattern: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Remove the name dict from the pattern's output; return the pattern and the dict."""
    output = pattern.graph.output_node()
    results: Any = output.args[0]
    if not isinstance(results, tuple) or not results or not isinstance(results[-1], dict):
        raise AssertionError(
            "Expecting the pattern graph to have output: *outputs, name_node_map"
        )
    *values, names = results
    with pattern.graph.inserting_before(output):
        new = pattern.graph.output(tuple(values) if len(values) != 1 else values[0])
    new.meta = output.meta.copy()
    pattern.graph.erase_node(output)
    pattern.recompile()
    return pattern, dict(names)


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """SubgraphMatcher for patterns that return `*results, {name: value}`."""

    def __init__(
        self, pattern_gm: GraphModule, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_names(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder,
                         remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches, each with a map from name to matched node."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map = {
                name: map_arg(node, match.nodes_map.__getitem__)
                for name, node in self.name_node_map.items()
            }
        return matches
