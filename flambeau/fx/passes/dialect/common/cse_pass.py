"""CSEPass: common subexpression elimination, for graphs of functional operators."""

from __future__ import annotations

from typing import Any

from .....ops.core.aten import aten
from .....utils import _pytree as pytree
from ...._compatibility import compatibility
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = ("dropout", "_fused_dropout", "_standard_gamma", "bernoulli", "multinomial",
           "native_dropout", "normal", "poisson", "binomial", "rrelu", "rand_like", "rand",
           "randint", "randn", "randperm")
_IN_PLACE = ("add_", "sub_", "mul_", "div_", "pow_", "lerp_", "relu_", "sigmoid_", "tanh_")
rand_ops = {getattr(aten, name) for name in _RANDOM}
inplace_ops = {getattr(aten, name) for name in _IN_PLACE}


@compatibility(is_backward_compatible=False)
def get_CSE_banned_ops() -> set[Any]:
    """Return the operators that must not be merged: random and in-place ones."""
    return rand_ops | inplace_ops


@compatibility(is_backward_compatible=False)
class CSEPass(PassBase):
    """Merges nodes that compute the same value; never merges calls of `banned_ops`."""

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops or set()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a new module, and whether any nodes were merged."""
        graph = Graph()
        copies: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            target: Any = getattr(node.target, "overloadpacket", node.target)
            banned = node.op in ("placeholder", "output", "get_attr") or target in self.banned_ops
            key = None if banned else self._key(node, copies)
            if key is not None and key in known:
                copies[node] = known[key]
                modified = True
                continue
            copies[node] = graph.node_copy(node, lambda n: copies[n])
            if key is not None:
                known[key] = copies[node]
        return PassResult(GraphModule(graph_module, graph), modified)

    @staticmethod
    def _key(node: Node, copies: dict[Node, Node]) -> Any:
        """Return a key shared by equal calls, or None if the arguments are not hashable."""
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        values = tuple((copies.get(x, x) if isinstance(x, Node) else x, type(x)) for x in leaves)
        key = (node.target, values, repr(spec))
        try:
            hash(key)
        except TypeError:
            return None
        return key
