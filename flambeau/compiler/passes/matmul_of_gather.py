"""gathered_products: products of rows that repeat a few rows of a table, as products of the table.

table[index] @ w is (table @ w)[index], and rows that are added to a table's gradient are added up
first and multiplied then. So an embedding of few letters before a linear or recurrent layer costs
as many rows as there are letters, in both directions.
"""

from __future__ import annotations

from ...native.loop_ir.ir import Fold, Type
from ..ir.graph import Graph, Node, Op, cast, matmul, permute, rebuilt, reduce, reshape, same, users

OFTEN = 4  # how often a row comes, on average, where it is worth it
DEEP = 16  # multiplications that are saved for an element that is gathered


def gathered_products(graph: Graph) -> Graph:
    """The graph with such products taken of tables."""
    alone = {key for key, readers in users(graph.nodes()).items() if len(readers) == 1}
    alone -= {id(node) for node in graph.roots()}
    added: dict[int, Node] = {}  # by what is added: rows added up

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = same(node, inputs)
        if node.op is Op.MATMUL and len(node.shape) == 2:
            return _of_rows(made) or _of_columns(made, added) or made
        if node.op is Op.ADD_ROWS and _lone(node.inputs[1], alone):
            return _added_first(made, added) or made
        return made

    return _sums_of_rows(rebuilt(graph, rule), added)


def _movements(node: Node) -> tuple[list[Node], Node]:
    """Movements that leave the last axis alone, last one first, and what is below them."""
    found = []
    while node.op in (Op.RESHAPE, Op.PERMUTE):
        inner = node.inputs[0]
        last = len(inner.shape) - 1
        stays = (node.axes[-1] == last if node.op is Op.PERMUTE
                 else node.shape[-1:] == inner.shape[-1:])  # fmt: skip
        if not stays:
            break
        found.append(node)
        node = inner
    return found, node


def _gathered(node: Node) -> tuple[Node, Node] | None:
    """(table, index of each row) of rows that were taken from a table, or None."""
    chain, below = _movements(node)
    if below.op is not Op.TAKE or len(below.inputs[0].shape) != 2:
        return None
    table, index = below.inputs
    if not node.shape[0] or table.shape[0] * OFTEN > node.shape[0]:
        return None
    for one in reversed(chain):
        if one.op is Op.PERMUTE:
            index = permute(index, one.axes[:-1])
        else:
            index = reshape(index, one.shape[:-1])
    return table, index


def _of_rows(node: Node) -> Node | None:
    a, b = node.inputs
    found = _gathered(a)
    if found is None or b.shape[0] < DEEP:
        return None
    table, index = found
    product = matmul(table, b, node.precision)
    return _named(Node(Op.TAKE, (product, index), node.shape, node.type), node)


def _of_columns(node: Node, added: dict[int, Node]) -> Node | None:
    """a @ rows, or rows.T @ b: what is added up for each row of the table, with the table."""
    a, b = node.inputs
    if node.type not in (Type.F32, Type.F64) or min(node.shape) < DEEP:
        return None
    found = _gathered(b)
    if found is not None:
        table, index = found
        values = a.inputs[0] if a.op is Op.PERMUTE else permute(a, (1, 0))
        total = _added(index, values, table.shape[0], added)
        return _named(matmul(permute(total, (1, 0)), table, node.precision), node)
    found = _gathered(a.inputs[0]) if a.op is Op.PERMUTE else None
    if found is None:
        return None
    table, index = found
    total = _added(index, b, table.shape[0], added)
    return _named(matmul(permute(table, (1, 0)), total, node.precision), node)


def _added_first(node: Node, added: dict[int, Node]) -> Node | None:
    """Rows of a product added up: the product of rows added up."""
    index, values = node.inputs
    chain, below = _movements(values)
    if below.op is not Op.MATMUL or len(below.shape) != 2 or len(node.shape) != 2:
        return None
    a, b = below.inputs
    if len(index.shape) != 1 or node.shape[0] * OFTEN > index.shape[0] or b.shape[1] < DEEP:
        return None
    for one in chain:
        inner = one.inputs[0]
        if one.op is Op.PERMUTE:
            back = tuple(one.axes.index(i) for i in range(len(one.axes) - 1))
            index = permute(reshape(index, one.shape[:-1]), back)
        else:
            index = reshape(index, inner.shape[:-1])
    return _named(matmul(_added(index, a, node.shape[0], added), b, below.precision), node)


def _added(index: Node, values: Node, count: int, added: dict[int, Node]) -> Node:
    found = added.get(id(values))
    if found is not None and found.shape[0] == count and _same_index(found.inputs[0], index):
        return found
    flat = reshape(cast(index, Type.I64), (values.shape[0],))
    made = Node(Op.ADD_ROWS, (flat, values), (count, values.shape[1]), values.type,
                origin=values.origin)  # fmt: skip
    added[id(values)] = made
    return made


def _same_index(a: Node, b: Node) -> bool:
    """Whether two indices are the same places of one memory, as far as is easily seen."""
    while a is not b:
        pairs = [(len(n.inputs) == 1 and n.op in (Op.RESHAPE, Op.PERMUTE), n) for n in (a, b)]
        if a.op is Op.RESHAPE:
            a = a.inputs[0]
        elif b.op is Op.RESHAPE:
            b = b.inputs[0]
        elif a.op is b.op is Op.PERMUTE and a.axes == b.axes and all(p for p, _ in pairs):
            a, b = a.inputs[0], b.inputs[0]
        else:
            return False
    return True


def _sums_of_rows(graph: Graph, added: dict[int, Node]) -> Graph:
    """Sums over all rows, of what was added up already."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is Op.REDUCE and node.fold is Fold.SUM and node.axes == (0,):
            total = added.get(id(node.inputs[0]))
            if total is not None and id(total) in there:
                return reduce(total, Fold.SUM, (0,))
        return same(node, inputs)

    there = {id(node) for node in graph.nodes()}
    return rebuilt(graph, rule)


def _lone(node: Node, alone: set[int]) -> bool:
    """Whether a value and what it is moved from have one reader."""
    chain, below = _movements(node)
    return all(id(one) in alone for one in (*chain, below))


def _named(made: Node, node: Node) -> Node:
    made.origin = node.origin
    return made
