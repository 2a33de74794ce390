"""Matrix products as kernels: a stack of a @ b, in any layout, perhaps plus a row."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..loops import (
    Accumulator, Affine, Apply, Axis, Buffer, Contract, Expression, Fold, Index, Kernel, Kind, Load,
    Loop, Scalar, Statement, Store, Type,
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """A stack of products: its extents, and strides in elements (of the stack's axes, then two).

    Half precision is summed in F32, and has no bias. `precision`: as a Contract's.
    """

    type: Type
    stack: tuple[int, ...]
    m: int
    n: int
    k: int
    a: tuple[int, ...]  # ..., row, depth
    b: tuple[int, ...]  # ..., depth, column
    bias: bool = False
    precision: int = 3


def _of_several(layout: Layout) -> Layout:
    """Without axes of one product: threads share out the outermost loop, or the only product."""
    last = len(layout.stack)
    kept = [i for i, extent in enumerate(layout.stack) if extent != 1]
    a, b = (tuple([each[i] for i in (*kept, last, last + 1)]) for each in (layout.a, layout.b))
    return replace(layout, stack=tuple([layout.stack[i] for i in kept]), a=a, b=b)


def product(layout: Layout) -> Kernel:
    """c = a @ b (+ bias), c contiguous. Buffers: a, b, bias where there is one, c."""
    layout = _of_several(layout)
    row, column, depth = (Index(name) for name in ("row", "column", "depth"))
    numbers = [Index(f"stack{i}") for i in range(len(layout.stack))]
    a, b, c = (Buffer(layout.type, name) for name in "abc")
    result: list[int] = []
    step = layout.m * layout.n
    for extent in reversed(layout.stack):
        result.insert(0, step)
        step *= extent

    def at(strides: tuple[int, ...], first: Index, second: Index) -> Affine:
        return Affine(0, tuple(zip((*numbers, first, second), strides, strict=True)))

    half = layout.type in (Type.F16, Type.BF16)
    sums = Accumulator(Fold.SUM, Type.F32 if half else layout.type)
    value: Expression = sums
    buffers = [a, b]
    if layout.bias:
        bias = Buffer(layout.type, "bias")
        buffers.append(bias)
        added = Load(bias, Affine(0, ((column, 1),)))
        value = Apply(Scalar.ADD, (sums, added), layout.type)
    if half:
        value = Apply(Scalar.CAST, (value,), layout.type)
    target = at((*result, layout.n, 1), row, column)
    body: list[Statement] = [Contract(
        (Axis(row, layout.m),), Axis(column, layout.n), (Axis(depth, layout.k),),
        Load(a, at(layout.a, row, depth)), Load(b, at(layout.b, depth, column)), sums,
        [Store(c, target, value)], layout.precision,
    )]  # fmt: skip
    for number, extent in zip(reversed(numbers), reversed(layout.stack), strict=True):
        body = [Loop(number, extent, body, Kind.PARALLEL)]
    return Kernel("product", [*buffers, c], body)
