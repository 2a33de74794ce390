"""depth_parts: products that are small beside their depth, in parts of the depth.

A weight's gradient is a sum over all rows of a batch. Many threads that share out its elements
each bring most of both operands near; with rows of their own each brings those alone, and the parts
are added up afterwards.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ...native.loop_ir.ir import Fold, Type
from ...native.runtime.thread_pool import threads
from ...native.target.load_balance import FEW
from ..ir.graph import Graph, Node, Op, matmul, permute, rebuilt, reduce, reshape, same

DEEP = 256  # steps of the depth in a part, at least
GAIN = 0.85  # of the cost, which parts must save more than
ROWS, COLUMNS = 8, 48  # of a tile
TILE, COLUMN, ROW, SUM = 24, 1, 1, 1  # costs: of a step of a tile, of bringing a step of one
# column and of one row near, and of writing or reading a number of a part
START = 1 << 14  # of one more kernel


def depth_parts(graph: Graph) -> Graph:
    """The graph with such products made in parts, where there are many threads."""
    count = threads()
    if count <= FEW:
        return graph
    return rebuilt(graph, lambda node, inputs: _in_parts(same(node, inputs), count))


def _in_parts(node: Node, count: int) -> Node:
    if node.op is not Op.MATMUL or node.type is not Type.F32 or prod(node.shape[:-2]) != 1:
        return node
    m, n, k = node.shape[-2], node.shape[-1], node.inputs[0].shape[-1]
    parts, blocks = best_parts(m, n, k, count)
    return node if parts == 1 else made_in_parts(node, parts, blocks)


def best_parts(m: int, n: int, k: int, threads: int) -> tuple[int, int]:
    """Into how many parts the depth is cut, and into how many blocks each one's rows; (1, 1)
    where threads had better share out rows and columns."""
    best, least = (1, 1), GAIN * shared_cost(m, n, k, threads)
    depths = [p for p in range(2, threads + 1) if k % p == 0 and k // p >= DEEP]
    for parts, blocks in product(depths, [r for r in range(1, threads + 1) if m % r == 0]):
        if threads // 2 < parts * blocks <= 2 * threads:
            cost = parts_cost(m, n, k, threads, parts, blocks)
            if cost < least:
                best, least = (parts, blocks), cost
    return best


def shared_cost(m: int, n: int, k: int, threads: int) -> float:
    """Of the largest share of rows and columns, on the best grid."""
    groups, panels = -(-m // ROWS), -(-n // COLUMNS)
    return min(_cost(-(-groups // down), -(-panels // across), k)
               for across in range(1, threads + 1) for down in [threads // across])  # fmt: skip


def parts_cost(m: int, n: int, k: int, threads: int, parts: int, blocks: int) -> float:
    """Of a thread's parts of the depth, and of its share of adding them up."""
    rounds = -(-parts * blocks // threads)
    one = _cost(-(-m // blocks // ROWS), -(-n // COLUMNS), k // parts)
    return rounds * one + 2 * SUM * m * n * parts / threads + START


def _cost(groups: int, panels: int, depth: int) -> float:
    near = groups * ROWS * ROW + panels * COLUMNS * COLUMN
    return depth * (groups * panels * TILE + near)


def made_in_parts(node: Node, parts: int, blocks: int) -> Node:
    """A product of matrices in so many parts of its depth, and blocks of its rows."""
    a, b = node.inputs
    m, n, k = node.shape[-2], node.shape[-1], a.shape[-1]
    rows = reshape(a, (blocks, m // blocks, parts, k // parts))
    left, right = permute(rows, (2, 0, 1, 3)), reshape(b, (parts, 1, k // parts, n))
    made = matmul(left, right, node.precision)
    total = reduce(made, Fold.SUM, (0,))
    whole = reshape(total, node.shape)
    for one in (rows, left, right, made, total, whole):
        one.origin = node.origin
    return whole
