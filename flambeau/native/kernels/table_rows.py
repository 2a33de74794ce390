"""Rows of a table by their numbers: taken, and added to."""

from __future__ import annotations

from ..loops import (
    Affine, Buffer, Index, Kernel, Kind, Load, Loop, Size, Statement, Store, Type,
)  # fmt: skip


def take_rows(type: Type) -> Kernel:
    """table, numbers (I64), y: y[k] = table[numbers[k]]. Sizes: numbers, width."""
    table, at, y = Buffer(type, "table"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    k, column = Index("k"), Index("column")
    sizes = [Size("count"), Size("width")]
    number = Load(at, Affine(0, ((k, 1),)))
    element = Load(table, Affine(0, ((column, 1),)), ((number, sizes[1]),))
    store = Store(y, Affine(0, ((k, sizes[1]), (column, 1))), element)
    inner = Loop(column, sizes[1], [store], Kind.LANES)
    return Kernel("take_rows", [table, at, y], [Loop(k, sizes[0], [inner], Kind.PARALLEL)], sizes)


def add_rows(type: Type) -> Kernel:
    """g, numbers (I64), table: table[numbers[k]] += g[k]. Sizes: numbers, blocks, block, width.

    Threads share out blocks of columns, so that no two add to one place.
    """
    g, at, table = Buffer(type, "g"), Buffer(Type.I64, "numbers"), Buffer(type, "table")
    block, k, column = Index("block"), Index("k"), Index("column")
    count, blocks, size, width = sizes = [Size(n) for n in ("count", "blocks", "block", "width")]
    number = Load(at, Affine(0, ((k, 1),)))
    here = ((block, size), (column, 1))
    store = Store(table, Affine(0, here), Load(g, Affine(0, ((k, width), *here))),
                  ((number, width),), add=True)  # fmt: skip
    body: list[Statement] = [Loop(column, size, [store], Kind.LANES)]
    nest = Loop(block, blocks, [Loop(k, count, body)], Kind.PARALLEL)
    return Kernel("add_rows", [g, at, table], [nest], sizes)
