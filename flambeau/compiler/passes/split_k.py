"""Split-K: cut matrix products that are small beside their depth into parts of the depth.

A weight gradient is a sum over all rows of a batch. Threads that share its elements each load most
of both operands; threads that own rows of the batch load only those, and the partial products are
added afterwards. Pays with more threads than the result has tiles. Cost: writing and adding parts.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ...native.loop_ir.ir import ReduceOp, Type
from ...native.runtime.thread_pool import threads
from ...native.target.graph_costs import (
    MAX_SPLIT_K_RELATIVE_COST, MIN_SPLIT_K_DEPTH, split_cost, unsplit_cost,
)
from ...native.target.load_balance import TYPICAL_THREADS
from ..ir.graph import Graph, Node, matmul, permute, reduce, reshape, with_origin
from .pattern import RuleSet, op, rule


def split_k(graph: Graph) -> Graph:
    """Split products where more threads run than one product keeps busy."""
    return graph if threads() <= TYPICAL_THREADS else _RULES.rewrite(graph)


@rule(op.MATMUL())
def _split(node: Node) -> Node | None:
    """Rewrite a @ b as a sum over parts of the depth when its tiles keep few threads busy."""
    if node.type is not Type.F32 or prod(node.shape[:-2]) != 1:
        return None
    m, n, k = node.shape[-2], node.shape[-1], node.inputs[0].shape[-1]
    parts, blocks = choose_split(m, n, k, threads())
    return None if parts == 1 else split_matmul(node, parts, blocks)


_RULES = RuleSet(_split)


def choose_split(m: int, n: int, k: int, threads: int) -> tuple[int, int]:
    """(parts of the depth, row blocks of each part); (1, 1) where splitting does not pay."""
    best, best_cost = (1, 1), MAX_SPLIT_K_RELATIVE_COST * unsplit_cost(m, n, k, threads)
    depths = [p for p in range(2, threads + 1) if k % p == 0 and k // p >= MIN_SPLIT_K_DEPTH]
    for parts, blocks in product(depths, [r for r in range(1, threads + 1) if m % r == 0]):
        if threads // 2 < parts * blocks <= 2 * threads:
            cost = split_cost(m, n, k, threads, parts, blocks)
            if cost < best_cost:
                best, best_cost = (parts, blocks), cost
    return best


def split_matmul(node: Node, parts: int, blocks: int) -> Node:
    """The product as a sum over `parts` of its depth, each in `blocks` of rows."""
    a, b = node.inputs
    m, n, k = node.shape[-2], node.shape[-1], a.shape[-1]
    rows = reshape(a, (blocks, m // blocks, parts, k // parts))
    left, right = permute(rows, (2, 0, 1, 3)), reshape(b, (parts, 1, k // parts, n))
    partial = matmul(left, right, node.precision)
    total = reduce(partial, ReduceOp.SUM, (0,))
    return with_origin(node, reshape(total, node.shape), total, partial, left, right, rows)
