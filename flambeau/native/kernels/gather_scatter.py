"""Gather, scatter and scatter-add along an axis, with an index per element."""

from __future__ import annotations

from ..loop_ir.expression_builder import Value, apply, constant
from ..loop_ir.index_notation import (
    Offset, create_indices, load, nest, repeat, store, update, vectorize,
)
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Buffer, Kernel, ReduceOp, Scalar, Size, Statement, Store, Type,
)


def take_last(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, k] = x[o, numbers[o, k]]. Sizes: rows, numbers per row, width."""
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    row, k = create_indices("row k")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here = row * count + k
    value = load(x, row * width, (load(numbers, here), 1))
    body = nest([vectorize(k, count, store(y, here, value))], (row, rows))
    return Kernel("take_last", [x, numbers, y], [body], sizes)


def take_last_checked(type: Type) -> Kernel:
    """x, numbers (U64), last (U64), most (U64), y: as take_last, clamping numbers to `last`.

    `most`: receives each row's greatest number, computed while the row is in cache.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.U64, "numbers"), Buffer(type, "y")
    last, largest = Buffer(Type.U64, "last"), Buffer(Type.U64, "most")
    row, k = create_indices("row k")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here, greatest = row * count + k, Accumulator(ReduceOp.MAXIMUM, Type.U64, "greatest")
    number = load(numbers, here)
    place = apply(Scalar.MINIMUM, number, load(last)).cast(Type.I64)
    body = nest([
        Begin(greatest),
        vectorize(k, count, update(greatest, number),
                  store(y, here, load(x, row * width, (place, 1)))),
        store(largest, row, Value(greatest)),
    ], (row, rows))
    return Kernel("take_last_checked", [x, numbers, last, largest, y], [body], sizes)


def take_middle(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, k, i] = x[o, numbers[o, k, i], i].

    Sizes: outer, numbers along the axis, inner, elements of x per outer.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, k, i = create_indices("o k i")
    sizes = [Size(n) for n in ("outer", "count", "inner", "each", "made")]
    outer, count, inner, each, result_elements = sizes
    here = o * result_elements + k * inner + i
    value = load(x, o * each + i, (load(numbers, here), inner))
    body = nest([vectorize(i, inner, store(y, here, value))], (o, outer), (k, count))
    return Kernel("take_middle", [x, numbers, y], [body], sizes)


def _store_combined(y: Buffer, at: Affine, offset: Offset, value: Value, mode: bool | str) -> Store:
    """Store a value in y; `mode`: True adds it, a string names the operation that combines them."""
    if isinstance(mode, bool):
        return store(y, at, value, offset, add=mode)
    return store(y, at, apply(Scalar[mode], load(y, at, offset), value), offset)


def put_last(type: Type, add: bool | str, fresh: bool = False) -> Kernel:
    """x, numbers (I64), y: y[o, numbers[o, k]] = x[o, k], or combined, in order of k.

    `fresh`: the kernel zeroes y first. Sizes: rows, numbers per row, elements per row of y.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    row, k, column = create_indices("row k column")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here = row * count + k
    put = _store_combined(y, row * width, (load(numbers, here), 1), load(x, here), add)
    body: list[Statement] = [repeat(k, count, put)]
    if fresh:
        clear = store(y, row * width + column, constant(0, type))
        body.insert(0, vectorize(column, width, clear))
    return Kernel("put_last", [x, numbers, y], [nest(body, (row, rows))], sizes)


def put_middle(type: Type, add: bool | str) -> Kernel:
    """x, numbers (I64), y: y[o, numbers[o, k, i], i] = x[o, k, i], or combined.

    Sizes: outer, blocks of inner, numbers along the axis, inner per block and in all, elements per
    outer of y and of x. Threads share blocks, so no two write to the same element.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, block, k, i = create_indices("o block k i")
    names = ("outer", "blocks", "count", "length", "inner", "each", "made")
    outer, blocks, count, length, inner, each, result_elements = sizes = [Size(n) for n in names]
    here = o * result_elements + block * length + k * inner + i
    put = _store_combined(y, o * each + block * length + i, (load(numbers, here), inner),
                          load(x, here), add)
    body = nest([repeat(k, count, vectorize(i, length, put))], (o, outer), (block, blocks))
    return Kernel("put_middle", [x, numbers, y], [body], sizes)
