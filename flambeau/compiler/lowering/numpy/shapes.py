"""NumPy's shape functions, creation functions, and joining and splitting, on symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Type
from ...ir import graph
from ...ir.graph import Node
from ..registry import refuse
from .node_builders import (
    broadcast_to, concatenate, prepend_axes, reshape_node, slice_axis, stack_nodes, type_of,
)
from .reductions import normalize_axes
from .symbolic_array import (
    Symbol, convert_to_node, get_promotion_operand, implements, is_symbol, wrap_node,
)


@implements(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return a.shape


@implements(np.ndim)
def _ndim(a: Any) -> int:
    return a.ndim


@implements(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else math.prod(a.shape[i] for i in normalize_axes(axis, a.ndim))


@implements(np.result_type)
def _result_type(*operands: Any) -> np.dtype:
    return np.result_type(*(x.dtype if is_symbol(x) else x for x in operands))


@implements(np.reshape)
def _reshape(a: Any, shape: Any, order: str = "C", *, copy: Any = None) -> Symbol:
    return a.reshape(shape)


@implements(np.ravel)
def _ravel(a: Any, order: str = "C") -> Symbol:
    return a.reshape(-1)


@implements(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Symbol:
    return a.transpose(axes)


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Symbol:
    return a.swapaxes(axis1, axis2)


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Symbol:
    sources = [s % a.ndim for s in ([source] if isinstance(source, int) else source)]
    targets = [t % a.ndim for t in ([destination] if isinstance(destination, int)
                                    else destination)]
    order = [i for i in range(a.ndim) if i not in sources]
    for t, s in sorted(zip(targets, sources, strict=True)):
        order.insert(t, s)
    return a.transpose(order)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Symbol:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = a.ndim + len(axes)
    new = {g % rank for g in axes}
    rest = iter(a.shape)
    return a.reshape([1 if i in new else next(rest) for i in range(rank)])


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Symbol:
    return a.squeeze(axis)


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Symbol:
    return wrap_node(broadcast_to(convert_to_node(array),
                                  (shape,) if isinstance(shape, int) else shape))


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Symbol, ...]:
    shape = np.broadcast_shapes(*(np.shape(a) for a in args))
    return tuple(wrap_node(broadcast_to(convert_to_node(a), shape)) for a in args)


@implements(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> Symbol:
    return a.copy()


@implements(np.real)
def _real(val: Any) -> Symbol:
    return val


@implements(np.imag)
def _imag(val: Any) -> Symbol:
    return val.imag


@implements(np.isreal)
def _isreal(x: Any) -> Symbol:
    return wrap_node(graph.constant(True, Type.BOOL, x.shape))


@implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return False


def _create_filled_like(value: Any) -> Callable[..., Symbol]:
    def fill_like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **_: Any
    ) -> Symbol:
        kind = a.dtype if dtype is None else np.dtype(dtype)
        extents = a.shape if shape is None else shape
        return wrap_node(graph.constant(value, type_of(kind), tuple(extents)))

    return fill_like


implements(np.zeros_like, np.empty_like)(_create_filled_like(0))
implements(np.ones_like)(_create_filled_like(1))


@implements(np.full_like)
def _full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Symbol:
    kind = a.dtype if dtype is None else np.dtype(dtype)
    return wrap_node(broadcast_to(convert_to_node(fill_value, kind), a.shape))


# ------------------------------------------------------------------------------- joining


def _cast_to_common(arrays: Sequence[Any]) -> list[Node]:
    operands = ((a, get_promotion_operand(a)) for a in arrays)
    kind = np.result_type(*(a if isinstance(kind, type) else kind for a, kind in operands))
    return [convert_to_node(a, kind) for a in arrays]


@implements(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **_: Any) -> Symbol:
    nodes = _cast_to_common(arrays)
    if axis is None:
        nodes, axis = [reshape_node(n, (-1,)) for n in nodes], 0
    return wrap_node(concatenate(nodes, axis % len(nodes[0].shape)))


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> Symbol:
    nodes = _cast_to_common(arrays)
    return wrap_node(stack_nodes(nodes, axis % (len(nodes[0].shape) + 1)))


@implements(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Symbol]:
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        step = n // indices_or_sections
        bounds = list(range(0, n + 1, step)) if step else [0] * (indices_or_sections + 1)
    else:
        bounds = [0, *map(int, indices_or_sections), n]
    head = (slice(None),) * (axis % ary.ndim)
    return [ary[(*head, slice(a, b))] for a, b in zip(bounds, bounds[1:], strict=False)]


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Symbol:
    axes = normalize_axes(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Symbol:
    if axis is None:
        return _roll(a.reshape(-1), shift, 0).reshape(a.shape)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    node = convert_to_node(a)
    for s, at in zip(shifts, axes, strict=True):
        at %= len(node.shape)
        n = node.shape[at]
        k = int(s) % n if n else 0
        if k:
            node = concatenate([slice_axis(node, at, n - k, k), slice_axis(node, at, 0, n - k)], at)
    return wrap_node(node)


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Symbol:
    repeats = list(reps) if hasattr(reps, "__len__") else [reps]
    node = prepend_axes(convert_to_node(A), len(repeats))
    repeats = [1] * (len(node.shape) - len(repeats)) + repeats
    pairs = [(r, n) for r, n in zip(repeats, node.shape, strict=True)]
    inner = reshape_node(node, [v for _, n in pairs for v in (1, n)])
    return wrap_node(reshape_node(broadcast_to(inner, [v for p in pairs for v in p]),
                                  [r * n for r, n in pairs]))


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> Symbol:
    if not isinstance(repeats, (int, np.integer)):
        refuse("np.repeat with an array of repeats")
    node = convert_to_node(a) if axis is not None else reshape_node(convert_to_node(a), (-1,))
    at = int(axis or 0) % len(node.shape)
    shape, r = list(node.shape), int(repeats)
    inner = reshape_node(node, [*shape[: at + 1], 1, *shape[at + 1 :]])
    expanded = broadcast_to(inner, [*shape[: at + 1], r, *shape[at + 1 :]])
    return wrap_node(reshape_node(expanded, [*shape[:at], shape[at] * r, *shape[at + 1 :]]))


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Symbol:
    if mode != "constant" or any(np.any(v) for v in options.values()):
        refuse("np.pad with a mode other than zeros")
    pairs = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    low, high = zip(*pairs, strict=True)
    return wrap_node(graph.pad(convert_to_node(array), low, high))


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, **_: Any) -> Symbol:
    head = (slice(None),) * (axis % a.ndim)
    for _round in range(n):
        a = a[(*head, slice(1, None))] - a[(*head, slice(None, -1))]
    return a
