"""Random graphs over every kind of node, for comparing what passes and kernels compute."""

from __future__ import annotations

import random
from math import prod

import numpy as np

from flambeau.compiler.ir.graph import (
    Graph, Node, Op, Source, SourceKind, apply, cast, concat, constant, expand, matmul, pad,
    permute, reduce, reshape, strided_slice,
)
from flambeau.native.loop_ir.ir import ReduceOp, Scalar, Type

MOST = 600  # elements a node


def source(slot: int, shape: tuple[int, ...], type: Type = Type.F32) -> Node:
    """An INPUT."""
    return Node(Op.INPUT, (), shape, type, {"slot": slot})


def graph_of(inputs: list[Node], outputs: list[Node], writes: list | None = None) -> Graph:
    """A graph whose sources are states that `run` and `values` fill."""
    sources = [Source(SourceKind.STATE, n.shape, n.type, lambda: None) for n in inputs]
    return Graph(sources, list(inputs), list(outputs), list(writes or []))


def values(graph: Graph, seed: int) -> list[np.ndarray]:
    """Random values for the sources."""
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(s.shape).astype(s.type.value) for s in graph.sources]


def random_graph(seed: int) -> Graph:
    """Inputs, up to 14 nodes, some outputs (some of them inputs), some inputs written back."""
    draw = random.Random(seed)
    shapes = [tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 3)))
              for _ in range(draw.randint(1, 4))]
    inputs = [source(i, shape) for i, shape in enumerate(shapes)]
    pool = list(inputs)
    for _ in range(draw.randint(3, 14)):
        node = draw.choice(_MAKERS)(draw, draw.choice(pool[-6:] + inputs), pool)
        if prod(node.shape) <= MOST:
            pool.append(node)
    outputs = [draw.choice(pool) for _ in range(draw.randint(1, 4))]
    writes = []
    for operand in inputs:
        if draw.random() < 0.5:
            alike = [p for p in pool if p.shape == operand.shape]
            writes.append((operand.slot, draw.choice(alike)))
    return graph_of(inputs, outputs, writes)


def _unary(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    inner = apply(Scalar.ABS, a)
    return apply(draw.choice([Scalar.NEG, Scalar.SQRT, Scalar.TANH, Scalar.SIN]), inner)


def _binary(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    fitting = [b for b in pool if _broadcast(a.shape, b.shape)]
    operation = draw.choice([Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.MAXIMUM])
    return apply(operation, a, draw.choice(fitting))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def _chosen(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    positive = apply(Scalar.GT, a, constant(0.0, Type.F32))
    return apply(Scalar.WHERE, positive, a, constant(draw.choice([0.0, 2.0]), Type.F32))


def reshaped(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    """`a` with its elements over other axes."""
    left, shape = prod(a.shape), []
    for _ in range(draw.randint(0, 3)):
        shape.append(draw.choice([d for d in range(1, left + 1) if left % d == 0]))
        left //= shape[-1]
    return reshape(a, (*shape, left))


def permuted(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    """`a` with its axes in another order."""
    return permute(a, draw.sample(range(len(a.shape)), len(a.shape)))


def _sliced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    ranges = []
    for n in a.shape:
        start, step = draw.randrange(n), draw.choice([1, 1, 2, -1])
        ranges.append(range(start, n if step > 0 else -1, step))
    return strided_slice(
        a, [r.start for r in ranges], [r.step for r in ranges], [len(r) for r in ranges]
    )


def _padded(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    low = [draw.choice([0, 1]) for _ in a.shape]
    return pad(a, low, [draw.choice([0, 0, 2]) for _ in a.shape])


def _expanded(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    return expand(a, tuple(3 if n == 1 else n for n in a.shape))


def _reduced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    axes = draw.sample(range(len(a.shape)), draw.randint(1, len(a.shape)))
    return reduce(
        a, draw.choice([ReduceOp.SUM, ReduceOp.SUM, ReduceOp.MAXIMUM, ReduceOp.MINIMUM]), axes
    )


def _product(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    if len(a.shape) < 2:
        return _unary(draw, a, pool)
    back = (*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2)
    fitting = [b for b in pool if len(b.shape) == len(a.shape) and b.shape[-2] == a.shape[-1]
               and _broadcast(a.shape[:-2], b.shape[:-2])]
    return matmul(a, draw.choice(fitting) if fitting else permute(a, back))


def _joined(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    return concat([a, apply(Scalar.NEG, a)], draw.randrange(len(a.shape)))


def _running(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    attributes = {"fold": ReduceOp.SUM, "axis": draw.randrange(len(a.shape))}
    return Node(Op.SCAN, (a,), a.shape, a.type, attributes)


def _greatest(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    return cast(reduce(a, ReduceOp.ARGMAX, [draw.randrange(len(a.shape))]), Type.F32)


def _replaced(draw: random.Random, a: Node, pool: list[Node]) -> Node:
    rank = len(a.shape)
    part = strided_slice(a, [0] * rank, [1] * rank, [max(1, n - 1) for n in a.shape])
    starts = tuple(draw.randint(0, 1) if n > 1 else 0 for n in a.shape)
    attributes = {"starts": starts, "steps": (1,) * rank}
    return Node(Op.UPDATE, (a, apply(Scalar.TANH, part)), a.shape, a.type, attributes)


_MAKERS = [
    _unary, _unary, _binary, _binary, _binary, _binary, _chosen, reshaped, reshaped, permuted,
    _sliced, _padded, _expanded, _reduced, _reduced, _product, _joined, _running, _greatest,
    _replaced,
]
