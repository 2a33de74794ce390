"""Views whose bodies use strides: expand, unfold, as_strided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar
from ..numpy.indexing import match_advanced_index, take_along_axis_of
from ..numpy.node_builders import (
    apply_operation, broadcast_to, literal, reshape_node, slice_axis, stack_nodes,
)
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering, refuse
from .strided_windows import interleave, pad_or_crop


@lowering("expand")
def _expand(input: Symbol, *size: int, implicit: bool = False) -> Symbol:
    new = len(size) - input.ndim
    shape = [input.shape[i - new] if n == -1 else int(n) for i, n in enumerate(size)]
    return wrap_node(broadcast_to(input.node, shape))


@lowering("unfold")
def _unfold(input: Symbol, dimension: int, size: int, step: int) -> Symbol:
    if not input.ndim:
        return input.reshape(1)[:size]
    axis = dimension % input.ndim
    n = (input.shape[axis] - size) // step + 1
    if size <= step:  # disjoint windows: split the axis in two
        node = pad_or_crop(input.node, axis, 0, n * step - input.shape[axis])
        shape = (*node.shape[:axis], n, step, *node.shape[axis + 1 :])
        return np.moveaxis(
            wrap_node(slice_axis(reshape_node(node, shape), axis + 1, 0, size)), axis + 1, -1
        )
    parts = [slice_axis(input.node, axis, k, n, step) for k in range(size)]
    return wrap_node(stack_nodes(parts, input.ndim))


@lowering("_folded")
def _fold_copies(
    g: Symbol, shape: Sequence[int], dimension: int, size: int, step: int
) -> Symbol:
    if not shape:
        return g.reshape(()) if g.size else refuse("an empty view")
    axis = dimension % len(shape)
    count, length = g.shape[axis], shape[axis]
    total = -(-length // step)
    phases = []
    for r in range(step):
        copies_total = None
        for k in range(r, size, step):
            part = g[..., k].node
            low = k // step
            part = pad_or_crop(part, axis, low, total - count - low)
            copies_total = (
                part if copies_total is None else apply_operation(Scalar.ADD, copies_total, part)
            )
        zeros: Symbol = np.zeros_like(g, shape=(*shape[:axis], total, *shape[axis + 1 :]))
        phases.append(zeros.node if copies_total is None else copies_total)
    return wrap_node(slice_axis(interleave(phases, axis), axis, 0, length))


def _compute_positions(shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """The memory positions of a strided view's elements."""
    positions = np.full((), offset, np.int64)
    for extent, s in zip(shape, strides, strict=True):
        positions = positions[..., None] + np.arange(extent) * s
    return positions


@lowering("_as_strided")
def _as_strided(
    input: Symbol, size: Sequence[int], stride: Sequence[int], offset: int, geometry: Any
) -> Symbol:
    """Select elements of a dense row-major input by their memory positions."""
    strides, start = geometry
    dense, n = [], 1
    for extent in reversed(input.shape):
        dense.append(n)
        n *= extent
    if tuple(strides) != tuple(reversed(dense)):
        refuse("views of memory that the input does not own")
    offsets = _compute_positions(size, stride, offset - start)
    if offsets.size and (offsets.min() < 0 or offsets.max() >= input.size):
        refuse("a view beyond the input's memory")
    return wrap_node(take_along_axis_of(input.reshape(-1).node, literal(offsets), 0, False))


@lowering("_strided_adjoint")
def _strided_adjoint(
    g: Symbol, shape: Sequence[int], strides: Sequence[int], start: int,
    size: Sequence[int], stride: Sequence[int], offset: int,
) -> Symbol:
    low = min(start, offset)
    written, read = _compute_positions(size, stride, offset - low), _compute_positions(
        shape, strides, start - low
    )
    if not g.size or not read.size:
        return np.zeros_like(g, shape=tuple(shape))
    n = int(max(written.max(), read.max())) + 1
    lookup = match_advanced_index((n,), [literal(written.reshape(-1))], False)
    memory = lookup.scatter_add((n,), g.reshape(-1).node)
    gathered = wrap_node(take_along_axis_of(memory, literal(read), 0, False))
    counts = np.bincount(read.reshape(-1), minlength=n)[read]
    return gathered if (counts == 1).all() else (gathered / counts.astype(g.dtype)).astype(g.dtype)
