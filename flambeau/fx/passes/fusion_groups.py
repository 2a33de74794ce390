"""FxNetAccFusionsFinder: group the accelerator's nodes that pass values other than tensors."""

from __future__ import annotations

from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["FxNetAccFusionsFinder"]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Finds groups of nodes that must stay together because non-tensors flow between them.

    Arguments:
        module: a graph module whose nodes ShapeProp has annotated; a node without
            `meta["tensor_meta"]` has a result that is no tensor.
        acc_nodes: the accelerator's nodes. A group that contains any other node is removed
            from this set.

    Groups never overlap, and no value leaves a group and comes back.

    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> from flambeau.fx.passes.tools_common import FxNetAccFusionsFinder
    >>> gm = torch.fx.symbolic_trace(lambda x: x.view(x.size(0), -1))
    >>> _ = ShapeProp(gm).propagate(torch.ones(2, 3))
    >>> calls = {n for n in gm.graph.nodes if n.op == "call_method"}
    >>> sorted(n.name for n in FxNetAccFusionsFinder(gm, calls)()[next(iter(calls))])
    ['size', 'view']
    """

    def __init__(self, module: GraphModule, acc_nodes: set[Node]) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.node_index = {node: i for i, node in enumerate(self.nodes)}
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, set[Node]]:
        """Return the group of each node that belongs to one."""
        groups: list[set[Node]] = []
        for seed in sorted(self.acc_nodes, key=self.node_index.__getitem__):
            if _is_tensor(seed) or any(seed in group for group in groups):
                continue
            group, separate = self._close({seed}), groups
            while overlapping := [g for g in separate if g & group]:
                separate = [g for g in separate if not g & group]
                group = self._close(group.union(*overlapping))
            groups = [*separate, group]
        result: dict[Node, set[Node]] = {}
        for group in groups:
            if group <= self.acc_nodes:
                result |= dict.fromkeys(group, group)
            else:
                self.acc_nodes -= group
        return result

    def _close(self, group: set[Node]) -> set[Node]:
        """Return the smallest group around `group` that no non-tensor enters or leaves."""
        size = 0
        while size != len(group):
            size = len(group)
            for node in list(group):
                group.update(n for n in node.all_input_nodes
                             if n.op in CALLABLE_NODE_OPS and not _is_tensor(n))
                if not _is_tensor(node):
                    group.update(n for n in node.users if n.op in CALLABLE_NODE_OPS)
            group |= self._find_between(group)
        return group

    def _find_between(self, group: set[Node]) -> set[Node]:
        """Return the nodes on paths from one member of a group to another."""
        positions = sorted(self.node_index[node] for node in group)
        stretch = self.nodes[positions[0]:positions[-1] + 1]
        below = set(group)  # reached from a member
        for node in stretch:
            if not below.isdisjoint(node.all_input_nodes):
                below.add(node)
        above = set(group)  # reaches a member
        for node in reversed(stretch):
            if not above.isdisjoint(node.users):
                above.add(node)
        return {n for n in below & above if n.op in CALLABLE_NODE_OPS}


def _is_tensor(node: Node) -> bool:
    return "tensor_meta" in node.meta
