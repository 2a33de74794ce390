"""The graph: what a captured step computes, as nodes in SSA form over a small set of operations.

Every node has a fixed shape and type. Values are logical arrays: layouts and memory are decided
later. Effects are at the edges: a step reads `sources` and, at its end, writes some of them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...native.loop_ir.ir import Fold, Scalar, Type
from ...native.target.matmul_precision import Chosen

Shape = tuple[int, ...]


class Op(Enum):
    """What a node does. Inputs in parentheses; attributes by name."""

    __hash__ = object.__hash__  # Enum's own, of the name, is a Python function

    INPUT = auto()  # the memory of a source: slot
    CONSTANT = auto()  # one number, of any shape: value
    ARRAY = auto()  # a constant array: value (an ndarray)
    IOTA = auto()  # the position along an axis, I64: axis
    APPLY = auto()  # (a, ...) one scalar operation on elements: operation. Inputs have the
    # node's rank; extents of 1 are stretched. CAST and BITCAST: to the node's type
    RESHAPE = auto()  # (a) the same elements in row-major order
    PERMUTE = auto()  # (a) axes
    EXPAND = auto()  # (a) extents of 1 stretched to the node's shape
    SLICE = auto()  # (a) starts, steps: element i is starts + i * steps; steps may be negative
    PAD = auto()  # (a) low, high: zeros around
    CONCAT = auto()  # (a, b, ...) along axis
    UPDATE = auto()  # (a, b): a with the window at starts, steps (of b's shape) replaced by b
    REDUCE = auto()  # (a) fold, axes: reduced axes keep extent 1. ARGMAX/ARGMIN: one axis, I64
    SUM_PARTS = auto()  # (a) axes: (parts, a's shape with axes of extent 1), the sum of which over
    # the parts is a's over the axes. Each thread makes one; which elements it adds is left open
    SCAN = auto()  # (a) fold (SUM, PRODUCT, MAXIMUM, MINIMUM), axis: running folds
    MATMUL = auto()  # (a, b): (batch..., m, k) @ (batch..., k, n); batch extents equal or 1:
    # precision
    CONV = auto()  # (x, w): x (n, h, w, c) channels last, already padded; w (kh, kw, c, k):
    # stride, dilation, groups. c of w is c of x / groups; k counts all groups
    CONV_WEIGHT = auto()  # (x, g): the gradient of w: (n, h, w, c), (n, oh, ow, k) to
    # (kh, kw, c / groups, k): stride, dilation, groups. With `parts` (one group) the images are cut
    # in so many, and each part's sums are k columns beside those of the one before
    TAKE = auto()  # (x, index): rows of x: (v, d...), (i...) to (i..., d...). Checked before
    ADD_ROWS = auto()  # (index, values): zeros (node's shape) with values[i] added to rows index[i]
    TAKE_ALONG = auto()  # (x, index): along axis, as numpy.take_along_axis
    ATTENTION = auto()  # (q, k, v, [mask]): softmax(scores) @ v, where scores = q @ k.T * scale,
    # -inf where `causal` and the column is beyond the row, or a BOOL mask is false; another mask
    # is added. Extents as MATMUL's, q, k, v of one batch, the mask's equal or 1. Rows of -inf alone
    # give 0 where there is a mask, else NaN
    ATTENTION_SUMS = auto()  # (q, k, [mask]): the logarithms of the sums of exp(scores), of q's
    # shape without its last axis; 0 for rows of -inf alone where there is a mask
    ATTENTION_GRADIENT = auto()  # (q, k, v, g, sums, inner, [mask]): p = exp(scores - sums) and
    # s = p * (g @ v.T - inner) * scale, by `of`: 0: s @ k, 1: s.T @ q, 2: p.T @ g
    RECURRENCE = auto()  # inputs by `names`: x (steps, rows, gates * width), the sums from the
    # inputs; w (gates * width, width); where there are such h and c (rows, width), the states
    # before, and bias (width). All steps of a `cell` (native.kernels.recurrent_cells), from the
    # last one on where `reverse`; `of`: y (steps, rows, width), what the cell keeps, or the last c
    RECURRENCE_GRADIENT = auto()  # inputs by `names`: w, what the cell keeps, where there are such
    # gy (as y), dh and dc (of the last states), previous and first (what the cell reads of the step
    # before, and before all steps). `of`: d and dx, the cotangents of all sums, dh or dc
    CALL = auto()  # (a, ...) an eager function on whole arrays: function, output (which of its
    # results this node is), group (nodes of one call share it)


@dataclass(eq=False)
class Node:
    """One value. `origin`: the operator and source line that it comes from, for people."""

    op: Op
    inputs: tuple[Node, ...]
    shape: Shape
    type: Type
    attributes: dict[str, Any] = field(default_factory=dict)
    origin: str = ""

    def __getattr__(self, name: str) -> Any:
        """Attributes read as fields: node.axis, node.operation."""
        try:
            return self.__dict__["attributes"][name]
        except KeyError:
            raise AttributeError(f"{self.op.name} has no attribute {name!r}") from None

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op.name}({inside}) {self.type.value}{list(self.shape)}"


@dataclass(eq=False)
class Source:
    """Where an INPUT's memory comes from at each call.

    `array`: gives the ndarray (of a parameter, a state, an argument) at each call. `kind`:
    "argument" (changes from call to call), "state" (stays where it is: address taken once and
    guarded by identity), "number" (a Python number read at each call: a learning rate),
    "drawn" (filled by `array` at each call: random numbers, from the eager generator).
    """

    kind: str
    shape: Shape
    type: Type
    array: Callable[..., Any]
    name: str = ""
    strides: tuple[int, ...] | None = None  # in elements; None: row-major


@dataclass(eq=False)
class Graph:
    """A step: what it reads, what it returns, and what it writes back at its end."""

    sources: list[Source]
    inputs: list[Node]  # INPUT nodes, by slot
    outputs: list[Node]
    writes: list[tuple[int, Node]]  # (slot, value that the source's memory has at the end)

    def roots(self) -> list[Node]:
        """The nodes that a step is for."""
        return [*self.outputs, *(node for _, node in self.writes)]

    def nodes(self) -> list[Node]:
        """Every node that is needed, inputs before users."""
        return ordered(self.roots())


def ordered(roots: Sequence[Node]) -> list[Node]:
    """The nodes that lead to `roots`, inputs before users; without recursion."""
    found: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in found:
            stack.pop()
            continue
        missing = [one for one in node.inputs if one not in found]
        if missing:
            missing.reverse()
            stack += missing
        else:
            found[stack.pop()] = None
    return list(found)


def users(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """By id of a node, the nodes that read it."""
    found: dict[int, list[Node]] = {id(node): [] for node in nodes}
    for node in nodes:
        for one in node.inputs:
            found[id(one)].append(node)
    return found


def rebuilt(graph: Graph, rule: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
    """The graph with each node replaced by rule(node, new inputs), inputs first."""
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        new[node] = rule(node, tuple([new[one] for one in node.inputs]))
    inputs_new = [new.get(one, one) for one in graph.inputs]
    return Graph(
        graph.sources, inputs_new, [new[n] for n in graph.outputs],
        [(slot, new[n]) for slot, n in graph.writes],
    )  # fmt: skip


def same(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node itself when its inputs did not change, else a copy that reads the new ones."""
    if inputs == node.inputs:  # nodes are equal when they are the same
        return node
    return Node(node.op, inputs, node.shape, node.type, node.attributes, node.origin)


# ------------------------------------------------------------------------------ construction


def constant(value: Any, type: Type, shape: Shape = ()) -> Node:
    """A number, of any shape."""
    return Node(Op.CONSTANT, (), shape, type, {"value": value})


def apply(operation: Scalar, *inputs: Node, type: Type | None = None) -> Node:
    """A scalar operation on nodes of one rank, extents of 1 stretched; rank 0 fits any."""
    rank = max(len(one.shape) for one in inputs)
    inputs = tuple(
        one if len(one.shape) == rank else reshape(one, (1,) * (rank - len(one.shape)) + one.shape)
        for one in inputs
    )
    shape = tuple(max(extents) if 0 not in extents else 0
                  for extents in zip(*(one.shape for one in inputs), strict=True))  # fmt: skip
    if type is None:
        type = Type.BOOL if operation in COMPARISONS else inputs[-1].type
    return Node(Op.APPLY, tuple(inputs), shape, type, {"operation": operation})


COMPARISONS = frozenset((Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE))


def cast(a: Node, type: Type) -> Node:
    """The same values in another type; the node itself when it has that type."""
    return a if a.type is type else apply(Scalar.CAST, a, type=type)


def reshape(a: Node, shape: Shape) -> Node:
    """The same elements in row-major order."""
    return a if a.shape == tuple(shape) else Node(Op.RESHAPE, (a,), tuple(shape), a.type)


def permute(a: Node, axes: Sequence[int]) -> Node:
    """Axis i of the result is axis axes[i]."""
    axes = tuple(axes)
    if axes == tuple(range(len(axes))):
        return a
    return Node(Op.PERMUTE, (a,), tuple(a.shape[i] for i in axes), a.type, {"axes": axes})


def expand(a: Node, shape: Shape) -> Node:
    """Extents of 1 stretched to `shape`, which has the same rank."""
    return a if a.shape == tuple(shape) else Node(Op.EXPAND, (a,), tuple(shape), a.type)


def window(a: Node, starts: Sequence[int], steps: Sequence[int], shape: Shape) -> Node:
    """A window: element i along an axis is starts + i * steps."""
    starts, steps, shape = tuple(starts), tuple(steps), tuple(shape)
    if shape == a.shape and not any(starts) and all(s == 1 for s in steps):
        return a
    return Node(Op.SLICE, (a,), shape, a.type, {"starts": starts, "steps": steps})


def pad(a: Node, low: Sequence[int], high: Sequence[int]) -> Node:
    """Zeros around: low[i] before and high[i] after along axis i."""
    if not any(low) and not any(high):
        return a
    shape = tuple(x + y + z for x, y, z in zip(a.shape, low, high, strict=True))
    return Node(Op.PAD, (a,), shape, a.type, {"low": tuple(low), "high": tuple(high)})


def concat(parts: Sequence[Node], axis: int) -> Node:
    """Parts one after another along an axis."""
    first = parts[0]
    if len(parts) == 1:
        return first
    extent = sum(one.shape[axis] for one in parts)
    shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
    return Node(Op.CONCAT, tuple(parts), shape, first.type, {"axis": axis})


def reduce(a: Node, fold: Fold, axes: Sequence[int]) -> Node:
    """A fold over axes, which keep extent 1."""
    axes = tuple(sorted(axes))
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    type = Type.I64 if fold in (Fold.ARGMAX, Fold.ARGMIN) else a.type
    return Node(Op.REDUCE, (a,), shape, type, {"fold": fold, "axes": axes})


def sum_parts(a: Node, axes: Sequence[int], parts: int) -> Node:
    """Sums over axes, which keep extent 1, in parts that are still to be added up."""
    axes = tuple(sorted(axes))
    shape = (parts, *(1 if i in axes else n for i, n in enumerate(a.shape)))
    return Node(Op.SUM_PARTS, (a,), shape, a.type, {"axes": axes})


def matmul(a: Node, b: Node, precision: int | None = None) -> Node:
    """(batch..., m, k) @ (batch..., k, n); both of one rank, batch extents equal or 1.

    `precision`: as a Contract's; None is what the process asks for.
    """
    batch = tuple(max(x, y) for x, y in zip(a.shape[:-2], b.shape[:-2], strict=True))
    given = {"precision": Chosen.parts if precision is None else precision}
    return Node(Op.MATMUL, (a, b), (*batch, a.shape[-2], b.shape[-1]), a.type, given)


def walk(graph: Graph) -> Iterator[Node]:
    """The graph's nodes, inputs before users."""
    yield from graph.nodes()


CONTRACTIONS = frozenset((Op.MATMUL, Op.CONV, Op.CONV_WEIGHT))
