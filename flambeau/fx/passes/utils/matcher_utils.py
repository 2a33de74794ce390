"""SubgraphMatcher: find the occurrences of a small graph in a large one, by data flow."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ....ops.core import aten
from ....tensor.tensor import Tensor
from ..._compatibility import compatibility
from ...graph import Graph
from ...module_paths import attribute_at
from ...node import Node
from .fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@compatibility(is_backward_compatible=False)
@dataclass
class InternalMatch:
    """One match: maps each pattern node to a graph node."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(self.anchors, self.nodes_map.copy(), self.placeholder_nodes.copy(),
                             self.returning_nodes.copy())


@compatibility(is_backward_compatible=False)
class SubgraphMatcher:
    """Finds a pattern in a graph.

    `match_output`: the pattern's output must be the graph's output. `match_placeholder`: the
    pattern's placeholders must match placeholders; otherwise they match anything.
    `ignore_literals`: literals may differ.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output = pattern, match_output
        self.match_placeholder, self.ignore_literals = match_placeholder, ignore_literals
        self.remove_overlapping_matches = remove_overlapping_matches
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = [output] if match_output else [
            n for n in output.all_input_nodes if len(n.users) == 1
        ]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches whose inner values are not used outside, in graph order.

        `node_name_match`: nodes whose name contains it match regardless of what they do.
        """
        candidates = [
            (anchor, [n for n in graph.nodes if self._is_like(anchor, n, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        candidates = [(anchor, nodes) for anchor, nodes in candidates if nodes]
        matches = []
        if candidates:
            start = InternalMatch(anchors=self.pattern_anchors)
            for match in self._search(candidates, start, node_name_match):
                inner = [g for p, g in match.nodes_map.items()
                         if p.op not in ("placeholder", "output")]
                if self._is_contained(match.nodes_map) and validate_partition(inner):
                    matches.append(match)
        return _drop_overlaps(matches) if self.remove_overlapping_matches else matches

    def _search(
        self, candidates: list[tuple[Node, list[Node]]], match: InternalMatch, name: str
    ) -> Iterator[InternalMatch]:
        """Yield the ways to extend `match` by the remaining anchors."""
        if not candidates:
            match.placeholder_nodes = [match.nodes_map[p] for p in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
            yield match
            return
        (anchor, nodes), *rest = candidates
        for node in nodes:
            attempt = copy.copy(match)
            if self._match_nodes(anchor, node, attempt, name):
                yield from self._search(rest, attempt, name)

    def _is_like(self, p: Node, g: Node, name: str) -> bool:
        """Return whether two nodes do the same, ignoring their arguments."""
        if p.op == "placeholder" and not self.match_placeholder:
            return True
        if name and name in g.name:
            return True
        if p.op != g.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            return _have_same_attribute_kind(p, g)
        return p.target == g.target

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        inner = {g: p for p, g in nodes_map.items() if p.op != "placeholder"}
        return all(
            user in inner
            for g, p in inner.items() if p not in self.pattern_returning_nodes
            for user in g.users
        )

    def _match_nodes(self, p: Node, g: Node, match: InternalMatch, name: str = "") -> bool:
        if p in match.nodes_map:
            return match.nodes_map[p] is g
        if any(g is other for other in match.nodes_map.values()) or not self._is_like(p, g, name):
            return False
        match.nodes_map[p] = g
        if p.op == "placeholder":
            return True
        pair = _align_arguments(p, g)
        return pair is not None and self._match_lists(*pair, match)

    def _match_lists(self, ps: Any, gs: Any, match: InternalMatch) -> bool:
        return len(ps) == len(gs) and all(self._match_values(p, g, match)
                                          for p, g in zip(ps, gs, strict=True))

    def _match_values(self, p: Any, g: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node) and isinstance(g, Node):
            return self._match_nodes(p, g, match)
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return self._match_lists(p, g, match)
        return self._match_literals(p, g, match) or self.ignore_literals

    @staticmethod
    def _match_literals(p: Any, g: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node):
            if p.op != "placeholder":
                return False
            return match.nodes_map.setdefault(p, g) == g
        return not isinstance(g, Node) and type(g) is type(p) and g == p


def _align_arguments(p: Node, g: Node) -> tuple[list[Any], list[Any]] | None:
    """Return the arguments of both nodes in the same order, or None if they do not correspond."""
    if len(p.args) == len(g.args) and list(p.kwargs) == list(g.kwargs):
        return [*p.args, *p.kwargs.values()], [*g.args, *g.kwargs.values()]
    if p.op == "call_function" and isinstance(p.target, aten.Overload):
        from ...operator_schemas import normalize_function

        both: Any = [
            normalize_function(n.target, n.args, n.kwargs, normalize_to_only_use_kwargs=True)
            for n in (p, g)
        ]
        if None not in both:
            return list(both[0].kwargs.values()), list(both[1].kwargs.values())
    return None


def _have_same_attribute_kind(p: Node, g: Node) -> bool:
    values = [attribute_at(n.graph.owning_module, str(n.target)) for n in (p, g)]
    if type(values[0]) is not type(values[1]):
        return False
    if not isinstance(values[0], Tensor):
        raise RuntimeError(f"Unsupported type {values[0]} when matching attributes")
    return True


def _drop_overlaps(matches: list[InternalMatch]) -> list[InternalMatch]:
    """Drop each match that shares nodes with an earlier one."""
    chosen: list[InternalMatch] = []
    covered: set[Node] = set()
    for match in matches:
        nodes = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "output")}
        if not nodes & covered:
            chosen.append(match)
            covered |= nodes
    return chosen
