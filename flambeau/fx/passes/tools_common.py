"""Node queries that passes share: a target's name, and whether the result is a tensor."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from ...nn.module import Module
from ...tensor.tensor import Tensor
from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..qualified_names import qualified_name
from .fusion_groups import CALLABLE_NODE_OPS as CALLABLE_NODE_OPS
from .fusion_groups import FxNetAccFusionsFinder
from .utils.fuser_utils import legalize_graph

__all__ = ["FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target",
           "is_node_output_tensor", "legalize_graph",
           "stable_topological_sort"]

Tensors = tuple[Tensor] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k: str | type) -> str:
    """Return the dotted name of a class or function; return strings unchanged."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    if k.__module__ and k.__module__.startswith("torch._ops"):
        return f"{k.__module__.replace('torch._ops', 'torch.ops')}.{k.__name__}"
    return class_name(k) if isinstance(k, type) else qualified_name(k)


def class_name(cls: type) -> str:
    """Return a class's dotted name, as PyTorch spells it."""
    return f"{cls.__module__.replace('flambeau.', 'torch.', 1)}.{cls.__name__}"


@compatibility(is_backward_compatible=False)
def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """Return a node's target as text: a method name, a function's path, or a module's class."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            "Expect op types of " + ", ".join(CALLABLE_NODE_OPS) + f", but found {node.op}"
        )
    target: Any = node.target
    if node.op == "call_module":
        module = submodules[target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_function":
        if "acc_ops" in (getattr(target, "__module__", None) or ""):
            return f"acc_ops.{target.__name__}"
        return qualified_name(target)
    return str(target)


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Return whether a node's result is a tensor, according to ShapeProp."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Sort nodes topologically, keeping the original order where possible.

    Raises AssertionError if the graph has cycles.
    """
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    waits = {node: len(node.all_input_nodes) for node in place}
    ready = [(i, node) for node, i in place.items() if not waits[node]]
    graph = Graph()
    copies: dict[Node, Node] = {}
    while ready:
        _, node = heapq.heappop(ready)
        copies[node] = graph.node_copy(node, copies.__getitem__)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (place[user], user))
    if len(copies) != len(place):
        stuck = [node for node, count in waits.items() if count]
        raise AssertionError(f"Input graph has cycles, unable to add {stuck}")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm
