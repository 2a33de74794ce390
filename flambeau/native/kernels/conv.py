"""Convolution kernels of any size: extents, strides and padding are arguments.

One kernel serves forward passes and input gradients, in any layout; `plan_forward_calls` and
`plan_data_calls` compute its arguments. conv_static.py has kernels specialized for one shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ..loop_ir.expression_builder import Value
from ..loop_ir.index_notation import load, store, value_of
from ..loop_ir.ir import (
    Accumulator, Affine, Axis, Buffer, Contract, Index, Kernel, Load, Loop, LoopKind,
    ReduceOp, Size, Statement, Store, Type,
)
from .conv_static import Geometry, NchwStrides, make_affine, phase_taps

_EXTENTS = ("n", "oc", "oh", "ow", "ic", "kh", "kw")
_STRIDES = ("xn", "xc", "xh", "xw", "wo", "wi", "wh", "ww", "yn", "yc", "yh", "yw")
_WINDOW = ("h", "w", "sh", "sw", "dh", "dw", "ph", "pw")
_GROUPS = ("groups", "xg", "wg", "yg")  # their number, and their strides in x, the weight and y
_NAMES = (*_EXTENTS, *_STRIDES, *_WINDOW, *_GROUPS)


class KernelCall(NamedTuple):
    """A kernel call: each buffer's first element, and the sizes."""

    places: tuple[int, ...]
    sizes: tuple[int, ...]


class _ConvSizes:
    """A kernel's sizes: one axis per extent, plus one for groups if `grouped`."""

    def __init__(self, grouped: bool) -> None:
        names = _NAMES if grouped else _NAMES[: -len(_GROUPS)]
        self.sizes = {name: Size(name) for name in names}
        self.axes = {name: Axis(Index(name), self.sizes[name]) for name in _EXTENTS}
        self.group = Index("group") if grouped else None

    def at(self, group: str = "", **strides: str) -> Affine:
        """Return a position: the axes' strides by name, plus the group's stride."""
        terms = [(self.axes[axis].index, stride) for axis, stride in strides.items()]
        if self.group is not None and group:
            terms.append((self.group, group))
        return Affine(0, tuple([(index, self.sizes[stride]) for index, stride in terms]))

    def kernel(self, name: str, buffers: list[Buffer], contract: Contract) -> Kernel:
        """Return the kernel of a contraction, looped over groups if there are any."""
        body: list[Statement] = [contract]
        if self.group is not None:
            body = [Loop(self.group, self.sizes["groups"], body, LoopKind.PARALLEL)]
        return Kernel(name, buffers, body, list(self.sizes.values()))

    def row(self, axis: str) -> Value:
        """Return the image row (`h`) or column (`w`) of a window's entry."""
        moved = self.at(**{f"o{axis}": f"s{axis}", f"k{axis}": f"d{axis}"})
        return value_of(moved) - value_of(self.sizes[f"p{axis}"])

    def image(self, x: Buffer) -> Load:
        """Return the image element under a window's entry; zero in the padding."""
        rows = {axis: self.row(axis) for axis in "hw"}
        inside_h, inside_w = (
            (row >= 0) & (row < value_of(self.sizes[axis])) for axis, row in rows.items())
        offsets = [(row.expression, self.sizes[f"x{axis}"]) for axis, row in rows.items()]
        at = self.at("xg", n="xn", ic="xc")
        return Load(x, at, tuple(offsets), (inside_h & inside_w).expression)


@cache
def build_window_sums(type: Type, grouped: bool = False) -> Kernel:
    """Buffers x, weight, bias, y: y = bias + the sum of windows of x times weights.

    `grouped`: threads share the groups of channels; otherwise they share the work of one group.
    """
    x, weight, bias, y = (Buffer(type, name) for name in ("x", "weight", "bias", "y"))
    sizes, total = _ConvSizes(grouped), Accumulator(ReduceOp.SUM, type)
    a = sizes.axes
    place = make_affine(0, (a["oc"], 1), (sizes.group, sizes.sizes["oc"]) if sizes.group else None)
    shifted = Value(total) + load(bias, place)
    contract = Contract(
        (a["n"], a["oh"], a["ow"]), a["oc"], (a["ic"], a["kh"], a["kw"]), sizes.image(x),
        Load(weight, sizes.at("wg", oc="wo", ic="wi", kh="wh", kw="ww")), total,
        [store(y, sizes.at("yg", n="yn", oc="yc", oh="yh", ow="yw"), shifted)],
    )
    return sizes.kernel("conv_windows", [x, weight, bias, y], contract)


@cache
def weight(type: Type, grouped: bool = False) -> Kernel:
    """Buffers x, gy, gw: the gradient of the weight; `grouped` as in `build_window_sums`."""
    x, gy, gw = (Buffer(type, name) for name in ("x", "gy", "gw"))
    sizes, total = _ConvSizes(grouped), Accumulator(ReduceOp.SUM, type)
    a = sizes.axes
    contract = Contract(
        (a["ic"], a["kh"], a["kw"]), a["oc"], (a["n"], a["oh"], a["ow"]), sizes.image(x),
        Load(gy, sizes.at("yg", n="yn", oc="yc", oh="yh", ow="yw")), total,
        [Store(gw, sizes.at("wg", oc="wo", ic="wi", kh="wh", kw="ww"), total)],
    )
    return sizes.kernel("conv_weight", [x, gy, gw], contract)


def _name_strides(letter: str, strides: NchwStrides) -> dict[str, int]:
    names = "oihw" if letter == "w" else "nchw"
    return {f"{letter}{name}": stride for name, stride in zip(names, strides, strict=True)}


def _order_sizes(values: dict[str, int]) -> tuple[int, ...]:
    """Return the sizes' values in the order of the kernel's parameters."""
    return tuple([values[name] for name in _NAMES])


def _split_calls_by_group(
    g: Geometry, grouped: bool, offsets: Sequence[int], groups: Sequence[int], sizes: tuple
) -> Iterator[KernelCall]:
    """Yield one call for all groups or one per group; `groups` are the buffers' group strides."""
    if grouped:
        yield KernelCall(tuple(offsets), sizes)
        return
    for group in range(g.groups):
        moved = [start + group * step for start, step in zip(offsets, groups, strict=True)]
        yield KernelCall(tuple(moved), sizes[: -len(_GROUPS)])


def _group_strides(g: Geometry) -> tuple[int, int, int]:
    """Return a group's strides in x, the weight and y."""
    return g.inputs_each * g.x[1], g.outputs_each * g.weight[0], g.outputs_each * g.y[1]


def _forward_sizes(g: Geometry) -> tuple[int, ...]:
    x, weight, y = _group_strides(g)
    return _order_sizes({
        "n": g.batch, "oc": g.outputs_each, "oh": g.output[0], "ow": g.output[1],
        "ic": g.inputs_each, "kh": g.kernel[0], "kw": g.kernel[1], "h": g.spatial[0],
        "w": g.spatial[1], "sh": g.stride[0], "sw": g.stride[1], "dh": g.dilation[0],
        "dw": g.dilation[1], "ph": g.padding[0], "pw": g.padding[1], **_name_strides("x", g.x),
        **_name_strides("w", g.weight), **_name_strides("y", g.y),
        "groups": g.groups, "xg": x, "wg": weight, "yg": y,
    })


def plan_forward_calls(g: Geometry, grouped: bool = False) -> Iterator[KernelCall]:
    """Return the calls of `build_window_sums` on x, weight, bias, y."""
    x, weight, y = _group_strides(g)
    strides = (x, weight, g.outputs_each, y)
    return _split_calls_by_group(g, grouped, (0, 0, 0, 0), strides, _forward_sizes(g))


def weight_calls(g: Geometry, grouped: bool = False) -> Iterator[KernelCall]:
    """Return the calls of `weight` on x, gy, gw."""
    x, weight, y = _group_strides(g)
    return _split_calls_by_group(g, grouped, (0, 0, 0), (x, y, weight), _forward_sizes(g))


def plan_data_calls(g: Geometry, grouped: bool = False) -> Iterator[KernelCall]:
    """Yield the calls of `build_window_sums` on gy, weight, zeros, gx, a set per stride phase.

    Positions of x that are congruent modulo the stride use the same kernel entries.
    """
    x, weight, y = _group_strides(g)
    for phase in ((i, j) for i in range(g.stride[0]) for j in range(g.stride[1])):
        counts = [-(-(n - p) // s) for n, p, s in zip(g.spatial, phase, g.stride, strict=True)]
        if min(counts) <= 0:
            continue
        meets = [phase_taps(g, axis, phase[axis]) for axis in (0, 1)]
        first = [meet[0] if meet else 0 for meet, _, _ in meets]
        offsets = (0, first[0] * g.weight[2] + first[1] * g.weight[3], 0,
                   phase[0] * g.x[2] + phase[1] * g.x[3])
        strides = (y, weight, g.inputs_each, x)
        yield from _split_calls_by_group(g, grouped, offsets, strides,
                                         _locate_phase(g, counts, meets))


def _locate_phase(g: Geometry, counts: Sequence[int], meets: Sequence[tuple[list[int], int, int]]
                  ) -> tuple[int, ...]:
    steps = [m[1] - m[0] if len(m) > 1 else 1 for m, _, _ in meets]
    o, i, *entries = g.weight
    apart = [stride * s for stride, s in zip(g.x[2:], g.stride, strict=True)]
    x, weight, y = _group_strides(g)
    return _order_sizes({
        "n": g.batch, "oc": g.inputs_each, "ic": g.outputs_each, "oh": counts[0],
        "ow": counts[1], "kh": len(meets[0][0]), "kw": len(meets[1][0]), "h": g.output[0],
        "w": g.output[1], "sh": 1, "sw": 1, "dh": -meets[0][2], "dw": -meets[1][2],
        "ph": -meets[0][1], "pw": -meets[1][1], **_name_strides("x", g.y), "wo": i, "wi": o,
        "wh": entries[0] * steps[0], "ww": entries[1] * steps[1],
        "yn": g.x[0], "yc": g.x[1], "yh": apart[0], "yw": apart[1],
        "groups": g.groups, "xg": y, "wg": weight, "yg": x,
    })
