"""Copies between arrays with different orders of axes in memory."""

from __future__ import annotations

from ..loop_ir.index_notation import create_indices, load, nest, store, vectorize
from ..loop_ir.ir import Affine, Buffer, Index, Kernel, Size, Type

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
    row = vectorize(indices[last], sizes[last][0], store(y, target, load(x, source)))
    outer = [k for k in range(last) if k != inner]
    body = nest([row], *[(indices[k], sizes[k][0]) for k in (*outer, inner)])
    return Kernel("transpose", [x, y], [body], [size for sizes in sizes for size in sizes])


def build_row_copy(type: Type, unit_stride: int | None = 1, of_y: int | None = 1) -> Kernel:
    """x, y: copy rows, with element strides `unit_stride` and `of_y`; None: a size argument.

    Sizes: the rows' length, (the elements' strides,) then for each of four axes of rows the extent
    and the strides (in elements) in x and in y.
    """
    x, y, column, length = Buffer(type, "x"), Buffer(type, "y"), Index("column"), Size("length")
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
    row = vectorize(column, length, store(y, target, load(x, source)))
    body = nest([row], *[(index, extent) for index, extent, _, _ in axes])
    return Kernel("row_copy", [x, y], [body], sizes)


def build_fill(type: Type) -> Kernel:
    """x, y: fill y with the single element of x. Size: y's elements."""
    x, y, (i,), count = Buffer(type, "x"), Buffer(type, "y"), create_indices("i"), Size("count")
    return Kernel("fill", [x, y], [nest([store(y, i, load(x))], (i, count))], [count])
