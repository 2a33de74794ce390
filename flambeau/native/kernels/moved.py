"""Copies of arrays whose axes lie in another order in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..loops import Affine, Buffer, Index, Kernel, Kind, Load, Loop, Statement, Store, Type


def in_order(type: Type, shape: Sequence[int], strides: Sequence[int], inner: int) -> Kernel:
    """x, y: x of these strides (in elements), copied to y, whose axes lie in order.

    `inner`: the axis along which x lies step by step, which is not the last one.
    """
    indices = [Index(f"i{k}") for k in range(len(shape))]
    step, ordered = 1, list[int]()
    for extent in reversed(shape):
        ordered.insert(0, step)
        step *= extent
    x, y = Buffer(type, "x"), Buffer(type, "y")
    source = Affine(0, tuple(zip(indices, strides, strict=True)))
    target = Affine(0, tuple(zip(indices, ordered, strict=True)))
    body: list[Statement] = [Store(y, target, Load(x, source))]
    last = len(shape) - 1
    body = [Loop(indices[last], shape[last], body, Kind.LANES)]
    for k in [inner, *[k for k in range(last - 1, -1, -1) if k != inner]]:
        body = [Loop(indices[k], shape[k], body, Kind.PARALLEL)]
    return Kernel("in_order", [x, y], body)
