"""Random graphs over every kind of node and type, with extents about those of tiles and chunks."""

from __future__ import annotations

import random
from math import prod

import numpy as np

from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.compiler.ir.graph import (
    Graph, Node, Op, apply, cast, concat, constant, expand, matmul, pad, permute, reduce, reshape,
    strided_slice,
)
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

from .random_graphs import graph_of, permuted, reshaped, source

EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 24, 31, 33, 48, 63, 64, 65, 97, 127, 128, 129)
MOST = 60_000  # elements a node
FLOATS = (Type.F32, Type.F32, Type.F32, Type.F64, Type.BF16)
TYPES = (*FLOATS, Type.I64, Type.I32, Type.BOOL)


def wide_graph(seed: int) -> Graph:
    """Sources of several types, up to 16 nodes, some of them outputs, some written back."""
    draw = random.Random(seed)
    inputs = [source(i, _shape(draw), draw.choice(TYPES)) for i in range(draw.randint(2, 5))]
    pool = list(inputs)
    wanted, tries = draw.randint(4, 16), 0
    while len(pool) < wanted + len(inputs) and tries < 200:
        tries += 1
        maker, a = draw.choice(MAKERS), draw.choice(pool[-6:] + inputs)
        if a.type is Type.BF16 and maker not in MOVING:  # a type to store, not to compute with
            a = cast(a, Type.F32)
        node = maker(draw, a, pool)
        if node is not None and node.type is Type.F32 and draw.random() < 0.1:
            node = cast(node, Type.BF16)
        if node is not None and prod(node.shape) <= MOST:
            pool.append(node)
    outputs = [draw.choice(pool[len(inputs) :] or pool) for _ in range(draw.randint(1, 4))]
    writes = []
    for operand in inputs:
        alike = [p for p in pool if p.shape == operand.shape and p.type is operand.type]
        if draw.random() < 0.6:
            writes.append((operand.slot, draw.choice(alike[-3:])))
    return graph_of(inputs, outputs, writes)


def wide_values(graph: Graph, seed: int) -> list[np.ndarray]:
    """Random values for the sources: small integers, and numbers around zero."""
    draw = np.random.default_rng(seed)
    arrays = []
    for leaf in graph.sources:
        if leaf.type.floating:
            value = draw.standard_normal(leaf.shape)
        elif leaf.type is Type.BOOL:
            value = draw.integers(0, 2, leaf.shape)
        else:
            value = draw.integers(-9, 10, leaf.shape)
        arrays.append(np.asarray(value).astype(dtype_of(leaf.type)))
    return arrays


def _shape(draw: random.Random) -> tuple[int, ...]:
    while True:
        shape = tuple(draw.choice(EXTENTS) for _ in range(draw.choice([1, 2, 2, 2, 3, 3, 4])))
        if prod(shape) <= 20_000:
            return shape


def _tame(a: Node) -> Node:
    """Values between -2 and 2, so that nothing overflows and rounding stays small."""
    if not a.type.floating:
        return cast(a, Type.F32) if a.type is Type.BOOL else _scaled(cast(a, Type.F32))
    low, high = constant(-2.0, a.type), constant(2.0, a.type)
    return apply(Scalar.MAXIMUM, apply(Scalar.MINIMUM, a, high), low)


def _scaled(a: Node) -> Node:
    return apply(Scalar.TANH, apply(Scalar.MUL, a, constant(0.25, a.type)))


def _float(a: Node) -> Node:
    return a if a.type.floating else _tame(a)


def _alike(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    fitting = [b for b in pool if b.type is a.type and len(b.shape) <= len(a.shape)
               and all(x == y or 1 in (x, y) for x, y in zip(reversed(a.shape), reversed(b.shape),
                                                             strict=False))]
    return draw.choice(fitting) if fitting else a


def _unary(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    if a.type is Type.BOOL:
        return apply(Scalar.NOT, a)
    if not a.type.floating:
        return apply(draw.choice([Scalar.NEG, Scalar.ABS]), a)
    kinds = [Scalar.NEG, Scalar.TANH, Scalar.ABS, Scalar.SIN]
    return apply(draw.choice(kinds), _tame(a))


def _binary(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    b = _alike(draw, a, pool)
    if a.type is Type.BOOL:
        return apply(draw.choice([Scalar.AND, Scalar.OR, Scalar.XOR]), a, b)
    if a.type.floating:
        return apply(draw.choice([Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.MAXIMUM]),
                     _tame(a), _tame(b))
    return apply(draw.choice([Scalar.ADD, Scalar.SUB, Scalar.MAXIMUM, Scalar.MINIMUM]), a, b)


def _compared(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type.floating:
        a = cast(apply(Scalar.GT, a, constant(0.25, a.type)), Type.I32)
    return apply(draw.choice([Scalar.GT, Scalar.LE, Scalar.EQ, Scalar.NE]), a,
                 constant(draw.choice([0, 1]), a.type))


def _chosen(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    masks = [m for m in pool if m.type is Type.BOOL and m.shape == a.shape]
    if masks:
        mask = draw.choice(masks)
    elif a.type is Type.BOOL:
        mask = a
    else:
        mask = apply(Scalar.GT, a, constant(0, a.type))
    return apply(Scalar.WHERE, mask, a, constant(draw.choice([0, 1]), a.type), type=a.type)


def _cast(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type.floating:
        return cast(a, draw.choice(FLOATS))  # to integers: truncation is discontinuous
    return cast(a, draw.choice((Type.F32, Type.F64, Type.I32, Type.I64)))


def _sliced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    ranges = []
    for n in a.shape:
        start, step = draw.choice([0, 0, draw.randrange(n)]), draw.choice([1, 1, 1, 2, 3, -1])
        start = n - 1 if step < 0 and start == 0 else start
        ranges.append(range(start, n if step > 0 else -1, step))
    return strided_slice(
        a, [r.start for r in ranges], [r.step for r in ranges], [len(r) for r in ranges]
    )


def _padded(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    low = [draw.choice([0, 0, 1, 3]) for _ in a.shape]
    return pad(a, low, [draw.choice([0, 0, 2]) for _ in a.shape])


def _expanded(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    return expand(a, tuple(draw.choice([3, 16, 17]) if n == 1 else n for n in a.shape))


def _reduced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    axes = draw.sample(range(len(a.shape)), draw.randint(1, len(a.shape)))
    if a.type is Type.BOOL:
        return reduce(a, draw.choice([ReduceOp.ANY, ReduceOp.ALL]), axes)
    return reduce(
        a, draw.choice([ReduceOp.SUM, ReduceOp.SUM, ReduceOp.MAXIMUM, ReduceOp.MINIMUM]), axes
    )


def _normalised(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type not in (Type.F32, Type.F64):
        return None
    axis = (draw.choice([len(a.shape) - 1, draw.randrange(len(a.shape))]),)
    top = reduce(a, ReduceOp.MAXIMUM, axis)
    weights = apply(Scalar.EXP, apply(Scalar.SUB, a, top))
    return apply(Scalar.DIV, weights, reduce(weights, ReduceOp.SUM, axis))


def _product(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if len(a.shape) < 2 or a.type not in (Type.F32, Type.F64):
        return None
    back = (*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2)
    fitting = [b for b in pool if len(b.shape) == len(a.shape) and b.shape[-2] == a.shape[-1]
               and b.type is a.type
               and all(x == y or 1 in (x, y) for x, y in zip(a.shape[:-2], b.shape[:-2],
                                                             strict=True))]
    b = draw.choice(fitting) if fitting else permute(a, back)
    if prod(a.shape[:-1]) * b.shape[-1] > MOST:
        return None
    product = matmul(_tame(a), _tame(b))
    return apply(Scalar.MUL, product, constant(1 / max(a.shape[-1], 1), a.type))


def _convolved(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type not in (Type.F32, Type.F64):
        return None
    x = _image(draw, a)
    if x is None:
        return None
    _, h, w, c = x.shape
    kernel = tuple(draw.choice([1, 2, 3, 3, 5]) for _ in range(2))
    stride = tuple(draw.choice([1, 1, 2, 3]) for _ in range(2))
    dilation = tuple(draw.choice([1, 1, 2]) for _ in range(2))
    groups = draw.choice([g for g in (1, 1, 2, 4, c) if c % g == 0])
    if draw.random() < 0.6:
        x = pad(x, (0, kernel[0] // 2, kernel[1] // 2, 0), (0, kernel[0] // 2, kernel[1] // 2, 0))
    n, h, w, c = x.shape
    oh = (h - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    ow = (w - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    k = groups * draw.choice([1, 2, 3, 8, 16, 17])
    if oh < 1 or ow < 1 or n * oh * ow * k > MOST or kernel[0] * kernel[1] * c * k > MOST:
        return None
    attributes = {"stride": stride, "dilation": dilation, "groups": groups}
    if draw.random() < 0.5:
        w_node = _filled((*kernel, c // groups, k), a.type)
        node = Node(Op.CONV, (_tame(x), w_node), (n, oh, ow, k), a.type, attributes)
    else:
        g = _filled((n, oh, ow, k), a.type)
        shape = (*kernel, c // groups, k)
        node = Node(Op.CONV_WEIGHT, (_tame(x), g), shape, a.type, attributes)
        return apply(Scalar.MUL, node, constant(1 / (n * oh * ow), a.type))
    return apply(Scalar.MUL, node, constant(1 / (kernel[0] * kernel[1] * c), a.type))


def _image(draw: random.Random, a: Node) -> Node | None:
    if len(a.shape) == 4:
        return a
    total = prod(a.shape)
    fitting = [(h, w, c) for h in range(1, 20) for w in range(1, 20) for c in (1, 2, 3, 4, 8, 16)
               if h * w * c and total % (h * w * c) == 0 and total // (h * w * c) <= 4]
    if not fitting:
        return None
    h, w, c = draw.choice(fitting)
    return reshape(a, (total // (h * w * c), h, w, c))


def _filled(shape: tuple[int, ...], type: Type) -> Node:
    """Numbers that differ from place to place, made from positions."""
    rank = len(shape)
    total: Node | None = None
    for axis in range(rank):
        along = Node(Op.IOTA, (), shape, Type.I64, {"axis": axis})
        term = apply(Scalar.MUL, cast(along, type), constant(0.7 + axis, type))
        total = term if total is None else apply(Scalar.ADD, total, term)
    assert total is not None
    return apply(Scalar.SIN, total)


def _placed(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    along = Node(Op.IOTA, (), a.shape, Type.I64, {"axis": draw.randrange(len(a.shape))})
    return along if draw.random() < 0.5 else permuted(draw, reshaped(draw, along, pool), pool)


def _taken(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    shape = tuple(draw.choice([1, 2, 5, 17, 33]) for _ in range(draw.randint(1, 2)))
    index = _index(draw, shape, a.shape[0], pool)
    return Node(Op.TAKE, (a, index), (*shape, *a.shape[1:]), a.type)


def _index(draw: random.Random, shape: tuple[int, ...], extent: int, pool: list[Node]) -> Node:
    """Numbers from 0 to extent - 1, by another node's values or by position."""
    fitting = [p for p in pool if p.type in (Type.I64, Type.I32) and p.shape == shape]
    if fitting:
        number = cast(draw.choice(fitting), Type.I64)
        number = apply(Scalar.ABS, number)
    else:
        along = Node(Op.IOTA, (), shape, Type.I64, {"axis": draw.randrange(len(shape))})
        number = apply(Scalar.MUL, along, constant(7, Type.I64))
    return apply(Scalar.REM, number, constant(extent, Type.I64))


def _added(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type not in (Type.F32, Type.F64, Type.I64, Type.I32):
        return None
    count = draw.randint(1, len(a.shape))
    rows = draw.choice([1, 3, 16, 33])
    index = _index(draw, a.shape[:count], rows, pool)
    a = _tame(a) if a.type.floating else a
    node = Node(Op.ADD_ROWS, (index, a), (rows, *a.shape[count:]), a.type)
    return node


def _taken_along(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    axis = draw.randrange(len(a.shape))
    shape = tuple(draw.choice([1, 2, 7, n]) if i == axis else n for i, n in enumerate(a.shape))
    index = _index(draw, shape, a.shape[axis], pool)
    return Node(Op.TAKE_ALONG, (a, index), shape, a.type, {"axis": axis})


def _joined(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    axis = draw.randrange(len(a.shape))
    others = [p for p in pool if p.type is a.type and len(p.shape) == len(a.shape)
              and all(i == axis or n == p.shape[i] for i, n in enumerate(a.shape))]
    own = cast(_unary(draw, cast(a, Type.F32), pool), a.type) if a.type is Type.BF16 else (
        _unary(draw, a, pool))
    parts = [a, own, *(draw.sample(others, 1) if others else [])]
    parts = [p for p in parts if p.type is a.type]
    draw.shuffle(parts)
    return concat(parts, axis)


def _running(draw: random.Random, a: Node, pool: list[Node]) -> Node | None:
    if a.type is Type.BOOL:
        return None
    fold = draw.choice([ReduceOp.SUM, ReduceOp.MAXIMUM])
    return Node(Op.SCAN, (a,), a.shape, a.type,
                {"fold": fold, "axis": draw.randrange(len(a.shape))})


def _greatest(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    if a.type is Type.BOOL:
        a = cast(a, Type.I32)
    return reduce(
        a, draw.choice([ReduceOp.ARGMAX, ReduceOp.ARGMIN]), [draw.randrange(len(a.shape))]
    )


def _replaced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    rank = len(a.shape)
    part = strided_slice(a, [0] * rank, [1] * rank, [max(1, n - 1) for n in a.shape])
    part = _unary(draw, part, pool) if a.type is not Type.BF16 else part
    starts = tuple(draw.randint(0, 1) if n > 1 else 0 for n in a.shape)
    return Node(Op.UPDATE, (a, part), a.shape, a.type, {"starts": starts, "steps": (1,) * rank})


def _called(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    def backwards(array: np.ndarray) -> np.ndarray:
        return array[::-1].copy()

    return Node(Op.CALL, (a,), a.shape, a.type,
                {"function": backwards, "output": 0, "group": object()})


MAKERS = [
    _unary, _unary, _binary, _binary, _binary, _compared, _chosen, _cast, reshaped, reshaped,
    permuted, permuted, _sliced, _padded, _expanded, _reduced, _reduced, _reduced, _normalised,
    _product, _product, _convolved, _convolved, _placed, _taken, _added, _taken_along, _joined,
    _running, _greatest, _replaced, _called,
]
MOVING = (_cast, reshaped, permuted, _sliced, _padded, _expanded, _taken, _taken_along, _joined,
          _replaced, _called, _placed)
