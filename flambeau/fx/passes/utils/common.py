"""Extract parts of a graph as submodules, and compare graphs."""

from __future__ import annotations

from ....nn.module import Module
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """A module that only holds submodules."""

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Return a module that runs `subgraph`, and the new path of each attribute taken from `gm`."""
    root = HolderModule({})
    paths: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *above, name = node.target.split(".")
        source: Module = gm
        to: Module = root
        for part in above:
            if not hasattr(to, part):
                to.add_module(part, HolderModule({}))
            source, to = getattr(source, part), getattr(to, part)
        paths[node.target] = f"{comp_name}.{node.target}"
        setattr(to, name, getattr(source, name))
    return GraphModule(root, subgraph, class_name), paths


@compatibility(is_backward_compatible=False)
def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same nodes, inputs, outputs and edges."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
