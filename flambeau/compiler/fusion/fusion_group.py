"""Group: nodes that become one kernel, and the chains of movements to what they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ..ir.graph import Node, Op, Shape
from ..ir.strided_view import Window, whole

MOVEMENTS = frozenset((Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.PAD))
ATTENTIONS = frozenset((Op.ATTENTION, Op.ATTENTION_SUMS, Op.ATTENTION_GRADIENT))
RECURRENCES = frozenset((Op.RECURRENCE, Op.RECURRENCE_GRADIENT))
TOGETHER = ATTENTIONS | RECURRENCES  # one kernel computes several such nodes
INLINE = MOVEMENTS | {Op.APPLY, Op.CONSTANT, Op.IOTA, Op.TAKE, Op.TAKE_ALONG}
FOLDS = frozenset((Op.REDUCE, Op.SUM_PARTS))
Chain = tuple[Node, ...]  # movements, in the order in which they are applied


@dataclass(eq=False)
class Group:
    """Nodes computed by one kernel over one domain.

    `shape`: the extents of its loops. `axes`: those that its reductions fold, empty for pointwise
    work. `contraction`: the matrix product or convolution whose epilogue the others are.
    `special`: the one node of a group that is neither (a scan, a concatenation, a call ...), or
    the first of those of one attention or recurrent layer.
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
        """The shape of a value that is one number a row: folded axes have extent 1."""
        return tuple(1 if i in self.axes else n for i, n in enumerate(self.shape))

    def is_number(self, node: Node) -> bool:
        """Whether a node that is no fold has one number for each row, in whatever shape."""
        if not self.axes or node.op in FOLDS or self.rows == self.shape:
            return False
        return node.shape == self.rows or prod(node.shape) == prod(self.rows) != prod(self.shape)

    @property
    def by_columns(self) -> bool:
        """Whether its reductions keep the last axis, and so go over memory column by column."""
        wide = [i for i, n in enumerate(self.shape) if n != 1]
        return bool(self.axes) and bool(wide) and wide[-1] not in self.axes


def domain(node: Node) -> tuple[Shape, tuple[int, ...]]:
    """The loops that a node needs, and which of them it folds."""
    if node.op is Op.REDUCE:
        return node.inputs[0].shape, node.axes
    return element(node).shape, ()


def element(node: Node) -> Node:
    """What a kernel works out at each element for a node: itself, or what is added up in parts."""
    return node.inputs[0] if node.op is Op.SUM_PARTS else node


def shown(node: Node, op: Op, shape: Shape) -> Node:
    """A node stretched or reshaped to a shape; the same object each time, so that values built
    through it are known again."""
    views = node.__dict__.setdefault("views", {})
    found = views.get((op, shape))
    if found is None:
        found = views[op, shape] = Node(op, (node,), shape, node.type)
    return found


def stretched(node: Node, shape: Shape, chain: Chain) -> Chain:
    """The chain for an operand of an operation of this shape, stretched where its extent is 1."""
    return chain if node.shape == shape else (shown(node, Op.EXPAND, shape), *chain)


def reshaping(node: Node, shape: Shape) -> Chain:
    """The chain that shows a node in another shape."""
    return () if node.shape == shape else (shown(node, Op.RESHAPE, shape),)


def reshaping_away(leaf: Node, shape: Shape, chain: Chain) -> Chain:
    """A chain that starts from a leaf shown in `shape`."""
    if leaf.shape == shape:
        return chain
    return (shown(shown(leaf, Op.RESHAPE, shape), Op.RESHAPE, leaf.shape), *chain)


def moved(window: Window, node: Node) -> Window | None:
    """A window after a movement, or after a TAKE's index."""
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return table_window(node, window)[0] if window.whole else None
    return window.moved(node)


def window_through(start: Window, chain: Chain) -> Window | None:
    """A window after a chain of movements; None where strides cannot say it."""
    found: Window | None = start
    for node in chain:
        assert found is not None
        found = moved(found, node)
        if found is None:
            return None
    return found


def is_identity(shape: Shape, chain: Chain) -> bool:
    """Whether a chain gives every element its own place."""
    if not chain:
        return True
    found = window_through(whole(shape), chain)
    return found is not None and found == whole(shape)


def index_chain(node: Node, chain: Chain) -> Chain:
    """The movements from a TAKE's index to where a chain leads from the TAKE."""
    index = node.inputs[1]
    if node.op is Op.TAKE_ALONG:
        return chain
    wide = (*index.shape, *(1,) * (len(node.shape) - len(index.shape)))
    first = reshaping(index, wide)
    last = first[0] if first else index
    return (*first, *stretched(last, node.shape, ()), *chain)


def table_window(node: Node, table: Window) -> tuple[Window, int]:
    """For TAKE and TAKE_ALONG: the window on the table without its indexed axis, and that axis's
    stride; `table` is the window on the whole table."""
    if node.op is Op.TAKE_ALONG:
        strides = list(table.strides)
        strides[node.axis] = 0
        return Window(node.shape, tuple(strides), table.offset), table.strides[node.axis]
    count = len(node.inputs[1].shape)
    return Window(node.shape, (0,) * count + table.strides[1:], table.offset), table.strides[0]


def leaves(node: Node, kept: dict[int, Node], chain: Chain = ()) -> Iterator[tuple[Node, Chain]]:
    """What a node is computed from: values that are kept in memory (`kept`), with their chains.

    The node itself is looked into even when it is kept. In the chain of a table stands the TAKE
    or TAKE_ALONG that reads it: from there on the window is that of its rows at index 0.
    """
    stack = _operands(node, chain)
    seen: set[tuple[Node, Chain]] = set()
    while stack:
        one, movements = key = stack.pop()
        if one.op in (Op.CONSTANT, Op.IOTA) and id(one) not in kept:
            continue
        if key in seen:
            continue
        seen.add(key)
        if id(one) in kept or one.op not in INLINE:
            yield one, movements
        else:
            stack.extend(_operands(one, movements))


def _operands(node: Node, chain: Chain) -> list[tuple[Node, Chain]]:
    if node.op in MOVEMENTS:
        return [(node.inputs[0], (node, *chain))]
    if node.op is Op.APPLY:
        return [(one, stretched(one, node.shape, chain)) for one in node.inputs]
    if node.op in (Op.TAKE, Op.TAKE_ALONG):
        return [(node.inputs[1], index_chain(node, chain)), (node.inputs[0], (node, *chain))]
    if node.op is Op.ADD_ROWS:
        return [(one, reshaping(one, shape))
                for one, shape in zip(node.inputs, row_shapes(node), strict=True)]  # fmt: skip
    if node.op is Op.SUM_PARTS:
        return [(node.inputs[0], chain)]
    return [(one, ()) for one in node.inputs]


def parts_window(node: Node, shape: Shape) -> Window | None:
    """Where in a part a SUM_PARTS adds the element at each place of a domain; None where strides
    cannot say it."""
    (a,) = node.inputs
    columns = whole(node.shape[1:]).expanded(a.shape)
    return None if columns is None else window_through(columns, reshaping(a, shape))


def row_shapes(node: Node) -> tuple[Shape, Shape]:
    """The shapes in which an ADD_ROWS reads its index and its values: a list, and its rows."""
    count = prod(node.inputs[0].shape)
    return (count,), (count, prod(node.shape[1:]))


def interior(node: Node, kept: dict[int, Node]) -> Iterator[Node]:
    """A node and everything that is worked out within its kernel to compute it; positions are,
    even where they are kept in memory too."""
    stack, seen = [node], {id(node)}
    while stack:
        one = stack.pop()
        yield one
        for operand in one.inputs:
            inside = operand.op in INLINE and id(operand) not in kept
            if id(operand) not in seen and (inside or operand.op is Op.IOTA):
                seen.add(id(operand))
                stack.append(operand)
