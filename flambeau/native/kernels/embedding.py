"""Embedding kernels: rows of a table gathered, scattered, and summed in bags."""

from __future__ import annotations

from ..loop_ir.expression_builder import Value
from ..loop_ir.index_notation import create_indices, load, nest, repeat, store, update, vectorize
from ..loop_ir.ir import (
    Accumulator, Begin, Buffer, IndexValue, Kernel, ReduceOp, Size, Type, Update,
)


def take_rows(type: Type) -> Kernel:
    """table, numbers (I64), y: y[k] = table[numbers[k]]. Sizes: numbers, width."""
    table, numbers, y = Buffer(type, "table"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    k, column = create_indices("k column")
    count, width = sizes = [Size("count"), Size("width")]
    element = load(table, column, (load(numbers, k), width))
    row = vectorize(column, width, store(y, k * width + column, element))
    return Kernel("take_rows", [table, numbers, y], [nest([row], (k, count))], sizes)


def add_rows(type: Type) -> Kernel:
    """g, numbers (I64), table: table[numbers[k]] += g[k]. Sizes: numbers, blocks, block, width.

    Threads share blocks of columns, so no two add to the same element.
    """
    g, numbers, table = Buffer(type, "g"), Buffer(Type.I64, "numbers"), Buffer(type, "table")
    block, k, column = create_indices("block k column")
    count, blocks, size, width = sizes = [Size(n) for n in ("count", "blocks", "block", "width")]
    value = load(g, k * width + block * size + column)
    row = vectorize(column, size, store(
        table, block * size + column, value, (load(numbers, k), width), add=True))
    body = nest([repeat(k, count, row)], (block, blocks))
    return Kernel("add_rows", [g, numbers, table], [body], sizes)


def sum_bags(type: Type, weighted: bool) -> Kernel:
    """table, numbers (I64), bags (I64), (weights), y: y[bags[k]] += table[numbers[k]] * weights[k].

    Sizes: numbers, blocks, block, width. Threads share blocks of columns.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, to, by = Buffer(Type.I64, "numbers"), Buffer(Type.I64, "bags"), Buffer(type, "weights")
    block, k, column = create_indices("block k column")
    count, blocks, size, width = sizes = [Size(n) for n in ("count", "blocks", "block", "width")]
    here = block * size + column
    value = load(table, here, (load(numbers, k), width))
    value = value * load(by, k) if weighted else value
    row = vectorize(column, size, store(y, here, value, (load(to, k), width), add=True))
    buffers = [table, numbers, to, *([by] if weighted else []), y]
    return Kernel("sum_bags", buffers, [nest([repeat(k, count, row)], (block, blocks))], sizes)


def sum_even_bags(type: Type, weighted: bool) -> Kernel:
    """table, numbers (I64), (weights), y: as sum_bags, for bags of equal size.

    Sizes: bags, numbers per bag, width.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, by = Buffer(Type.I64, "numbers"), Buffer(type, "weights")
    bag, k, column = create_indices("bag k column")
    bags, count, width = sizes = [Size(n) for n in ("bags", "count", "width")]
    member, total = bag * count + k, Accumulator(ReduceOp.SUM, type)
    value = load(table, column, (load(numbers, member), width))
    value = value * load(by, member) if weighted else value
    row = vectorize(column, width, Begin(total), repeat(k, count, update(total, value)),
                    store(y, bag * width + column, Value(total)))
    buffers = [table, numbers, *([by] if weighted else []), y]
    return Kernel("sum_even_bags", buffers, [nest([row], (bag, bags))], sizes)


def even_bag_maxima(type: Type) -> Kernel:
    """table, numbers (I64), y, which (I64): maxima of bags, and the first row with each maximum.

    Sizes: bags, numbers per bag, width.
    """
    table, y = Buffer(type, "table"), Buffer(type, "y")
    numbers, argmaxes = Buffer(Type.I64, "numbers"), Buffer(Type.I64, "which")
    bag, k, column = create_indices("bag k column")
    bags, count, width = sizes = [Size(n) for n in ("bags", "count", "width")]
    argmax, here = Accumulator(ReduceOp.ARGMAX, Type.I64, "most"), bag * width + column
    value = load(table, column, (load(numbers, bag * count + k), width))
    number = load(numbers, bag * count, (Value(argmax), 1))
    row = vectorize(
        column, width, Begin(argmax),
        repeat(k, count, Update(argmax, value.expression, IndexValue(k * 1))),
        store(argmaxes, here, number), store(y, here, load(table, column, (number, width))))
    return Kernel("even_bag_maxima", [table, numbers, y, argmaxes], [nest([row], (bag, bags))],
                  sizes)
