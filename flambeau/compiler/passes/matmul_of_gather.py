"""Move matrix products before gathers: take(table, i) @ w becomes take(table @ w, i).

Rows that repeat a few rows of a table are multiplied once per table row. Backward is symmetric:
gradients are summed per table row first, and the sums are multiplied. An embedding of a few letters
before a linear or recurrent layer then costs only as many rows as there are letters, in both
directions.
"""

from __future__ import annotations

from ...native.loop_ir.ir import ReduceOp, Type
from ...native.target.graph_costs import MIN_GATHERED_DEPTH, MIN_GATHER_REPEATS
from ..ir.axis_order import invert_permutation
from ..ir.graph import (
    Graph, Node, Op, cast, map_users, matmul, permute, reduce, reshape, rewrite, with_inputs,
    with_origin,
)


def move_matmul_before_gather(graph: Graph) -> Graph:
    """Rewrite products of gathered rows, and scatters of products, in terms of table rows."""
    one_reader = {key for key, readers in map_users(graph.nodes()).items() if len(readers) == 1}
    one_reader -= {id(node) for node in graph.roots()}
    scattered: dict[int, Node] = {}  # ADD_ROWS nodes, by the id of the values they add

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        new = with_inputs(node, inputs)
        if node.op is Op.MATMUL and len(node.shape) == 2:
            return _rewrite_gathered_lhs(new) or _rewrite_weight_gradient(new, scattered) or new
        if node.op is Op.ADD_ROWS and _has_one_reader(node.inputs[1], one_reader):
            return _rewrite_scattered_matmul(new, scattered) or new
        return new

    return _reuse_scattered_sums(rewrite(graph, rule), scattered)


def _collect_movements(node: Node) -> tuple[list[Node], Node]:
    """The movements above a node that keep its last axis, outermost first, and their source."""
    chain = []
    while node.op in (Op.RESHAPE, Op.PERMUTE):
        inner = node.inputs[0]
        last = len(inner.shape) - 1
        stays = (node.axes[-1] == last if node.op is Op.PERMUTE
                 else node.shape[-1:] == inner.shape[-1:])
        if not stays:
            break
        chain.append(node)
        node = inner
    return chain, node


def _match_gather(node: Node) -> tuple[Node, Node] | None:
    """(table, index of each row) if a node gathers rows of a table often enough, else None."""
    chain, below = _collect_movements(node)
    if below.op is not Op.TAKE or len(below.inputs[0].shape) != 2:
        return None
    table, index = below.inputs
    if not node.shape[0] or table.shape[0] * MIN_GATHER_REPEATS > node.shape[0]:
        return None
    for move in reversed(chain):
        if move.op is Op.PERMUTE:
            index = permute(index, move.axes[:-1])
        else:
            index = reshape(index, move.shape[:-1])
    return table, index


def _rewrite_gathered_lhs(node: Node) -> Node | None:
    """Rewrite take(table, i) @ b as take(table @ b, i)."""
    a, b = node.inputs
    gather = _match_gather(a)
    if gather is None or b.shape[0] < MIN_GATHERED_DEPTH:
        return None
    table, index = gather
    product = matmul(table, b, node.precision)
    return with_origin(node, Node(Op.TAKE, (product, index), node.shape, node.type))


def _rewrite_weight_gradient(node: Node, scattered: dict[int, Node]) -> Node | None:
    """Rewrite a @ take(table, i), or take(table, i).T @ b: scatter the other operand, multiply."""
    a, b = node.inputs
    if node.type not in (Type.F32, Type.F64) or min(node.shape) < MIN_GATHERED_DEPTH:
        return None
    gather = _match_gather(b)
    if gather is not None:
        table, index = gather
        values = a.inputs[0] if a.op is Op.PERMUTE else permute(a, (1, 0))
        sums = _scatter_add(index, values, table.shape[0], scattered)
        return with_origin(node, matmul(permute(sums, (1, 0)), table, node.precision))
    gather = _match_gather(a.inputs[0]) if a.op is Op.PERMUTE else None
    if gather is None:
        return None
    table, index = gather
    sums = _scatter_add(index, b, table.shape[0], scattered)
    return with_origin(node, matmul(permute(table, (1, 0)), sums, node.precision))


def _rewrite_scattered_matmul(node: Node, scattered: dict[int, Node]) -> Node | None:
    """Rewrite scattered rows of a @ b as (scattered rows of a) @ b."""
    index, values = node.inputs
    chain, below = _collect_movements(values)
    if below.op is not Op.MATMUL or len(below.shape) != 2 or len(node.shape) != 2:
        return None
    a, b = below.inputs
    if len(index.shape) != 1 or b.shape[1] < MIN_GATHERED_DEPTH:
        return None
    if node.shape[0] * MIN_GATHER_REPEATS > index.shape[0]:
        return None
    for move in chain:
        if move.op is Op.PERMUTE:
            back = invert_permutation(move.axes[:-1])  # the last axis stays last
            index = permute(reshape(index, move.shape[:-1]), back)
        else:
            index = reshape(index, move.inputs[0].shape[:-1])
    sums = _scatter_add(index, a, node.shape[0], scattered)
    return with_origin(node, matmul(sums, b, below.precision))


def _scatter_add(index: Node, values: Node, count: int, scattered: dict[int, Node]) -> Node:
    """Sum the rows of `values` per table row; a second request returns the same node."""
    known = scattered.get(id(values))
    if known is not None and known.shape[0] == count and _is_same_index(known.inputs[0], index):
        return known
    flat = reshape(cast(index, Type.I64), (values.shape[0],))
    node = Node(Op.ADD_ROWS, (flat, values), (count, values.shape[1]), values.type,
                origin=values.origin)
    scattered[id(values)] = node
    return node


def _is_same_index(a: Node, b: Node) -> bool:
    """Whether two indices are the same movements of the same node. May miss equal indices."""
    while a is not b:
        if a.op is Op.RESHAPE:
            a = a.inputs[0]
        elif b.op is Op.RESHAPE:
            b = b.inputs[0]
        elif a.op is b.op is Op.PERMUTE and a.axes == b.axes:
            a, b = a.inputs[0], b.inputs[0]
        else:
            return False
    return True


def _reuse_scattered_sums(graph: Graph, scattered: dict[int, Node]) -> Graph:
    """Rewrite sums over all rows as sums of the scattered rows, which are fewer."""
    nodes = {id(node) for node in graph.nodes()}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is Op.REDUCE and node.fold is ReduceOp.SUM and node.axes == (0,):
            sums = scattered.get(id(node.inputs[0]))
            if sums is not None and id(sums) in nodes:
                return reduce(sums, ReduceOp.SUM, (0,))
        return with_inputs(node, inputs)

    return rewrite(graph, rule)


def _has_one_reader(node: Node, one_reader: set[int]) -> bool:
    """Whether nothing else reads a value or the value it is moved from."""
    chain, below = _collect_movements(node)
    return all(id(moved) in one_reader for moved in (*chain, below))
