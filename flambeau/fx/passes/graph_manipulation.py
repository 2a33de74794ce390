"""Compute the sizes of a graph's values, and replace the targets of nodes."""

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
    """Bytes of a node's result, and the same plus its module's parameters."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Replace `old_op`/`old_target` by `new_op`/`new_target` in all nodes, and recompile."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target
    fx_module.recompile()


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(
    fx_module: GraphModule, args: Sequence[Tensor] | None = None
) -> None:
    """Set each node's `size_bytes`; given `args`, first run shape propagation on them."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> TensorMetadata:
    """Return the tensor metadata ShapeProp recorded. RuntimeError if there is none."""
    meta: TensorMetadata | None = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return meta


def _count_bytes(meta: TensorMetadata) -> int:
    return meta.shape.numel() * meta.dtype.itemsize


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the bytes of a node's result, alone and with its module's parameters."""
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        total += sum(p.numel() * p.element_size() for _, p in module.named_parameters())
    output_bytes = _count_bytes(get_tensor_meta(node))
    return size_bytes(output_bytes, total + output_bytes)
