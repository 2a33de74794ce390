"""FusionGroup: nodes that share a kernel, and the movement chains to the values they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ..ir.graph import Node, Op, Shape
from ..ir.strided_view import StridedView, make_contiguous_view

MOVEMENTS = frozenset((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.PAD))
ATTENTIONS = frozenset((Op.ATTENTION, Op.ATTENTION_SUMS, Op.ATTENTION_GRADIENT))
RECURRENCES = frozenset((Op.RECURRENCE, Op.RECURRENCE_GRADIENT))
MULTI_RESULT = ATTENTIONS | RECURRENCES  # a kernel computes several such nodes at once
INLINE = MOVEMENTS | {Op.APPLY, Op.CONSTANT, Op.IOTA, Op.TAKE, Op.TAKE_ALONG}
FOLDS = frozenset((Op.REDUCE, Op.SUM_PARTS))
Chain = tuple[Node, ...]  # movements, in the order they are applied


@dataclass(eq=False)
class FusionGroup:
    """Nodes computed by one kernel over one domain.

    `shape`: the extents of its loops. `axes`: those that its reductions remove, empty for pointwise
    work. `contraction`: the matrix product or convolution whose epilogue the other nodes are.
    `special`: a node that is neither (a scan, a concatenation, a call), alone in its group, or the
    first result of an attention or recurrent layer.
    """

    shape: Shape
    axes: tuple[int, ...] = ()
    contraction: Node | None = None
    special: Node | None = None
    nodes: list[Node] = field(default_factory=list)
    position: int = 0  # in order of creation
    before: int = 0  # bit i: group i must run before this one

    @property
    def rows(self) -> Shape:
        """The shape of one number per row: reduced axes have extent 1."""
        return tuple(1 if i in self.axes else n for i, n in enumerate(self.shape))

    def is_number(self, node: Node) -> bool:
        """Whether a node other than a reduction has one number per row, in any shape."""
        if not self.axes or node.op in FOLDS or self.rows == self.shape:
            return False
        return node.shape == self.rows or prod(node.shape) == prod(self.rows) != prod(self.shape)

    @property
    def by_columns(self) -> bool:
        """Whether its reductions keep the last axis, and so accumulate column by column."""
        nonunit = [i for i, n in enumerate(self.shape) if n != 1]
        return bool(self.axes) and bool(nonunit) and nonunit[-1] not in self.axes


def compute_domain(node: Node) -> tuple[Shape, tuple[int, ...]]:
    """The extents of a node's loops, and the axes it reduces."""
    if node.op is Op.REDUCE:
        return node.inputs[0].shape, node.axes
    return get_element(node).shape, ()


def get_element(node: Node) -> Node:
    """The node whose elements a kernel computes: the node itself, or the operand of a SUM_PARTS."""
    return node.inputs[0] if node.op is Op.SUM_PARTS else node


def view_cached(node: Node, op: Op, shape: Shape) -> Node:
    """A node expanded or reshaped to a shape; cached, so that expressions through it are reused."""
    views = node.__dict__.setdefault("views", {})
    if (op, shape) not in views:
        views[op, shape] = Node(op, (node,), shape, node.type)
    view: Node = views[op, shape]
    return view


def broadcast_chain(node: Node, shape: Shape, chain: Chain) -> Chain:
    """Extend a chain to an operand of an operation of this shape, broadcast if shapes differ."""
    return chain if node.shape == shape else (view_cached(node, Op.EXPAND, shape), *chain)


def reshape_chain(node: Node, shape: Shape) -> Chain:
    """The chain that reshapes a node."""
    return () if node.shape == shape else (view_cached(node, Op.RESHAPE, shape),)


def rebase_chain(leaf: Node, shape: Shape, chain: Chain) -> Chain:
    """The same chain, starting from the leaf reshaped to `shape`."""
    if leaf.shape == shape:
        return chain
    return (view_cached(view_cached(leaf, Op.RESHAPE, shape), Op.RESHAPE, leaf.shape), *chain)


def apply_movement(window: StridedView, node: Node) -> StridedView | None:
    """The view after a movement or a TAKE's index; None if strides cannot express it."""
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return view_table(node, window)[0] if window.whole else None
    return window.apply_movement(node)


def view_through(start: StridedView, chain: Chain) -> StridedView | None:
    """The view after a chain of movements; None if strides cannot express it."""
    view: StridedView | None = start
    for node in chain:
        assert view is not None
        view = apply_movement(view, node)
        if view is None:
            return None
    return view


def is_identity(shape: Shape, chain: Chain) -> bool:
    """Whether a chain maps every element to its own position."""
    if not chain:
        return True
    view = view_through(make_contiguous_view(shape), chain)
    return view is not None and view == make_contiguous_view(shape)


def index_chain(node: Node, chain: Chain) -> Chain:
    """The chain of a TAKE's index, given the chain of the TAKE."""
    index = node.inputs[1]
    if node.op is Op.TAKE_ALONG:
        return chain
    shape = (*index.shape, *(1,) * (len(node.shape) - len(index.shape)))
    first = reshape_chain(index, shape)
    last = first[0] if first else index
    return (*first, *broadcast_chain(last, node.shape, ()), *chain)


def view_table(node: Node, table: StridedView) -> tuple[StridedView, int]:
    """For TAKE and TAKE_ALONG: the view of the table without its indexed axis, and the stride of
    that axis. `table` is the view of the whole table."""
    if node.op is Op.TAKE_ALONG:
        strides = list(table.strides)
        strides[node.axis] = 0
        return StridedView(node.shape, tuple(strides), table.offset), table.strides[node.axis]
    count = len(node.inputs[1].shape)
    return StridedView(node.shape, (0,) * count + table.strides[1:], table.offset), table.strides[0]


def find_leaves(
    node: Node, materialized: dict[int, Node], chain: Chain = ()
) -> Iterator[tuple[Node, Chain]]:
    """Yield the materialized values that a node is computed from, each with its chain of movements.

    Looks into the node itself even if it is materialized. The chain of a table contains the TAKE or
    TAKE_ALONG that reads it: from there on, the view is of the row at index 0.
    """
    stack = _list_operands(node, chain)
    seen: set[tuple[Node, Chain]] = set()
    while stack:
        value, movements = key = stack.pop()
        if value.op in (Op.CONSTANT, Op.IOTA) and id(value) not in materialized:
            continue
        if key in seen:
            continue
        seen.add(key)
        if id(value) in materialized or value.op not in INLINE:
            yield value, movements
        else:
            stack.extend(_list_operands(value, movements))


def _list_operands(node: Node, chain: Chain) -> list[tuple[Node, Chain]]:
    if node.op in MOVEMENTS:
        return [(node.inputs[0], (node, *chain))]
    if node.op is Op.APPLY:
        return [(operand, broadcast_chain(operand, node.shape, chain)) for operand in node.inputs]
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return [(node.inputs[1], index_chain(node, chain)), (node.inputs[0], (node, *chain))]
    if node.op is Op.ADD_ROWS:
        return [(operand, reshape_chain(operand, shape))
                for operand, shape in zip(node.inputs, get_row_shapes(node), strict=True)]
    if node.op is Op.SUM_PARTS:
        return [(node.inputs[0], chain)]
    return [(operand, ()) for operand in node.inputs]


def view_partial_sums(node: Node, shape: Shape) -> StridedView | None:
    """Return where SUM_PARTS adds each element of a domain within a part; None if not strided."""
    (a,) = node.inputs
    columns = make_contiguous_view(node.shape[1:]).expand(a.shape)
    return None if columns is None else view_through(columns, reshape_chain(a, shape))


def get_row_shapes(node: Node) -> tuple[Shape, Shape]:
    """The shapes in which ADD_ROWS reads its index and its values: a list, and rows."""
    count = prod(node.inputs[0].shape)
    return (count,), (count, prod(node.shape[1:]))


def iterate_fused_nodes(node: Node, materialized: dict[int, Node]) -> Iterator[Node]:
    """Yield a node and everything its kernel computes for it, including positions (IOTA)."""
    stack, seen = [node], {id(node)}
    while stack:
        current = stack.pop()
        yield current
        for operand in current.inputs:
            inside = operand.op in INLINE and id(operand) not in materialized
            if id(operand) not in seen and (inside or operand.op is Op.IOTA):
                seen.add(id(operand))
                stack.append(operand)
