"""Merge products that share their right operand into one product of stacked left operands."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from ...nn.module import Module
from ...ops.linalg.matmul import matmul
from ...ops.view.join import cat
from ...ops.view.sections import split
from ...tensor.tensor import Tensor
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph
from ..proxy import Proxy

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Split a merged product into the rows of each left operand."""
    rows = [0] * len(inputs) if isinstance(result, Proxy) else [x.shape[0] for x in inputs]
    parts: tuple[Tensor, ...] = split(result, rows)
    return parts


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Tell whether `a` depends on `b`; True too if the search would go deeper than allowed."""
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    return not search_depth or any(may_depend_on(n, b, search_depth - 1)
                                   for n in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Tell whether no node depends on another."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a)
                   for a, b in itertools.combinations(nodes, 2))


def merge_matmul(in_mod: Module) -> GraphModule:
    """Trace a module and merge `torch.matmul` calls that share their right operand.

    The left operands are stacked along their first axis, so they need equal other axes.

    >>> from flambeau.fx.experimental.merge_matmul import merge_matmul
    >>> class Two(nn.Module):
    ...     def forward(self, a, b, c):
    ...         return torch.matmul(a, c) + torch.matmul(b, c)
    >>> gm = merge_matmul(Two())
    >>> sum(node.target is torch.matmul for node in gm.graph.nodes)
    1
    """
    gm = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is matmul:
            by_right.setdefault(_identity(node.args[1]), []).append(node)
    for products in by_right.values():
        if len(products) > 1 and are_nodes_independent(products):
            _merge(gm, products)
            legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm


def _identity(operand: Any) -> Any:
    """Return an attribute's path, as several nodes may read it, or the node."""
    return operand.target if operand.op == "get_attr" else operand


def _merge(gm: GraphModule, products: list[Node]) -> None:
    graph = gm.graph
    left = [product.args[0] for product in products]
    merged = graph.call_function(
        matmul, (graph.call_function(cat, (left,)), products[0].args[1]))
    parts = graph.call_function(split_result_tensors, (merged, left))
    for i, product in enumerate(products):
        product.replace_all_uses_with(graph.call_function(operator.getitem, (parts, i)))
        graph.erase_node(product)
