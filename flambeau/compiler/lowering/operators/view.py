"""Views whose bodies speak of strides: expand, unfold, as_strided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar
from ..numpy.indexing import by_positions, rows
from ..numpy.node_builders import applied, literal, reshaped, sliced, stacked, stretched
from ..registry import lowering, refuse
from ..numpy.symbolic_array import Symbol, symbol
from .strided_windows import cropped, woven


@lowering("expand")
def _expand(input: Symbol, *size: int, implicit: bool = False) -> Symbol:
    new = len(size) - input.ndim
    shape = [input.shape[i - new] if n == -1 else int(n) for i, n in enumerate(size)]
    return symbol(stretched(input.node, shape))


@lowering("unfold")
def _unfold(input: Symbol, dimension: int, size: int, step: int) -> Symbol:
    if not input.ndim:
        return input.reshape(1)[:size]
    at = dimension % input.ndim
    n = (input.shape[at] - size) // step + 1
    if size <= step:  # windows apart: an axis of the array, cut in two
        node = cropped(input.node, at, 0, n * step - input.shape[at])
        shape = (*node.shape[:at], n, step, *node.shape[at + 1 :])
        return np.moveaxis(symbol(sliced(reshaped(node, shape), at + 1, 0, size)), at + 1, -1)
    parts = [sliced(input.node, at, k, n, step) for k in range(size)]
    return symbol(stacked(parts, input.ndim))


@lowering("_folded")
def _folded(
    g: Symbol, shape: Sequence[int], dimension: int, size: int, step: int
) -> Symbol:
    if not shape:
        return g.reshape(()) if g.size else refuse("an empty window")
    at = dimension % len(shape)
    count, length = g.shape[at], shape[at]
    total = -(-length // step)
    phases = []
    for r in range(step):
        made = None
        for k in range(r, size, step):
            part = g[..., k].node
            low = k // step
            part = cropped(part, at, low, total - count - low)
            made = part if made is None else applied(Scalar.ADD, made, part)
        zeros: Symbol = np.zeros_like(g, shape=(*shape[:at], total, *shape[at + 1 :]))
        phases.append(zeros.node if made is None else made)
    return symbol(sliced(woven(phases, at), at, 0, length))


def _places(shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Where the elements of a window lie."""
    places = np.full((), offset, np.int64)
    for extent, s in zip(shape, strides, strict=True):
        places = places[..., None] + np.arange(extent) * s
    return places


@lowering("_as_strided")
def _as_strided(
    input: Symbol, size: Sequence[int], stride: Sequence[int], offset: int, geometry: Any
) -> Symbol:
    """Elements of a dense row-major input, by their places in its memory."""
    strides, start = geometry
    dense, n = [], 1
    for extent in reversed(input.shape):
        dense.append(n)
        n *= extent
    if tuple(strides) != tuple(reversed(dense)):
        refuse("windows on memory that is not the input's own")
    places = _places(size, stride, offset - start)
    if places.size and (places.min() < 0 or places.max() >= input.size):
        refuse("a window beyond the input's memory")
    return symbol(rows(input.reshape(-1).node, literal(places), 0, False))


@lowering("_strided_adjoint")
def _strided_adjoint(
    g: Symbol, shape: Sequence[int], strides: Sequence[int], start: int,
    size: Sequence[int], stride: Sequence[int], offset: int,
) -> Symbol:  # fmt: skip
    low = min(start, offset)
    written, read = _places(size, stride, offset - low), _places(shape, strides, start - low)
    if not g.size or not read.size:
        return np.zeros_like(g, shape=tuple(shape))
    n = int(max(written.max(), read.max())) + 1
    where = by_positions((n,), [literal(written.reshape(-1))], False)
    memory = where.added((n,), g.reshape(-1).node)
    made = symbol(rows(memory, literal(read), 0, False))
    counts = np.bincount(read.reshape(-1), minlength=n)[read]
    return made if (counts == 1).all() else (made / counts.astype(g.dtype)).astype(g.dtype)
