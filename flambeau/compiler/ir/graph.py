"""The graph IR: a captured step in SSA form over a small set of array operations.

Every node has a fixed shape and type. Values are logical arrays; layout and memory are decided
later. Effects happen only at the edges: a graph reads `sources` and writes some of them back at the
end. interpreter.py defines the meaning of each operation, verify.py the legal nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...native.loop_ir.ir import ReduceOp, Scalar, Type
from ...native.target.matmul_precision import MatmulPrecision

Shape = tuple[int, ...]


class Op(Enum):
    """What a node does. Inputs in parentheses; attributes by name."""

    __hash__ = object.__hash__  # Enum's hash is a slow Python function

    INPUT = auto()  # the memory of a source: slot
    CONSTANT = auto()  # one number, broadcast to the node's shape: value
    ARRAY = auto()  # a constant array: value (an ndarray)
    IOTA = auto()  # the position along an axis, I64: axis
    APPLY = auto()  # (a, ...) one scalar operation per element: operation. Inputs have the node's
    # rank; extents of 1 broadcast. CAST and BITCAST convert to the node's type
    RESHAPE = auto()  # (a) the same elements in row-major order
    PERMUTE = auto()  # (a) axes
    EXPAND = auto()  # (a) extents of 1 broadcast to the node's shape
    SLICE = auto()  # (a) starts, steps: element i is starts + i * steps; steps may be negative
    PAD = auto()  # (a) low, high: zeros before and after each axis
    CONCAT = auto()  # (a, b, ...) along axis
    UPDATE = auto()  # (a, b): a with the slice at starts, steps (of b's shape) replaced by b
    REDUCE = auto()  # (a) fold, axes: reduced axes keep extent 1. ARGMAX/ARGMIN: one axis, I64
    SUM_PARTS = auto()  # (a) axes: partial sums over axes, (parts, a's shape with extents of 1).
    # Summed over the parts they give the sum over the axes. Each thread computes one part; which
    # elements it adds is unspecified
    SCAN = auto()  # (a) fold (SUM, PRODUCT, MAXIMUM, MINIMUM), axis: running folds
    MATMUL = auto()  # (a, b): (batch..., m, k) @ (batch..., k, n); batch extents equal or 1:
    # precision (an attribute)
    CONV = auto()  # (x, w): x (n, h, w, c) channels-last, already padded; w (kh, kw, c, k):
    # stride, dilation, groups. w has c of x / groups channels; k counts all groups
    CONV_WEIGHT = auto()  # (x, g): the gradient of w: (n, h, w, c), (n, oh, ow, k) to
    # (kh, kw, c / groups, k): stride, dilation, groups. With `parts` (one group) the images are
    # split into that many parts, whose sums are consecutive blocks of k columns
    TAKE = auto()  # (x, index): rows of x: (v, d...), (i...) to (i..., d...). Bounds are checked
    # before the program runs
    ADD_ROWS = auto()  # (index, values): zeros (node's shape) with values[i] added to rows index[i]
    TAKE_ALONG = auto()  # (x, index): along axis, as numpy.take_along_axis
    ATTENTION = auto()  # (q, k, v, [mask]): softmax(scores) @ v, where scores = q @ k.T * scale,
    # -inf above the diagonal where `causal`, and where a BOOL mask is false; any other mask is
    # added. Extents as in MATMUL; q, k, v share a batch, the mask's extents are equal or 1. Rows
    # that are -inf everywhere give 0 with a mask, NaN without
    ATTENTION_SUMS = auto()  # (q, k, [mask]): log(sum(exp(scores))), of q's shape without its last
    # axis; 0 for rows that are -inf everywhere, if there is a mask
    ATTENTION_GRADIENT = auto()  # (q, k, v, g, sums, inner, [mask]): with p = exp(scores - sums)
    # and s = p * (g @ v.T - inner) * scale, by `of`: 0: s @ k, 1: s.T @ q, 2: p.T @ g
    RECURRENCE = auto()  # inputs by `names`: x (steps, rows, gates * width), the input projections;
    # w (gates * width, width); optional h and c (rows, width), the initial states, and bias
    # (width). All steps of a `cell` (native.kernels.recurrent_cells), last to first if
    # `reverse`; `of`: y (steps, rows, width), what the cell saves for backward, or the last c
    RECURRENCE_GRADIENT = auto()  # inputs by `names`: w, the saved values, optional gy (as y),
    # dh and dc (of the last states), previous and first (what the cell reads of the previous step,
    # and of the initial state). `of`: d and dx, the cotangents of the gates, dh or dc
    CHECK = auto()  # (a, *calls) a bool that must hold; otherwise the run stops with CheckFailed
    # before any source is written. calls: eager calls without readers, which may raise
    CALL = auto()  # (a, ...) an eager function on whole arrays: function, output (which of its
    # results this node is), group (shared by the nodes of a call)


@dataclass(eq=False)
class Node:
    """A value. `origin` names the operator and source line it comes from, for reports."""

    op: Op
    inputs: tuple[Node, ...]
    shape: Shape
    type: Type
    attributes: dict[str, Any] = field(default_factory=dict)
    origin: str = ""

    def __getattr__(self, name: str) -> Any:
        """Read attributes as fields: node.axis, node.operation."""
        try:
            return self.__dict__["attributes"][name]
        except KeyError:
            raise AttributeError(f"{self.op.name} has no attribute {name!r}") from None

    def __repr__(self) -> str:
        attributes = ", ".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op.name}({attributes}) {self.type.value}{list(self.shape)}"


class SourceKind(Enum):
    """How the memory of a source changes between calls."""

    ARGUMENT = "argument"  # it differs
    STATE = "state"  # it stays in place: its address is read once and guarded by identity
    NUMBER = "number"  # a Python number that is read on each call, such as a learning rate
    DRAWN = "drawn"  # random numbers that each call draws from the eager generator


@dataclass(eq=False)
class Source:
    """Where the memory of an INPUT comes from on each call: `array` returns the ndarray."""

    kind: SourceKind
    shape: Shape
    type: Type
    array: Callable[..., Any]
    name: str = ""
    strides: tuple[int, ...] | None = None  # in elements; None: row-major


@dataclass(eq=False)
class Graph:
    """A step: the sources it reads, its outputs, and the sources it writes."""

    sources: list[Source]
    inputs: list[Node]  # INPUT nodes, in order of their slots
    outputs: list[Node]
    writes: list[tuple[int, Node]]  # (slot, the value that the source holds at the end)

    def roots(self) -> list[Node]:
        """The outputs and written values: everything that must be computed."""
        return [*self.outputs, *(node for _, node in self.writes)]

    def nodes(self) -> list[Node]:
        """Every node that a root depends on, inputs before users."""
        return sort_topologically(self.roots())


def sort_topologically(roots: Sequence[Node]) -> list[Node]:
    """The nodes that `roots` depend on, inputs before users. Iterative, as graphs may be deep."""
    visited: dict[Node, None] = {}
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in visited:
            stack.pop()
            continue
        missing = [a for a in node.inputs if a not in visited]
        if missing:
            missing.reverse()
            stack += missing
        else:
            visited[stack.pop()] = None
    return list(visited)


def map_users(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """Map the id of each node to the nodes that read it."""
    readers: dict[int, list[Node]] = {id(node): [] for node in nodes}
    for node in nodes:
        for a in node.inputs:
            readers[id(a)].append(node)
    return readers


def rewrite(graph: Graph, rule: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
    """Replace each node by rule(node, new inputs), inputs first."""
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        new[node] = rule(node, tuple([new[a] for a in node.inputs]))
    inputs = [new.get(a, a) for a in graph.inputs]
    return Graph(
        graph.sources, inputs, [new[n] for n in graph.outputs],
        [(slot, new[n]) for slot, n in graph.writes],
    )


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return the node if its inputs did not change, else a copy that reads the new ones."""
    if inputs == node.inputs:  # nodes compare by identity
        return node
    return Node(node.op, inputs, node.shape, node.type, node.attributes, node.origin)


def with_origin(replaced: Node, result: Node, *parts: Node) -> Node:
    """Give `result` and the new nodes it is built from (`parts`) the origin of the node they
    replace; return `result`. Nodes that already have an origin keep it.
    """
    for node in (result, *parts):
        node.origin = node.origin or replaced.origin
    return result


# ------------------------------------------------------------------------------ construction


def constant(value: Any, type: Type, shape: Shape = ()) -> Node:
    """A number, broadcast to `shape`."""
    return Node(Op.CONSTANT, (), shape, type, {"value": value})


def apply(operation: Scalar, *inputs: Node, type: Type | None = None) -> Node:
    """Apply a scalar operation per element, with broadcasting as in NumPy."""
    rank = max(len(a.shape) for a in inputs)
    inputs = tuple(
        a if len(a.shape) == rank else reshape(a, (1,) * (rank - len(a.shape)) + a.shape)
        for a in inputs
    )
    shape = tuple(max(extents) if 0 not in extents else 0
                  for extents in zip(*(a.shape for a in inputs), strict=True))
    if type is None:
        type = Type.BOOL if operation in COMPARISONS else inputs[-1].type
    return Node(Op.APPLY, tuple(inputs), shape, type, {"operation": operation})


def is_operation(node: Node, *operations: Scalar) -> bool:
    """Whether a node applies one of the given scalar operations."""
    return node.op is Op.APPLY and node.operation in operations


COMPARISONS = frozenset((Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE))


def cast(a: Node, type: Type) -> Node:
    """Convert to another type; return the node itself if it has that type."""
    return a if a.type is type else apply(Scalar.CAST, a, type=type)


def reshape(a: Node, shape: Shape) -> Node:
    """The same elements in row-major order."""
    return a if a.shape == tuple(shape) else Node(Op.RESHAPE, (a,), tuple(shape), a.type)


def permute(a: Node, axes: Sequence[int]) -> Node:
    """Permute axes: axis i of the result is axis axes[i]."""
    axes = tuple(axes)
    if axes == tuple(range(len(axes))):
        return a
    return Node(Op.PERMUTE, (a,), tuple(a.shape[i] for i in axes), a.type, {"axes": axes})


def expand(a: Node, shape: Shape) -> Node:
    """Broadcast extents of 1 to `shape`, which has the same rank."""
    return a if a.shape == tuple(shape) else Node(Op.EXPAND, (a,), tuple(shape), a.type)


def strided_slice(a: Node, starts: Sequence[int], steps: Sequence[int], shape: Shape) -> Node:
    """A SLICE: element i along an axis is element starts + i * steps of `a`."""
    starts, steps, shape = tuple(starts), tuple(steps), tuple(shape)
    if shape == a.shape and not any(starts) and all(s == 1 for s in steps):
        return a
    return Node(Op.SLICE, (a,), shape, a.type, {"starts": starts, "steps": steps})


def pad(a: Node, low: Sequence[int], high: Sequence[int]) -> Node:
    """Pad with zeros: low[i] before and high[i] after along axis i."""
    if not any(low) and not any(high):
        return a
    shape = tuple(x + y + z for x, y, z in zip(a.shape, low, high, strict=True))
    return Node(Op.PAD, (a,), shape, a.type, {"low": tuple(low), "high": tuple(high)})


def concat(parts: Sequence[Node], axis: int) -> Node:
    """Concatenate the parts along an axis."""
    first = parts[0]
    if len(parts) == 1:
        return first
    extent = sum(part.shape[axis] for part in parts)
    shape = (*first.shape[:axis], extent, *first.shape[axis + 1 :])
    return Node(Op.CONCAT, tuple(parts), shape, first.type, {"axis": axis})


def reduce(a: Node, fold: ReduceOp, axes: Sequence[int]) -> Node:
    """Reduce over axes, which keep extent 1."""
    axes = tuple(sorted(axes))
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    type = Type.I64 if fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN) else a.type
    return Node(Op.REDUCE, (a,), shape, type, {"fold": fold, "axes": axes})


def sum_parts(a: Node, axes: Sequence[int], parts: int) -> Node:
    """Partial sums over axes, which keep extent 1; the first axis counts the parts."""
    axes = tuple(sorted(axes))
    shape = (parts, *(1 if i in axes else n for i, n in enumerate(a.shape)))
    return Node(Op.SUM_PARTS, (a,), shape, a.type, {"axes": axes})


def matmul(a: Node, b: Node, precision: int | None = None) -> Node:
    """(batch..., m, k) @ (batch..., k, n): equal ranks, batch extents equal or 1.

    `precision`: as a Contract's; None takes torch.set_float32_matmul_precision's setting.
    """
    batch = tuple(max(x, y) for x, y in zip(a.shape[:-2], b.shape[:-2], strict=True))
    attributes = {"precision": MatmulPrecision.parts if precision is None else precision}
    return Node(Op.MATMUL, (a, b), (*batch, a.shape[-2], b.shape[-1]), a.type, attributes)


CONTRACTIONS = frozenset((Op.MATMUL, Op.CONV, Op.CONV_WEIGHT))
