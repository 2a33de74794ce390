"""Tangents of tensors in forward mode: one per level, beside the primal.

Operators read and push them (`ops/interception/forward_mode.py`). The tangent of an in-place write
belongs to the memory: every tensor that views the memory sees it, including older ones.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tensor.ambient import note_change
from ..tensor.tensor import Tensor
from ..tensor.windows.batch import find_innermost_batch
from ..tensor.windows.batched_window import BatchedWindow
from .node import Node
from .saved.plan import Plan
from .tape import create_node

# Key in a tensor's __dict__: {level: (primal, tangent)}. A primal of None stands for the tensor
# itself without the tangent.
_SLOT = "_tangents"
_NOTHING: dict[int, Any] = {}
_HIDDEN = "_hidden_levels"  # key in the __dict__ of a primal: {level at which it is one}
_next_level = itertools.count().__next__


class _Levels(threading.local):
    """This thread's levels, outermost first, and whether operators push tangents."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.public = False  # enter_dual_level was called
        self.enabled = True
        self.tape: Any = None  # where operators note their calls while a formula is derived
        self.has_late = False  # a write put a tangent on memory that other tensors may share


LEVELS = _Levels()


class Switch:
    """Hook that starts (True) or stops (False) pushing tangents; set by the operators' layer."""

    turn: Callable[[bool], None]


def push_level() -> int:
    """Enter a new level and return its number."""
    LEVELS.active.append(_next_level())
    note_change(observers=1)  # programs push no tangents
    Switch.turn(True)
    return LEVELS.active[-1]


def pop_level(level: int) -> None:
    """Leave a level. Raises RuntimeError if it is not the innermost one."""
    if not LEVELS.active or LEVELS.active[-1] != level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was "
                           "entered. This is not supported.")
    LEVELS.active.pop()
    LEVELS.has_late = LEVELS.has_late and bool(LEVELS.active)
    note_change(observers=-1)
    Switch.turn(False)


def collect_tangents(tensor: Tensor) -> dict[int, Any]:
    """Return (primal, tangent) by level, including tangents that writes put on the memory."""
    carried: dict[int, Any] = tensor.__dict__.get(_SLOT, _NOTHING)
    if not LEVELS.has_late or not carried and tensor._base is None:
        return carried
    counter = tensor._counter
    late = None if counter is None else getattr(counter, "late_tangents", None)
    if not late or late.keys() <= carried.keys():
        return carried
    hidden = tensor.__dict__.get(_HIDDEN, ())
    for n in sorted(late):
        outer, start, tangent_memory = late[n]
        if n not in carried and n not in hidden and outer <= carried.keys():
            carried = {**carried, n: (None, _view_tangent(tangent_memory, start, tensor))}
            tensor.__dict__[_SLOT] = carried
    return carried


def allocate_memory_tangent(target: Tensor, tangent: Tensor, level: int) -> Tensor:
    """Give the memory of `target` a tangent of zeros, able to hold `tangent`, and return the part
    that `target` covers.

    An in-place write at `level` then fills it. Older views of the memory that carry the same outer
    levels see it too.
    """
    base = target if target._base is None else target._base
    outer = frozenset(n for n in collect_tangents(target) if n < level and n in LEVELS.active)
    tangent_memory, start = allocate_tangent(base, tangent), _find_lowest(base).storage_offset()
    LEVELS.has_late = True
    counter: Any = alias_history(target)._counter
    counter.late_tangents = {**getattr(counter, "late_tangents", _NOTHING),
                             level: (outer, start, tangent_memory)}
    for x in (target, base):  # a base that lacks outer levels is the primal of another tensor
        own = x.__dict__.get(_SLOT, _NOTHING)
        if level not in own and outer <= own.keys():
            attach(x, level, _strip_tangent(x, level), _view_tangent(tangent_memory, start, x))
    result = get_tangent(target, level)
    assert result is not None
    return result


def _strip_tangent(x: Tensor, level: int) -> Tensor:
    """Return `x` without the tangent that it is about to get."""
    return hide(carry(x, alias_history(x)), (level,), x)


def hide(tensor: Tensor, levels: Sequence[int], source: Tensor | None = None) -> Tensor:
    """Mark `tensor` as a primal at `levels`, and at those of `source`: there it ignores tangents
    that writes give its memory. Return it."""
    own = tensor.__dict__.get(_HIDDEN, ())
    others = () if source is None else source.__dict__.get(_HIDDEN, ())
    if marks := {*own, *levels, *others}:
        tensor.__dict__[_HIDDEN] = marks
    return tensor


def _view_tangent(tangent: Tensor, start: int, view: Tensor) -> Tensor:
    """Return the part that `view` covers of the tangent of memory from element `start` on."""
    offset = _find_lowest(view).storage_offset() - start
    if not offset and tangent.shape == view.shape and tangent.stride() == view.stride():
        return tangent
    return _view_strided(tangent, tuple(view.shape), view.stride(), offset)


def _find_lowest(x: Tensor) -> Tensor:
    window: Any = x._array
    while window.__class__ is BatchedWindow:
        x = window.below
        window = x._array
    return x


def _view_strided(
    x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> Tensor:
    """Return a strided view of `x`, of all examples if `x` is batched."""
    window: Any = x._array
    if window.__class__ is not BatchedWindow or window.is_shared:
        return x.as_strided(shape, strides, x.storage_offset() + start)
    below = window.below
    shown: Tensor = window.batch.wrap(
        _view_strided(below, (below.shape[0], *shape), (below.stride(0), *strides), start))
    return shown


def match_strides(tangent: Tensor, primal: Tensor) -> Tensor:
    """Return the tangent with the primal's strides, so that a view of one applies to the other."""
    strides = primal._array.strides
    if tangent._array.strides == strides or 0 in strides or not primal._array.size:
        return tangent
    return allocate_tangent(primal, tangent).copy_(tangent)


def allocate_tangent(base: Tensor, tangent: Tensor) -> Tensor:
    """Return zeros in the layout of `base` to hold `tangent`, batched if either is."""
    return _create_zeros(base, tangent, tuple(base.shape), base.stride())


def _create_zeros(base: Tensor, tangent: Tensor, shape: tuple, strides: tuple) -> Tensor:
    batch = find_innermost_batch((base, tangent))
    if batch is None:
        if base._array.__class__ is not np.ndarray:
            return base.new_zeros(shape)
        return base.new_empty_strided(shape, strides).zero_()
    below = batch.lower(base)
    step = below.stride(0) if batch.holds(base) else \
        1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True) if n)
    return batch.wrap(
        _create_zeros(below, batch.lower(tangent), (batch.size, *shape), (step, *strides)))


def find_level(tensor: Tensor) -> int | None:
    """Return the innermost active level at which the tensor carries a tangent, or None."""
    carried = collect_tangents(tensor)
    if carried:
        for level in reversed(LEVELS.active):
            if level in carried:
                return level
    return None


def find_innermost_level(values: tuple) -> int | None:
    """Return the innermost active level at which one of the values carries a tangent, or None."""
    levels = [find_level(v) for v in values if isinstance(v, Tensor)]
    return max((n for n in levels if n is not None), default=None)


def get_primal(tensor: Any, level: int) -> Any:
    """Return the tensor without its tangent at `level`; those of other levels remain."""
    if not isinstance(tensor, Tensor):
        return tensor
    carried = collect_tangents(tensor)
    if not carried or level not in carried:
        return tensor
    primal = carried[level][0]
    if primal is None:
        primal = hide(alias_history(tensor), (level,), tensor)
        rest = {n: pair for n, pair in carried.items() if n != level}
        if rest:
            primal.__dict__[_SLOT] = rest
    return primal


def get_tangent(tensor: Tensor, level: int) -> Tensor | None:
    """Return the tangent at `level`, or None."""
    carried = collect_tangents(tensor)
    pair = carried.get(level) if carried else None
    return None if pair is None else pair[1]


def attach(dual: Tensor, level: int, primal: Tensor, tangent: Tensor) -> None:
    """Make `dual` carry a tangent at `level` in addition to those of `primal`."""
    outer = primal.__dict__.get(_SLOT)
    if outer:
        dual.__dict__[_SLOT] = {**outer, level: (primal, tangent)}
    else:
        dual.__dict__[_SLOT] = {level: (primal, tangent)}


def push_through(
    function: Callable[..., Sequence[Tensor]], primals: Sequence[Any],
    tangents: Sequence[Tensor | None], outputs: int,
) -> tuple[Tensor | None, ...]:
    """Return the tangents of function(*primals), for operators composed of others.

    outputs: number of the operator's outputs; those that the function omits have no tangent.
    """
    level = push_level()
    enabled, LEVELS.enabled = LEVELS.enabled, True
    try:
        duals = list(primals)
        for i, tangent in enumerate(tangents):
            if tangent is not None:
                duals[i] = alias_history(primals[i])
                attach(duals[i], level, primals[i], tangent)
        pushed = [get_tangent(y, level) for y in function(*duals)]
    finally:
        LEVELS.enabled = enabled
        pop_level(level)
    return (*pushed, *(None,) * (outputs - len(pushed)))


def sum_terms(*terms: Tensor | None) -> Tensor | None:
    """Return the sum of the terms that are not None, or None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def skip_missing(function: Callable[..., Tensor], *tangents: Tensor | None) -> Tensor | None:
    """Return function(*tangents), or None if any of them is None."""
    return None if any(t is None for t in tangents) else function(*tangents)


def carry(source: Tensor, target: Tensor) -> Tensor:
    """Give `target`, which has the same value, the tangents of `source`; return it."""
    return give(tangents_of(source), target)


def tangents_of(tensor: Tensor) -> dict[int, Any]:
    """Return a tensor's tangents by level, for `give`."""
    return {n: (None, pair[1]) for n, pair in collect_tangents(tensor).items()}


def give(tangents: dict[int, Any], target: Tensor) -> Tensor:
    """Make `target` carry tangents; return it."""
    if tangents:
        target.__dict__[_SLOT] = dict(tangents)
    return target


def drop_tangents(tensor: Tensor) -> None:
    """Remove all tangents from a tensor."""
    tensor.__dict__.pop(_SLOT, None)


class PrimalBackward(Node):
    """The history of a leaf's primal: passes gradients to the leaf."""

    def apply(self, g: Any) -> Any:
        """Return the cotangent unchanged."""
        return [g]


_PRIMAL_PLAN: Plan[PrimalBackward] = Plan(PrimalBackward, (), (), (), False)


def alias_history(x: Tensor) -> Tensor:
    """Return a new object that autograd treats as the same tensor: gradients reach a leaf through
    it."""
    twin = x._alias()
    if twin.__class__ is Tensor:
        result = twin
    else:  # sparse tensors have a separate class
        result = object.__new__(twin.__class__)
        result._array, result._counter, result._grad = x._array, twin._counter, None
    result._requires_grad, result._tracked = x._requires_grad, x._tracked
    result._node, result._base, result._stamp = x._node, x._base, x._stamp
    if x._node is None and x._requires_grad:
        result._node = create_node(_PRIMAL_PLAN, (x,), (), (), None)
    return result


def match_layout(tangent: Tensor, primal: Tensor) -> Tensor:
    """Return the tangent, copied if needed to match the primal's memory layout, so that a view of
    the primal can also be taken of the tangent."""
    bits = (tangent.is_conj(), tangent.is_neg()), (primal.is_conj(), primal.is_neg())
    if bits[0] != bits[1]:
        return tangent.clone()
    if tangent._array.__class__ is not np.ndarray or primal._array.__class__ is not np.ndarray \
            or not primal._array.size or _has_layout_of(tangent, primal):
        return tangent
    storage = tangent.new_zeros(_count_storage_elements(primal))
    window = storage.as_strided(primal.shape, primal.stride(), primal.storage_offset())
    return window.copy_(tangent)


def _count_storage_elements(x: Tensor) -> int:
    return x.untyped_storage().nbytes() // x._array.itemsize


def _has_layout_of(tangent: Tensor, primal: Tensor) -> bool:
    """Return whether the two have the same strides, offset and storage size. Also True if dtypes
    differ, or if the primal's elements share memory, which a tangent's must not."""
    t, x = tangent._array, primal._array
    if t.base is None and x.base is None and t.strides == x.strides and t.dtype == x.dtype:
        return True  # each is all of its memory
    strides = [(a, b) for n, a, b in zip(x.shape, t.strides, x.strides, strict=True) if n > 1]
    if any(not b for _, b in strides):
        return True
    return (
        t.dtype != x.dtype
        or all(a == b for a, b in strides) and tangent.storage_offset() == primal.storage_offset()
        and _count_storage_elements(tangent) == _count_storage_elements(primal)
    )
