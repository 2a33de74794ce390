"""Matrix products as kernels: a stack of a @ b in any layout, optionally plus a bias row.

`build_product` serves one shape; `build_sized_product` serves all shapes of a form and takes sizes
at each call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Contract, Expression, Extent, Index, Kernel, Load,
    Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type,
)


@dataclass(frozen=True)
class GemmLayout:
    """A stack of products: extents, and strides in elements (stack axes, then the matrix's two).

    Half precision is summed in F32, with the bias. `precision`: as in Contract.
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


@dataclass(frozen=True)
class GemmForm:
    """The form of a product, all but its sizes; products of one form share a kernel.

    `a_along`, `b_along`: whether memory is contiguous along the depth, else along rows or columns.
    `rows`: the number of rows, if so few that they have a separate kernel. `near`, `precision`: as
    in Contract.
    """

    type: Type
    a_along: bool
    b_along: bool
    stack: int = 0  # axes
    bias: bool = False
    rows: int | None = None
    near: bool = False
    precision: int = 3


@dataclass(frozen=True)
class _Strides:
    """Extents and strides of all axes (the stack's, then the matrix's two)."""

    stack: tuple[Extent, ...]
    m: Extent
    n: Extent
    k: Extent
    a: tuple[Extent, ...]
    b: tuple[Extent, ...]
    c: tuple[Extent, ...]


def build_product(layout: GemmLayout) -> Kernel:
    """Return a kernel for c = a @ b (+ bias), c contiguous. Buffers: a, b, bias if any, c."""
    layout = _drop_unit_axes(layout)
    result: list[int] = [layout.n, 1]
    step = layout.m * layout.n
    for extent in reversed(layout.stack):
        result.insert(0, step)
        step *= extent
    strides = _Strides(layout.stack, layout.m, layout.n, layout.k, layout.a, layout.b,
                       tuple(result))
    body = _build_body(layout.type, strides, layout.bias, precision=layout.precision)
    return Kernel("product", *body)


def _drop_unit_axes(layout: GemmLayout) -> GemmLayout:
    """Drop stack axes of extent 1: threads share the outermost loop, or the only product."""
    last = len(layout.stack)
    stacked = [i for i, extent in enumerate(layout.stack) if extent != 1]
    a, b = (tuple([terms[i] for i in (*stacked, last, last + 1)]) for terms in (layout.a, layout.b))
    return replace(layout, stack=tuple([layout.stack[i] for i in stacked]), a=a, b=b)


def build_sized_product(form: GemmForm) -> Kernel:
    """Return a kernel for c = a @ b (+ bias) of any size. Buffers: as for `build_product`.

    Sizes, in elements: m, n and k; the row strides of a and b in memory (or column strides,
    depending on the form); each stack axis's extent and strides of a, b and c. c's matrices are
    contiguous.
    """
    m, n, k, a, b = (Size(name) for name in ("m", "n", "k", "a_apart", "b_apart"))
    stack = [[Size(f"{name}{i}") for name in ("stack", "a_step", "b_step", "c_step")]
             for i in range(form.stack)]
    extents, *steps = (tuple(axis_sizes)
                       for axis_sizes in zip(*stack, strict=True)) if stack else [()] * 4
    rows: Extent = m if form.rows is None else form.rows
    pairs = ((a, 1) if form.a_along else (1, a), (1, b) if form.b_along else (b, 1), (n, 1))
    strides = _Strides(extents, rows, n, k, *(s + p for s, p in zip(steps, pairs, strict=True)))
    buffers, body = _build_body(form.type, strides, form.bias, form.precision, form.near)
    return Kernel("products", buffers, body, [m, n, k, a, b, *(size for s in stack for size in s)])


def _build_body(
    type: Type, strides: _Strides, has_bias: bool, precision: int = 3, near: bool = False
) -> tuple[list[Buffer], list[Statement]]:
    """Return the buffers and statements of a product."""
    row, column, depth = (Index(name) for name in ("row", "column", "depth"))
    numbers = [Index(f"stack{i}") for i in range(len(strides.stack))]
    a, b, c = (Buffer(type, name) for name in "abc")

    def at(strides: tuple[Extent, ...], first: Index, second: Index) -> Affine:
        return Affine(0, tuple(zip((*numbers, first, second), strides, strict=True)))

    half = type in (Type.F16, Type.BF16)
    sums = Accumulator(ReduceOp.SUM, Type.F32 if half else type)
    value: Expression = sums
    buffers = [a, b]
    if has_bias:
        bias = Buffer(type, "bias")
        buffers.append(bias)
        row_of: Expression = Load(bias, Affine(0, ((column, 1),)))
        row_of = Apply(Scalar.CAST, (row_of,), sums.type) if half else row_of
        value = Apply(Scalar.ADD, (sums, row_of), sums.type)
    if half:
        value = Apply(Scalar.CAST, (value,), type)
    body: list[Statement] = [Contract(
        (Axis(row, strides.m),), Axis(column, strides.n), (Axis(depth, strides.k),),
        Load(a, at(strides.a, row, depth)), Load(b, at(strides.b, depth, column)), sums,
        [Store(c, at(strides.c, row, column), value)], precision, near,
    )]
    for number, extent in zip(reversed(numbers), reversed(strides.stack), strict=True):
        body = [Loop(number, extent, body, LoopKind.PARALLEL)]
    return [*buffers, c], body
