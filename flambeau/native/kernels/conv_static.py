"""Convolution kernels for one shape: forward, and gradients of input and weight, in two dimensions.

Tensors have explicit strides, so one builder serves images with rows or channels innermost.
Padding is a mask on the load, which the emitter eliminates by packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Constant, Contract, Expression, Extent, Index,
    IndexValue, Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Statement, Store, Type,
)

NchwStrides = tuple[int, int, int, int]  # of (n, c, h, w), in elements
Term = tuple[Index | Axis, int]


@dataclass(frozen=True)
class Geometry:
    """A convolution's sizes: x (n, c, h, w), weight (k, c / groups, kh, kw), y (n, k, oh, ow).

    `padding`: zeros before each spatial axis; those after it follow from `output`.
    """

    type: Type
    batch: int
    channels: int
    spatial: tuple[int, int]
    outputs: int
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    x: NchwStrides
    weight: NchwStrides
    y: NchwStrides

    @property
    def inputs_each(self) -> int:
        """Input channels per group."""
        return self.channels // self.groups

    @property
    def outputs_each(self) -> int:
        """Output channels per group."""
        return self.outputs // self.groups

    @property
    def inside(self) -> bool:
        """Whether no window reaches into the padding."""
        return not any(self.padding) and all(
            s * (o - 1) + d * (k - 1) < n
            for s, o, d, k, n in zip(self.stride, self.output, self.dilation, self.kernel,
                                     self.spatial, strict=True)
        )


def strides_of(shape: Sequence[int], last: bool) -> NchwStrides:
    """Return the strides of a contiguous (n, c, h, w), channels innermost in memory if `last`."""
    n, c, h, w = shape
    del n
    return (c * h * w, 1, w * c, c) if last else (c * h * w, h * w, w, 1)


def _create_axes(**extents: int) -> dict[str, Axis]:
    return {name: Axis(Index(name), extent) for name, extent in extents.items()}


def _create_bounds_mask(terms: Sequence[Term], offset: int, extent: int) -> Expression:
    """The mask of a padded axis: 0 <= position < extent."""
    position = IndexValue(make_affine(offset, *terms))
    low = Apply(Scalar.GE, (position, Constant(Type.I64, 0)), Type.BOOL)
    high = Apply(Scalar.LT, (position, Constant(Type.I64, extent)), Type.BOOL)
    return Apply(Scalar.AND, (low, high), Type.BOOL)


def load_image(
    buffer: Buffer, strides: NchwStrides, others: Sequence[Term | None],
    where: Sequence[Sequence[Term]], offsets: Sequence[int], extents: Sequence[int], masked: bool,
) -> Load:
    """Return an image element at affine (h, w) positions, masked if there is padding."""
    terms, base = list(others), 0
    for position, offset, stride in zip(where, offsets, strides[2:], strict=True):
        base += offset * stride
        terms += [(index, factor * stride) for index, factor in position]
    masks = [_create_bounds_mask(p, o, n) for p, o, n in zip(where, offsets, extents, strict=True)]
    mask = Apply(Scalar.AND, tuple(masks), Type.BOOL) if masked else None
    return Load(buffer, make_affine(base, *terms), mask=mask)


def _index_windows(g: Geometry, a: dict[str, Axis]) -> list[list[Term]]:
    """Return x's positions along both axes, without the padding."""
    return [
        [(a[o], s), (a[k], d)]
        for o, k, s, d in zip(("oh", "ow"), ("kh", "kw"), g.stride, g.dilation, strict=True)
    ]


def _load_input(g: Geometry, x: Buffer, a: dict[str, Axis], group: Index) -> Load:
    """Return the element of x for an output position and a kernel entry."""
    others = [(a["n"], g.x[0]), (a["ic"], g.x[1]), _group_term(g, group, g.x[1] * g.inputs_each)]
    masked = not (g.inside and (g.x[1] == 1 or g.inputs_each == 1))
    return load_image(x, g.x, others, _index_windows(g, a), [-p for p in g.padding], g.spatial,
                      masked)


def _index_weight(g: Geometry, a: dict[str, Axis], group: Index, base: int = 0,
                  steps: Sequence[int] = (1, 1)) -> Affine:
    """Return a weight's position; `steps`: kernel entries per iteration of kh and kw."""
    o, i, h, w = g.weight
    return make_affine(base, (a["oc"], o), (a["ic"], i), (a["kh"], h * steps[0]),
                       (a["kw"], w * steps[1]), _group_term(g, group, o * g.outputs_each))


def _index_output(g: Geometry, a: dict[str, Axis], group: Index) -> Affine:
    """y's position."""
    n, k, h, w = g.y
    return make_affine(0, (a["n"], n), (a["oc"], k), (a["oh"], h), (a["ow"], w),
                       _group_term(g, group, k * g.outputs_each))


def _loop_over_groups(groups: int, group: Index, body: list[Statement]) -> list[Statement]:
    return body if groups == 1 else [Loop(group, groups, body, LoopKind.PARALLEL)]


def _group_term(g: Geometry, index: Index, stride: int) -> Term | None:
    return (index, stride) if g.groups > 1 else None


def make_affine(base: int, *terms: tuple[Index | Axis, Extent] | None) -> Affine:
    """Return a position; terms that are None are skipped."""
    return Affine(base, tuple([
        (term[0].index if isinstance(term[0], Axis) else term[0], term[1])
        for term in terms if term is not None
    ]))


def build_forward(g: Geometry, bias: bool = False, relu: bool = False) -> Kernel:
    """Buffers x, weight, (bias,) y."""
    x, weight, y = (Buffer(g.type, name) for name in ("x", "weight", "y"))
    shift = Buffer(g.type, "bias")
    a = _create_axes(n=g.batch, oh=g.output[0], ow=g.output[1], kh=g.kernel[0], kw=g.kernel[1],
                     ic=g.inputs_each, oc=g.outputs_each)
    group, total = Index("group"), Accumulator(ReduceOp.SUM, g.type)
    value: Expression = total
    if bias:
        place = make_affine(0, (a["oc"], 1), _group_term(g, group, g.outputs_each))
        value = Apply(Scalar.ADD, (value, Load(shift, place)), g.type)
    if relu:
        value = Apply(Scalar.MAXIMUM, (value, Constant(g.type, 0.0)), g.type)
    contract = Contract(
        (a["n"], a["oh"], a["ow"]), a["oc"], (a["kh"], a["kw"], a["ic"]),
        _load_input(g, x, a, group),
        Load(weight, _index_weight(g, a, group)), total,
        [Store(y, _index_output(g, a, group), value)],
    )
    buffers = [x, weight, *([shift] if bias else []), y]
    return Kernel("conv_forward", buffers, _loop_over_groups(g.groups, group, [contract]))


def build_backward_data(g: Geometry) -> Kernel:
    """Buffers gy, weight, gx: the gradient of the input.

    Positions of x that are congruent modulo the stride meet the same kernel entries: each such
    phase is a separate convolution of gy.
    """
    gy, weight, gx = (Buffer(g.type, name) for name in ("gy", "weight", "gx"))
    group, body = Index("group"), []
    for first in range(g.stride[0]):
        for second in range(g.stride[1]):
            body += _create_phase(g, (first, second), (gy, weight, gx), group)
    return Kernel("conv_backward_data", [gy, weight, gx], _loop_over_groups(g.groups, group, body))


def phase_taps(g: Geometry, axis: int, phase: int) -> tuple[list[int], int, int]:
    """Return, for positions phase + stride * i along an axis: the first kernel entry that meets
    them and the step between such entries, their number, and y's position for i = 0 and the first
    entry. y's position decreases by `dilation * step / stride` per entry."""
    s, d, k = g.stride[axis], g.dilation[axis], g.kernel[axis]
    meet = [i for i in range(k) if (phase + g.padding[axis] - i * d) % s == 0]
    start = (phase + g.padding[axis] - meet[0] * d) // s if meet else 0
    step = meet[1] - meet[0] if len(meet) > 1 else 1
    return meet, start, d * step // s


def _create_phase(g: Geometry, phase: tuple[int, int], buffers: Sequence[Buffer], group: Index
                  ) -> list[Statement]:
    gy, weight, gx = buffers
    counts = [-(-(n - p) // s) for n, p, s in zip(g.spatial, phase, g.stride, strict=True)]
    meets = [phase_taps(g, axis, phase[axis]) for axis in (0, 1)]
    a = _create_axes(n=g.batch, ih=counts[0], iw=counts[1], kh=len(meets[0][0]),
                     kw=len(meets[1][0]),
                     oc=g.outputs_each, ic=g.inputs_each)
    first = phase[0] * g.x[2] + phase[1] * g.x[3]
    apart = g.x[2] * g.stride[0], g.x[3] * g.stride[1]
    place = make_affine(first, (a["n"], g.x[0]), (a["ic"], g.x[1]), (a["ih"], apart[0]),
                        (a["iw"], apart[1]), _group_term(g, group, g.x[1] * g.inputs_each))
    if not prod(counts):
        return []
    if not meets[0][0] or not meets[1][0]:
        return [_clear_uncovered(g, gx, place, [a["n"], a["ih"], a["iw"], a["ic"]])]
    windows: list[list[Term]] = [
        [(a[i], 1), (a[k], -less)]
        for i, k, (_, _, less) in zip(("ih", "iw"), ("kh", "kw"), meets, strict=True)
    ]
    others = [(a["n"], g.y[0]), (a["oc"], g.y[1]), _group_term(g, group, g.y[1] * g.outputs_each)]
    offsets = [start for _, start, _ in meets]
    within = all(
        start - less * (len(meet) - 1) >= 0 and start + count - 1 < n
        for (meet, start, less), count, n in zip(meets, counts, g.output, strict=True)
    )
    masked = not (within and (g.y[1] == 1 or g.outputs_each == 1))
    read = load_image(gy, g.y, others, windows, offsets, g.output, masked)
    steps = [m[1] - m[0] if len(m) > 1 else 1 for m, _, _ in meets]
    base = meets[0][0][0] * g.weight[2] + meets[1][0][0] * g.weight[3]
    factor = Load(weight, _index_weight(g, a, group, base, steps))
    total = Accumulator(ReduceOp.SUM, g.type)
    return [Contract((a["n"], a["ih"], a["iw"]), a["ic"], (a["kh"], a["kw"], a["oc"]), read,
                     factor, total, [Store(gx, place, total)])]


def _clear_uncovered(g: Geometry, buffer: Buffer, place: Affine, axes: Sequence[Axis]) -> Statement:
    """Store zero at positions that no window meets."""
    body: Statement = Store(buffer, place, Constant(g.type, 0.0))
    ordered = sorted(axes, key=lambda axis: abs(int(place.stride(axis.index))))  # type: ignore[arg-type]
    for n, axis in enumerate(ordered):
        kind = LoopKind.VECTORIZED if n == 0 else LoopKind.SERIAL
        if n == len(ordered) - 1 and g.groups == 1:
            kind = LoopKind.PARALLEL
        body = Loop(axis.index, axis.extent, [body], kind)
    return body


def build_backward_weight(g: Geometry) -> Kernel:
    """Buffers x, gy, gw: the gradient of the weight."""
    x, gy, gw = (Buffer(g.type, name) for name in ("x", "gy", "gw"))
    a = _create_axes(n=g.batch, oh=g.output[0], ow=g.output[1], kh=g.kernel[0], kw=g.kernel[1],
                     ic=g.inputs_each, oc=g.outputs_each)
    group, total = Index("group"), Accumulator(ReduceOp.SUM, g.type)
    # Neighboring rows of a tile read neighboring elements of x, or else write those of gw.
    taps = (a["kh"], a["kw"])
    rows = (*taps, a["ic"]) if g.x[1] == 1 or g.weight[1] == 1 else (a["ic"], *taps)
    contract = Contract(
        rows, a["oc"], (a["n"], a["oh"], a["ow"]), _load_input(g, x, a, group),
        Load(gy, _index_output(g, a, group)), total, [Store(gw, _index_weight(g, a, group), total)],
    )
    return Kernel(
        "conv_backward_weight", [x, gy, gw], _loop_over_groups(g.groups, group, [contract])
    )
