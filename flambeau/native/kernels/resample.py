"""Resampling along image axes: each output is a weighted sum of a few inputs."""

from __future__ import annotations

from ..loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Expression, Index, Kernel, Load, Loop, LoopKind, Scalar, Size,
    Statement, Store, Type,
)


def resample(type: Type, taps: int, weighted: bool, last: bool, whole: bool) -> Kernel:
    """y[o, i, j] = the sum over taps of weight[i] * x[o, place[i], j]; no j if `last`.

    Buffers: x, the taps' positions (I64), their weights if `weighted`, y. Sizes: of o, i and j,
    elements per o of x and of y. Unless `whole`, taps at positions below 0 are skipped.
    """
    x, y = Buffer(type, "x"), Buffer(type, "y")
    places = [Buffer(Type.I64, f"places{k}") for k in range(taps)]
    weights = [Buffer(type, f"weights{k}") for k in range(taps if weighted else 0)]
    o, i, j = Index("o"), Index("i"), Index("j")
    outer, count, inner, each, result_elements = sizes = [
        Size(n) for n in ("outer", "count", "inner", "each", "made")
    ]
    along = () if last else ((j, 1),)
    step = 1 if last else inner
    total: Expression | None = None
    for k, buffer in enumerate(places):
        here = Affine(0, ((i, 1),))
        place = Load(buffer, here)
        mask = None if whole else Apply(Scalar.GE, (place, Constant(Type.I64, 0)), Type.BOOL)
        part: Expression = Load(x, Affine(0, ((o, each), *along)), ((place, step),), mask)
        if weighted:
            part = Apply(Scalar.MUL, (part, Load(weights[k], here)), type)
        total = part if total is None else Apply(Scalar.ADD, (total, part), type)
    assert total is not None
    body: list[Statement] = [Store(y, Affine(0, ((o, result_elements), (i, step), *along)), total)]
    if not last:
        body = [Loop(j, inner, body, LoopKind.VECTORIZED)]
    body = [Loop(i, count, body, LoopKind.VECTORIZED if last else LoopKind.PARALLEL)]
    nest = Loop(o, outer, body, LoopKind.PARALLEL)
    return Kernel("resample", [x, *places, *weights, y], [nest], sizes)


def take_pixels(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, c, k] = x[o, c, numbers[o, k]].

    Sizes: o's, c's, numbers of an o, and the elements of a c of x, an o of x and an o of y.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, c, k = Index("o"), Index("c"), Index("k")
    names = ("outer", "channels", "count", "size", "each", "made")
    outer, channels, count, size, each, result_elements = sizes = [Size(n) for n in names]
    number = Load(numbers, Affine(0, ((o, count), (k, 1))))
    value = Load(x, Affine(0, ((o, each), (c, size))), ((number, 1),))
    body: list[Statement] = [Store(y, Affine(0, ((o, result_elements), (c, count), (k, 1))), value)]
    body = [Loop(k, count, body, LoopKind.VECTORIZED)]
    for index, extent in ((c, channels), (o, outer)):
        body = [Loop(index, extent, body, LoopKind.PARALLEL)]
    return Kernel("take_pixels", [x, numbers, y], body, sizes)
