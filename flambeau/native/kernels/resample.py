"""Resampling along image axes: each output is a weighted sum of a few inputs."""

from __future__ import annotations

from ..loop_ir.expression_builder import Value
from ..loop_ir.index_notation import create_indices, load, nest, store, vectorize
from ..loop_ir.ir import Affine, Buffer, Kernel, Size, Type


def resample(type: Type, taps: int, weighted: bool, last: bool, whole: bool) -> Kernel:
    """y[o, i, j] = the sum over taps of weight[i] * x[o, place[i], j]; no j if `last`.

    Buffers: x, the taps' positions (I64), their weights if `weighted`, y. Sizes: of o, i and j,
    elements per o of x and of y. Unless `whole`, taps at positions below 0 are skipped.
    """
    x, y = Buffer(type, "x"), Buffer(type, "y")
    places = [Buffer(Type.I64, f"places{k}") for k in range(taps)]
    weights = [Buffer(type, f"weights{k}") for k in range(taps if weighted else 0)]
    o, i, j = create_indices("o i j")
    outer, count, inner, each, result_elements = sizes = [
        Size(n) for n in ("outer", "count", "inner", "each", "made")
    ]
    along, step = (Affine(), 1) if last else (j * 1, inner)
    total: Value | None = None
    for k, buffer in enumerate(places):
        place = load(buffer, i)
        part = load(x, o * each + along, (place, step), mask=None if whole else place >= 0)
        part = part * load(weights[k], i) if weighted else part
        total = part if total is None else total + part
    assert total is not None
    stored = store(y, o * result_elements + i * step + along, total)
    body = nest([vectorize(i, count, stored)], (o, outer)) if last else \
        nest([vectorize(j, inner, stored)], (o, outer), (i, count))
    return Kernel("resample", [x, *places, *weights, y], [body], sizes)


def take_pixels(type: Type) -> Kernel:
    """x, numbers (I64), y: y[o, c, k] = x[o, c, numbers[o, k]].

    Sizes: o's, c's, numbers of an o, and the elements of a c of x, an o of x and an o of y.
    """
    x, numbers, y = Buffer(type, "x"), Buffer(Type.I64, "numbers"), Buffer(type, "y")
    o, c, k = create_indices("o c k")
    names = ("outer", "channels", "count", "size", "each", "made")
    outer, channels, count, size, each, result_elements = sizes = [Size(n) for n in names]
    value = load(x, o * each + c * size, (load(numbers, o * count + k), 1))
    row = vectorize(k, count, store(y, o * result_elements + c * count + k, value))
    return Kernel("take_pixels", [x, numbers, y], [nest([row], (o, outer), (c, channels))], sizes)
