"""Gather, scatter and scatter-add along an axis, with an index per element."""

from __future__ import annotations

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Index, Kernel, Load, Loop,
    LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)


def take_last(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, k] = x[o, numbers[o, k]]. Sizes: rows, numbers per row, width."""
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    row, k = Index("row"), Index("k")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here = Affine(0, ((row, count), (k, 1)))
    value = Load(x, Affine(0, ((row, width),)), ((Load(numbers, here), 1),))
    inner = Loop(k, count, [Store(y, here, value)], LoopKind.VECTORIZED)
    return Kernel("take_last", [x, numbers, y], [Loop(row, rows, [inner], LoopKind.PARALLEL)],
                  sizes)


def take_last_checked(type: Type) -> Kernel:
    """x, numbers (U64), last (U64), most (U64), y: as take_last, clamping numbers to `last`.

    `most`: receives each row's greatest number, computed while the row is in cache.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.U64, "numbers"), Buffer(type, "y")
    last, largest = Buffer(Type.U64, "last"), Buffer(Type.U64, "most")
    row, k = Index("row"), Index("k")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here = Affine(0, ((row, count), (k, 1)))
    number, greatest = Load(numbers, here), Accumulator(ReduceOp.MAXIMUM, Type.U64, "greatest")
    clamped = Apply(Scalar.MINIMUM, (number, Load(last, Affine())), Type.U64)
    place = Apply(Scalar.CAST, (clamped,), Type.I64)
    value = Load(x, Affine(0, ((row, width),)), ((place, 1),))
    each: list[Statement] = [Update(greatest, number), Store(y, here, value)]
    body: list[Statement] = [
        Begin(greatest), Loop(k, count, each, LoopKind.VECTORIZED),
        Store(largest, Affine(0, ((row, 1),)), greatest),
    ]
    return Kernel("take_last_checked", [x, numbers, last, largest, y],
                  [Loop(row, rows, body, LoopKind.PARALLEL)], sizes)


def take_middle(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, k, i] = x[o, numbers[o, k, i], i].

    Sizes: outer, numbers along the axis, inner, elements of x per outer.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, k, i = Index("o"), Index("k"), Index("i")
    sizes = [Size(n) for n in ("outer", "count", "inner", "each", "made")]
    outer, count, inner, each, result_elements = sizes
    here = Affine(0, ((o, result_elements), (k, inner), (i, 1)))
    value = Load(x, Affine(0, ((o, each), (i, 1))), ((Load(numbers, here), inner),))
    body: list[Statement] = [Loop(i, inner, [Store(y, here, value)], LoopKind.VECTORIZED)]
    for index, extent in ((k, count), (o, outer)):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    return Kernel("take_middle", [x, numbers, y], body, sizes)


def _build_scatter_store(y: Buffer, at: Affine, number: Expression, stride: Size | int,
                         value: Expression,
                         mode: bool | str) -> Store:
    """Store a value in y; `mode`: True adds it, a string names the operation that combines them."""
    indirect = ((number, stride),)
    if isinstance(mode, bool):
        return Store(y, at, value, indirect, add=mode)
    return Store(y, at, Apply(Scalar[mode], (Load(y, at, indirect), value), y.type), indirect)


def put_last(type: Type, add: bool | str, fresh: bool = False) -> Kernel:
    """x, numbers (I64), y: y[o, numbers[o, k]] = x[o, k], or combined, in order of k.

    `fresh`: the kernel zeroes y first. Sizes: rows, numbers per row, elements per row of y.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    row, k = Index("row"), Index("k")
    rows, count, width = sizes = [Size(n) for n in ("rows", "count", "width")]
    here = Affine(0, ((row, count), (k, 1)))
    store = _build_scatter_store(
        y, Affine(0, ((row, width),)), Load(numbers, here), 1, Load(x, here), add
    )
    body: list[Statement] = [Loop(k, count, [store])]
    if fresh:
        column = Index("column")
        clear = Store(y, Affine(0, ((row, width), (column, 1))), Constant(type, 0))
        body.insert(0, Loop(column, width, [clear], LoopKind.VECTORIZED))
    nest = Loop(row, rows, body, LoopKind.PARALLEL)
    return Kernel("put_last", [x, numbers, y], [nest], sizes)


def put_middle(type: Type, add: bool | str) -> Kernel:
    """x, numbers (I64), y: y[o, numbers[o, k, i], i] = x[o, k, i], or combined.

    Sizes: outer, blocks of inner, numbers along the axis, inner per block and in all, elements per
    outer of y and of x. Threads share blocks, so no two write to the same element.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, block, k, i = Index("o"), Index("block"), Index("k"), Index("i")
    names = ("outer", "blocks", "count", "length", "inner", "each", "made")
    outer, blocks, count, length, inner, each, result_elements = sizes = [Size(n) for n in names]
    here = Affine(0, ((o, result_elements), (block, length), (k, inner), (i, 1)))
    target = Affine(0, ((o, each), (block, length), (i, 1)))
    store = _build_scatter_store(y, target, Load(numbers, here), inner, Load(x, here), add)
    body: list[Statement] = [Loop(k, count, [Loop(i, length, [store], LoopKind.VECTORIZED)])]
    for index, extent in ((block, blocks), (o, outer)):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    return Kernel("put_middle", [x, numbers, y], body, sizes)
