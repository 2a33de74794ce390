"""Copies between arrays with different orders of axes in memory."""

from __future__ import annotations

from ..loop_ir.ir import (
    Affine, Buffer, Index, Kernel, Load, Loop, LoopKind, Size, Statement, Store, Type,
)

_AXES = 4  # of the rows that `build_row_copy` copies, e.g. interleaved queries, keys and values


def build_transpose(type: Type, axes: int, inner: int) -> Kernel:
    """x, y: copy x, contiguous along axis `inner` (not the last), into y in order.

    Sizes: for each axis its extent, and its strides (in elements) in x and in y.
    """
    indices = [Index(f"i{k}") for k in range(axes)]
    sizes = [[Size(f"{name}{k}") for name in ("extent", "x", "y")] for k in range(axes)]
    x, y, last = Buffer(type, "x"), Buffer(type, "y"), axes - 1
    source = Affine(0, tuple((i, 1 if k == inner else sizes[k][1]) for k, i in enumerate(indices)))
    target = Affine(0, tuple([(i, 1 if k == last else sizes[k][2]) for k, i in enumerate(indices)]))
    body: list[Statement] = [Store(y, target, Load(x, source))]
    body = [Loop(indices[last], sizes[last][0], body, LoopKind.VECTORIZED)]
    for k in [inner, *[k for k in range(last - 1, -1, -1) if k != inner]]:
        body = [Loop(indices[k], sizes[k][0], body, LoopKind.PARALLEL)]
    return Kernel("transpose", [x, y], body, [size for sizes in sizes for size in sizes])


def build_row_copy(type: Type, unit_stride: int | None = 1, of_y: int | None = 1) -> Kernel:
    """x, y: copy rows, with element strides `unit_stride` and `of_y`; None: a size argument.

    Sizes: the rows' length, (the elements' strides,) then for each of four axes of rows the extent
    and the strides (in elements) in x and in y.
    """
    x, y, column = Buffer(type, "x"), Buffer(type, "y"), Index("column")
    length = Size("length")
    step_x = Size("step_x") if unit_stride is None else unit_stride
    step_y = Size("step_y") if of_y is None else of_y
    sizes = [length, *[s for s in (step_x, step_y) if isinstance(s, Size)]]
    axes = []
    for k in range(_AXES):
        extent, far_x, far_y = (Size(f"{name}{k}") for name in ("extent", "x", "y"))
        sizes += [extent, far_x, far_y]
        axes.append((Index(f"i{k}"), extent, far_x, far_y))
    source = Affine(0, (*[(i, far) for i, _, far, _ in axes], (column, step_x)))
    target = Affine(0, (*[(i, far) for i, _, _, far in axes], (column, step_y)))
    body: list[Statement] = [
        Loop(column, length, [Store(y, target, Load(x, source))], LoopKind.VECTORIZED)
    ]
    for index, extent, _, _ in reversed(axes):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    return Kernel("row_copy", [x, y], body, sizes)


def build_fill(type: Type) -> Kernel:
    """x, y: fill y with the single element of x. Size: y's elements."""
    x, y, i, count = Buffer(type, "x"), Buffer(type, "y"), Index("i"), Size("count")
    store = Store(y, Affine(0, ((i, 1),)), Load(x, Affine()))
    return Kernel("fill", [x, y], [Loop(i, count, [store], LoopKind.PARALLEL)], [count])
