"""The memory layout of an operator's result: PyTorch's strides for permuted, expanded and sliced
operands.

Row-major operands give row-major results without further work. Otherwise a rule decides the
result's strides, cached by shapes and strides; results in another layout are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import prod

import numpy as np

from ...native.target.eager_costs import MAX_CACHED_LAYOUTS
from ...tensor.layout import (
    Strides, compute_contiguous_strides, compute_copy_strides, compute_ordered_strides,
    empty_strided_array, format_strides, get_channels_last_format, get_strides, is_channels_last,
    is_dense, loop_order,
)
from ...tensor.windows.lazy_window import LazyWindow

_ndarray = np.ndarray


class Layout(Enum):
    """How the strides of a result follow from those of the operands."""

    __hash__ = object.__hash__  # Enum's own is a Python function, and every result is looked up

    FREE = "as the body returns it"
    CONTIGUOUS = "row-major"
    ITERATOR = "the order in which a loop over all operands visits memory fastest"
    PRESERVE = "the first operand's strides where it is dense, else its order of axes"
    CHANNELS_LAST = "channels last where the first operand is, else row-major"
    MEMORY = "as CHANNELS_LAST, but axes of length 1 do not decide, and row-major comes first"
    ALL_CHANNELS_LAST = "channels last where all operands are, else row-major"
    ANY_CHANNELS_LAST = "channels last where an operand is, else row-major"
    VOLUME = "as CHANNELS_LAST, of volumes, which may have no axis of a batch"
    COLUMNS = "matrices column by column, as LAPACK writes them"


# These decide between row-major order and channels last, which needs four axes or five.
FORMATS = {Layout.CHANNELS_LAST, Layout.MEMORY, Layout.VOLUME, Layout.ALL_CHANNELS_LAST,
           Layout.ANY_CHANNELS_LAST}


def compute_iterator_strides(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    """Return the strides of a pointwise result, for operands given as (shape, strides)."""
    if all(s == shape for s, _ in operands):
        simple = _find_common_strides(shape, [strides for _, strides in operands])
        if simple is not None:
            return simple
    rank = len(shape)
    seen = []
    for s, strides in operands:
        wide = [0] * (rank - len(s))
        for i, (n, stride) in enumerate(zip(s, strides, strict=True), rank - len(s)):
            wide.append(0 if n == 1 and shape[i] != 1 else stride)
        seen.append(wide)
    axes = loop_order(shape, seen)
    if axes == list(range(rank))[::-1]:
        return compute_contiguous_strides(shape)
    return compute_ordered_strides(shape, axes)


def _find_common_strides(shape: tuple[int, ...], operands: list[Strides]) -> Strides | None:
    """Return the strides that all operands of the result's shape share, or None."""
    if all(_is_row_major(shape, s) for s in operands):
        return compute_contiguous_strides(shape)
    form = get_channels_last_format(len(shape))
    if form is not None:
        strides = format_strides(shape, form)
        if all(_has_same_order(shape, s, strides) for s in operands):
            return strides
    first = operands[0]
    if all(s == first for s in operands) and is_dense(shape, first):
        return first
    return None


def _is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return 0 in shape or _has_same_order(shape, strides, compute_contiguous_strides(shape))


def _has_same_order(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether strides agree on all axes longer than one."""
    return all(n == 1 or s == t for n, s, t in zip(shape, a, b, strict=True))


def _preserve_order(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    operand_shape, strides = operands[0]
    if operand_shape != shape:
        return compute_contiguous_strides(shape)
    return compute_copy_strides(shape, strides)


def _suggest(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    form = get_channels_last_format(len(shape))
    if form is None or not is_channels_last(*operands[0]):
        return compute_contiguous_strides(shape)
    return format_strides(shape, form)


def _suggest_by_memory(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    """The formats of batch normalization: that in which the memory of the operand is dense."""
    operand_shape, strides = operands[0]
    form = get_channels_last_format(len(shape))
    if 0 in operand_shape:
        return _preserve_order(shape, operands)
    if form is None or _is_row_major(operand_shape, strides):
        return compute_contiguous_strides(shape)
    if _has_same_order(operand_shape, strides, format_strides(operand_shape, form)):
        return format_strides(shape, form)
    return _suggest(shape, operands)


def _suggest_for_volumes(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    if len(shape) != 4:
        return _suggest(shape, operands)
    operand_shape, strides = operands[0]
    return _suggest((1, *shape), [((1, *operand_shape), (prod(operand_shape), *strides))])[1:]


def _suggest_by_all(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    if all(is_channels_last(*x) for x in operands):
        return _suggest(shape, operands)
    return compute_contiguous_strides(shape)


def _suggest_by_any(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    result = [x for x in operands if is_channels_last(*x)]
    return _suggest(shape, result or operands)


def _choose_row_major(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    return compute_contiguous_strides(shape)


def _choose_columns(shape: tuple[int, ...], operands: Sequence[tuple]) -> Strides:
    rank = len(shape)
    if rank < 2 or rank < len(operands[0][0]):  # pivots, factors: vectors of a batch
        return compute_contiguous_strides(shape)
    return compute_ordered_strides(shape, [rank - 2, rank - 1, *range(rank - 3, -1, -1)], 1)


_RULES: dict[Layout, Callable[[tuple[int, ...], Sequence[tuple]], Strides]] = {
    Layout.CONTIGUOUS: _choose_row_major,
    Layout.ITERATOR: compute_iterator_strides,
    Layout.PRESERVE: _preserve_order,
    Layout.CHANNELS_LAST: _suggest,
    Layout.MEMORY: _suggest_by_memory,
    Layout.VOLUME: _suggest_for_volumes,
    Layout.ALL_CHANNELS_LAST: _suggest_by_all,
    Layout.ANY_CHANNELS_LAST: _suggest_by_any,
    Layout.COLUMNS: _choose_columns,
}
_answers: dict[tuple, Strides] = {}
_selections: dict[tuple, Strides] = {}
_row_major_steps: dict[tuple, Strides] = {}  # in bytes, by shape and bytes per element


def is_row_major(y: np.ndarray) -> bool:
    """Whether an array has exactly the strides of row-major order, also along axes of length 1,
    which flags leave open."""
    if y.__class__ is not _ndarray or not y.flags.c_contiguous:
        return False
    shape = y.shape
    if 1 not in shape and 0 not in shape:
        return True
    key = shape, y.itemsize
    steps = _row_major_steps.get(key)
    if steps is None:
        if len(_row_major_steps) >= MAX_CACHED_LAYOUTS:
            _row_major_steps.clear()
        steps = tuple([s * y.itemsize for s in compute_contiguous_strides(shape)])
        _row_major_steps[key] = steps
    return y.strides == steps


def lay_out(layout: Layout, y: np.ndarray, operands: Sequence) -> np.ndarray:
    """Return the result with the rule's strides: `y` itself if it has them.

    `operands`: arrays, lists of arrays, and numbers, which count as tensors without axes.
    """
    if y.__class__ is not _ndarray:
        return y
    shape = y.shape
    layouts = []
    for a in operands:
        if a.__class__ is _ndarray or a.__class__ is LazyWindow:
            layouts.append((a.shape, a.strides, a.itemsize))
        elif a.__class__ is list:
            layouts += [(b.shape, b.strides, b.itemsize) for b in a
                        if b.__class__ is _ndarray or b.__class__ is LazyWindow]
        elif a is not None:
            layouts.append(((), (), 1))
    key = (layout, shape, *layouts)
    order = _answers.get(key)
    if order is None:
        if len(_answers) >= MAX_CACHED_LAYOUTS:
            _answers.clear()
        seen = [(s, tuple([n // size for n in strides])) for s, strides, size in layouts]
        order = _answers[key] = _RULES[layout](shape, seen)
    return lay_out_again(y, order)


def lay_out_again(y: np.ndarray, strides: Strides) -> np.ndarray:
    """Return `y` with these dense strides, in elements, reusing its memory if it fits."""
    rank, shape = y.ndim, y.shape
    steps = tuple([s * y.itemsize for s in strides])
    if steps == y.strides:
        if 1 not in shape or y.base is not None or get_strides(y) == tuple(strides):
            return y
        return np.ndarray(shape, y.dtype, y, 0, steps)  # a new array with exact strides
    axes = sorted(range(rank), key=lambda i: (-strides[i], i))
    inner = y.transpose(axes)
    memory = inner if inner.flags.c_contiguous else np.array(inner, order="C")
    if not y.size:
        return empty_strided_array(shape, strides, y.dtype)
    return np.ndarray(shape, y.dtype, memory, 0, steps)


def select_axes(y: np.ndarray, input: np.ndarray, where: Sequence) -> np.ndarray:
    """Return `y`, selected from `input` by index arrays, with PyTorch's strides."""
    if input.ndim == 1 or input.flags.c_contiguous or y.__class__ is not _ndarray:
        return y
    indices = [(w.ndim, w.dtype == np.bool_) if w.__class__ is _ndarray else None for w in where]
    key = (y.shape, input.shape, input.strides, input.itemsize, *indices)
    strides = _selections.get(key)
    if strides is None:
        if len(_selections) >= MAX_CACHED_LAYOUTS:
            _selections.clear()
        strides = _selections[key] = _choose_selection_strides(y, input, where)
    return lay_out_again(y, strides)


def _choose_selection_strides(y: np.ndarray, input: np.ndarray, indices: Sequence) -> Strides:
    """The strides of elements selected by index arrays, as left by a loop over the other axes and
    the index arrays."""
    axes, chosen, axis = [], [], 0
    for w in indices:
        if w.__class__ is np.ndarray:
            chosen.append(axis)
            axis += w.ndim if w.dtype == np.bool_ else 1
        else:
            axes.append(axis)
            axis += 1
    axes += range(axis, input.ndim)
    block = y.ndim - len(axes)  # the index arrays' axes: in place of the first one if adjacent
    arrays = [i for i, w in enumerate(indices) if w.__class__ is np.ndarray]
    insertion = sum(a < chosen[0] for a in axes) if arrays[-1] - arrays[0] < len(arrays) else 0
    strides = get_strides(input)
    moved = [strides[a] if y.shape[i + block * (i >= insertion)] != 1 or input.shape[a] == 1 else 0
             for i, a in enumerate(axes)]
    source = (*moved[:insertion], *(0,) * block, *moved[insertion:])
    inside = compute_contiguous_strides(y.shape[insertion : insertion + block])
    index = (*(0,) * insertion, *inside, *(0,) * (y.ndim - insertion - block))
    return compute_iterator_strides(y.shape, [(y.shape, source), (y.shape, index)])
