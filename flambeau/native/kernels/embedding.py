"""Embedding kernels: rows of a table gathered, scattered, and summed in bags."""

from __future__ import annotations

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Expression, Index, IndexValue, Kernel, Load, Loop,
    LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)


def take_rows(type: Type) -> Kernel:
    """table, numbers (I64), y: y[k] = table[numbers[k]]. Sizes: numbers, width."""
    table, numbers, y = Buffer(type, "table"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    k, column = Index("k"), Index("column")
    sizes = [Size("count"), Size("width")]
    number = Load(numbers, Affine(0, ((k, 1),)))
    element = Load(table, Affine(0, ((column, 1),)), ((number, sizes[1]),))
    store = Store(y, Affine(0, ((k, sizes[1]), (column, 1))), element)
    inner = Loop(column, sizes[1], [store], LoopKind.VECTORIZED)
    return Kernel(
        "take_rows", [table, numbers, y], [Loop(k, sizes[0], [inner], LoopKind.PARALLEL)], sizes
    )


def add_rows(type: Type) -> Kernel:
    """g, numbers (I64), table: table[numbers[k]] += g[k]. Sizes: numbers, blocks, block, width.

    Threads share blocks of columns, so no two add to the same element.
    """
    g, numbers, table = Buffer(type, "g"), Buffer(Type.I64, "numbers"), Buffer(type, "table")
    block, k, column = Index("block"), Index("k"), Index("column")
    count, blocks, size, width = sizes = [Size(n) for n in ("count", "blocks", "block", "width")]
    number = Load(numbers, Affine(0, ((k, 1),)))
    here = ((block, size), (column, 1))
    store = Store(table, Affine(0, here), Load(g, Affine(0, ((k, width), *here))),
                  ((number, width),), add=True)
    body: list[Statement] = [Loop(column, size, [store], LoopKind.VECTORIZED)]
    nest = Loop(block, blocks, [Loop(k, count, body)], LoopKind.PARALLEL)
    return Kernel("add_rows", [g, numbers, table], [nest], sizes)


def sum_bags(type: Type, weighted: bool) -> Kernel:
    """table, numbers (I64), bags (I64), (weights), y: y[bags[k]] += table[numbers[k]] * weights[k].

    Sizes: numbers, blocks, block, width. Threads share blocks of columns.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, to, by = Buffer(Type.I64, "numbers"), Buffer(Type.I64, "bags"), Buffer(type, "weights")
    block, k, column = Index("block"), Index("k"), Index("column")
    count, blocks, size, width = sizes = [Size(n) for n in ("count", "blocks", "block", "width")]
    index, here = Affine(0, ((k, 1),)), Affine(0, ((block, size), (column, 1)))
    value: Expression = Load(table, here, ((Load(numbers, index), width),))
    if weighted:
        value = Apply(Scalar.MUL, (value, Load(by, index)), type)
    store = Store(y, here, value, ((Load(to, index), width),), add=True)
    body: list[Statement] = [Loop(column, size, [store], LoopKind.VECTORIZED)]
    nest = Loop(block, blocks, [Loop(k, count, body)], LoopKind.PARALLEL)
    buffers = [table, numbers, to, *([by] if weighted else []), y]
    return Kernel("sum_bags", buffers, [nest], sizes)


def sum_even_bags(type: Type, weighted: bool) -> Kernel:
    """table, numbers (I64), (weights), y: as sum_bags, for bags of equal size.

    Sizes: bags, numbers per bag, width.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, by = Buffer(Type.I64, "numbers"), Buffer(type, "weights")
    bag, k, column = Index("bag"), Index("k"), Index("column")
    bags, count, width = sizes = [Size(n) for n in ("bags", "count", "width")]
    bag_index, total = Affine(0, ((bag, count), (k, 1))), Accumulator(ReduceOp.SUM, type)
    value: Expression = Load(table, Affine(0, ((column, 1),)), ((Load(numbers, bag_index), width),))
    if weighted:
        value = Apply(Scalar.MUL, (value, Load(by, bag_index)), type)
    body: list[Statement] = [
        Begin(total), Loop(k, count, [Update(total, value)]),
        Store(y, Affine(0, ((bag, width), (column, 1))), total),
    ]
    nest = Loop(bag, bags, [Loop(column, width, body, LoopKind.VECTORIZED)], LoopKind.PARALLEL)
    return Kernel("sum_even_bags", [table, numbers, *([by] if weighted else []), y], [nest], sizes)


def even_bag_maxima(type: Type) -> Kernel:
    """table, numbers (I64), y, which (I64): maxima of bags, and the first row with each maximum.

    Sizes: bags, numbers per bag, width.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, argmaxes = Buffer(Type.I64, "numbers"), Buffer(Type.I64, "which")
    bag, k, column = Index("bag"), Index("k"), Index("column")
    bags, count, width = sizes = [Size(n) for n in ("bags", "count", "width")]
    argmax = Accumulator(ReduceOp.ARGMAX, Type.I64, "most")
    value = Load(table, Affine(0, ((column, 1),)),
                 ((Load(numbers, Affine(0, ((bag, count), (k, 1)))), width),))
    number = Load(numbers, Affine(0, ((bag, count),)), ((argmax, 1),))
    here = Affine(0, ((bag, width), (column, 1)))
    body: list[Statement] = [
        Begin(argmax),
        Loop(k, count, [Update(argmax, value, IndexValue(Affine(0, ((k, 1),))))]),
        Store(argmaxes, here, number),
        Store(y, here, Load(table, Affine(0, ((column, 1),)), ((number, width),))),
    ]
    nest = Loop(bag, bags, [Loop(column, width, body, LoopKind.VECTORIZED)], LoopKind.PARALLEL)
    return Kernel("even_bag_maxima", [table, numbers, y, argmaxes], [nest], sizes)
