"""Sizes of the values in a graph, and replacing what nodes call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...tensor.tensor import Tensor
from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..node import Node, Target
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta",
           "replace_target_nodes_with", "size_bytes"]


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):  # PyTorch's name
    """The bytes of a node's result, and of these with its parameters and inputs."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Has the nodes of a kind that call one thing call another."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target
    fx_module.recompile()


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(
    fx_module: GraphModule, args: Sequence[Tensor] | None = None
) -> None:
    """Note each node's bytes as `node.size_bytes`; with `args` after a run on these inputs."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> TensorMetadata:
    """What ShapeProp noted of a node's tensor."""
    meta: TensorMetadata | None = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return meta


def _bytes_of(meta: TensorMetadata) -> int:
    return meta.shape.numel() * meta.dtype.itemsize


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of one node's result, and of what it computes with."""
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        total += sum(p.numel() * p.element_size() for _, p in module.named_parameters())
    output_bytes = _bytes_of(get_tensor_meta(node))
    return size_bytes(output_bytes, total + output_bytes)
