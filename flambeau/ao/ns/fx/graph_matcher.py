"""torch.ao.ns.fx.graph_matcher: pairs corresponding subgraphs of two models.

Both graphs are read from their results back. Subgraphs at the same place in that order correspond
if their operators are forms of the same one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from ....fx import GraphModule, Node
from ...quantization.fake_quantize import FakeQuantizeBase
from ...quantization.observer import ObserverBase
from ...quantization.utils import getattr_from_fqn
from .mappings import (
    OperatorSets, get_base_name_to_sets_of_related_ops, get_unmatchable_types_map,
)
from .ns_types import NSSubgraph
from .pattern_utils import (
    end_node_matches_reversed_fusion, get_reversed_fusions, get_type_a_related_to_b,
)

__all__ = ["GraphMatchingException", "get_matching_subgraph_pairs"]


class GraphMatchingException(Exception):
    """Two graphs do not correspond."""


def _get_node_target_type(node: Node, gm: GraphModule) -> Any:
    """Return what a node calls: a function, a method's name or a module's class."""
    if node.op in ("call_function", "call_method"):
        return node.target
    return type(getattr_from_fqn(gm, str(node.target))) if node.op == "call_module" else None


def _find_subgraph(end: Node, gm: GraphModule, seen: set[Node]) -> NSSubgraph:
    """Return the chain of operators that ends at a node, or the node alone; mark it as seen."""
    start = base = end
    for chain, base_index in get_reversed_fusions():
        if end_node_matches_reversed_fusion(end, chain, gm, seen):
            for place in range(len(chain) - 2, -1, -1):
                seen.add(start)
                start = start.args[0]  # type: ignore[assignment]
                if place == base_index:
                    base = start
            break
    seen.add(start)
    return NSSubgraph(start, end, base)


def _list_subgraphs(gm: GraphModule, unmatchable: OperatorSets) -> Iterator[NSSubgraph]:
    """Return the subgraphs that can be compared, from the results back."""
    seen: set[Node] = set()
    stack = [node for node in gm.graph.nodes if node.op == "output"]
    while stack:
        end = stack.pop()
        if end in seen:
            continue
        subgraph = _find_subgraph(end, gm, seen)
        stack.extend(subgraph.start_node.all_input_nodes)
        is_lone_observer = end is subgraph.start_node and end.op == "call_module" and isinstance(
            getattr_from_fqn(gm, str(end.target)), ObserverBase | FakeQuantizeBase)
        if _is_matchable(subgraph.base_op_node, gm, unmatchable) and not is_lone_observer:
            yield subgraph


def _is_matchable(node: Node, gm: GraphModule, unmatchable: OperatorSets) -> bool:
    if node.op == "call_module":
        classes: Any = tuple(unmatchable["mods_unmatchable"])
        return not isinstance(getattr_from_fqn(gm, str(node.target)), classes)
    key = {"call_function": "funs_unmatchable", "call_method": "meths_unmatchable"}.get(node.op)
    return key is not None and node.target not in unmatchable[key]


def _are_comparable(a: Node, b: Node) -> bool:
    """Whether two nodes both call modules, or both functions or methods."""
    calls = ("call_function", "call_method")
    return a.op == b.op or (a.op in calls and b.op in calls)


def _describe(subgraph: NSSubgraph | None, gm: GraphModule) -> str:
    called = None if subgraph is None else _get_node_target_type(subgraph.start_node, gm)
    return f"({subgraph}, {called})"


class _Names:
    """Names subgraphs of one graph by the set of their operator and their place in it."""

    def __init__(self, sets: OperatorSets) -> None:
        self.sets, self.uses = sets, Counter[str]()

    def name(self, operator: Any) -> str:
        """Return the next name for a subgraph of this operator."""
        names = [name for name, related in self.sets.items() if operator in related]
        base = f"base_op_{names[-1] if names else None}"
        self.uses[base] += 1
        return f"{base}_{self.uses[base] - 1}"


def get_matching_subgraph_pairs(
    gm_a: GraphModule, gm_b: GraphModule,
    base_name_to_sets_of_related_ops: OperatorSets | None = None,
    unmatchable_types_map: OperatorSets | None = None,
) -> dict[str, tuple[NSSubgraph, NSSubgraph]]:
    """Pair the subgraphs of two graphs, in the order in which they run.

    Args:
        base_name_to_sets_of_related_ops: Sets of operators that are forms of the same one.
        unmatchable_types_map: Operators that are not compared.

    Returns:
        {arbitrary name: (subgraph of a, subgraph of b)}. Operators in none of the sets are left
        out if both graphs call the same one. GraphMatchingException if the graphs differ.
    """
    unmatchable = unmatchable_types_map or get_unmatchable_types_map()
    sets = get_base_name_to_sets_of_related_ops() if base_name_to_sets_of_related_ops is None \
        else base_name_to_sets_of_related_ops
    related = get_type_a_related_to_b(sets)
    names_a, names_b = _Names(sets), _Names(sets)
    pairs: dict[str, tuple[NSSubgraph, NSSubgraph]] = {}
    for a, b in zip_longest(_list_subgraphs(gm_a, unmatchable), _list_subgraphs(gm_b, unmatchable)):
        described = f"\n{_describe(a, gm_a)} and\n{_describe(b, gm_b)}"
        if a is None or b is None:
            raise GraphMatchingException(
                f"\nAttempting to match{described},\none of which is empty. Please ensure that the "
                "two models you pass in have the same number\nof subgraphs.")
        types = (_get_node_target_type(a.base_op_node, gm_a),
                 _get_node_target_type(b.base_op_node, gm_b))
        if not _are_comparable(a.base_op_node, b.base_op_node) or (
                types not in related and types[0] != types[1]):
            raise GraphMatchingException(
                f"\nThe subgraphs{described}\nare not related. Please ensure that the two models "
                "you pass in have the same number\nof subgraphs, and each pair of subgraphs is "
                "related to each other.")
        if types in related:
            name, name_b = names_a.name(types[0]), names_b.name(types[1])
            if name != name_b:
                raise AssertionError(f"Subgraph names {name} and {name_b} do not match")
            pairs[name] = (a, b)
    return OrderedDict(reversed(pairs.items()))
