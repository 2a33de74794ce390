"""torch.autograd.forward_ad: dual numbers, tensors that carry a tangent.

While a level is active, operators push tangents forward (`ops/interception/forward_mode.py`). A
tensor stores a primal and a tangent per level; levels nest and have unique numbers.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..tensor.printing import Suffixes
from ..tensor.tensor import Tensor
from ..tensor.windows.batch import innermost_batch
from ..tensor.windows.batched_window import BatchedWindow
from .node import Node
from .save_plan import Plan
from .tape import new_node

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "set_forward_mode_enabled", "unpack_dual",
]

# Key in a tensor's __dict__: {level: (primal, tangent)}. A primal of None stands for the tensor
# itself without the tangent.
_SLOT = "_tangents"
_NOTHING: dict[int, Any] = {}
_PRIMAL = "_is_primal"  # key in the __dict__ of a view that lacks its base's tangent
_next_level = itertools.count().__next__


class _Levels(threading.local):
    """This thread's levels, outermost first, and whether operators push tangents."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.public = False  # enter_dual_level was called
        self.enabled = True
        self.has_late = False  # a write gave a tangent to a tensor that may have views


LEVELS = _Levels()


class Switch:
    """Starts (True) and stops (False) pushing tangents; set by the operators' layer."""

    turn: Callable[[bool], None]


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual number; `tangent` is None if the tensor carries none."""

    primal: Tensor
    tangent: Tensor | None


def push_level() -> int:
    """Enter a new level and return its number."""
    LEVELS.active.append(_next_level())
    Switch.turn(True)
    return LEVELS.active[-1]


def pop_level(level: int) -> None:
    """Leave a level; RuntimeError if it is not the innermost one."""
    if not LEVELS.active or LEVELS.active[-1] != level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was "
                           "entered. This is not supported.")
    LEVELS.active.pop()
    LEVELS.has_late = LEVELS.has_late and bool(LEVELS.active)
    Switch.turn(False)


def enter_dual_level() -> int:
    """Enter forward mode. Raise RuntimeError if already inside such a level.

    >>> level = torch.autograd.forward_ad.enter_dual_level()
    >>> torch.autograd.forward_ad.exit_dual_level(level=level)
    """
    if LEVELS.public:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    LEVELS.public = True
    push_level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave forward mode and drop its tangents."""
    if not LEVELS.public or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was "
                           "entered. This is not supported.")
    LEVELS.public = False
    pop_level(LEVELS.active[-1])


class dual_level:
    """Context in which tensors can carry tangents.

    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.), torch.tensor(1.))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


class set_forward_mode_enabled:
    """Context and decorator in which operators push tangents or, with False, drop them."""

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._before, LEVELS.enabled = LEVELS.enabled, mode

    def __call__(self, function: Callable) -> Callable:
        """Return the function wrapped to run in this context."""
        LEVELS.enabled = self._before  # this object only decorates

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with set_forward_mode_enabled(self._mode):
                return function(*args, **kwargs)

        return within

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        LEVELS.enabled = self._before


_set_fwd_grad_enabled = set_forward_mode_enabled


def _is_fwd_grad_enabled() -> bool:
    """Return whether operators push tangents in this thread."""
    return LEVELS.enabled


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # PyTorch's counter: 0 within a level, else -1
        return LEVELS.public - 1
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute '{name}'")


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` that carries `tangent`, which must have its shape.

    Raise RuntimeError outside of a level, ValueError for tensors that are not floating or complex.
    """
    if not LEVELS.active:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, "
                           "make sure to enter_dual_level() first.")
    for what, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    now = LEVELS.active[-1]
    if tangent_at(tensor, now) is not None:
        raise RuntimeError("Trying to set a forward gradient on a tensor that already has one")
    if tangent_at(tangent, now) is not None:
        raise RuntimeError("Trying to set a forward gradient that has a forward gradient at the "
                           "same level, this is not supported.")
    dual = tensor.view_as(tensor)
    if tensor.is_inference():
        dual._base = None  # not a view: can be written in place with its tangent
    return give({**tangents_of(dual), now: (None, _laid_out_as(tangent, tensor))}, dual)


def _laid_out_as(tangent: Tensor, primal: Tensor) -> Tensor:
    """Return the tangent, copied if needed to match the primal's memory layout, so that a view of
    the primal can also be taken of the tangent."""
    bits = (tangent.is_conj(), tangent.is_neg()), (primal.is_conj(), primal.is_neg())
    if bits[0] != bits[1]:
        return tangent.clone()
    if tangent._array.__class__ is not np.ndarray or primal._array.__class__ is not np.ndarray \
            or not primal._array.size or _lies_as(tangent, primal):
        return tangent
    storage = tangent.new_zeros(_storage_elements(primal))
    window = storage.as_strided(primal.shape, primal.stride(), primal.storage_offset())
    return window.copy_(tangent)


def _storage_elements(x: Tensor) -> int:
    return x.untyped_storage().nbytes() // x._array.itemsize


def _lies_as(tangent: Tensor, primal: Tensor) -> bool:
    """Return whether the two have the same strides, offset and storage size. Also True if dtypes
    differ, or if the primal's elements share memory, which a tangent's must not."""
    t, x = tangent._array, primal._array
    strides = [(a, b) for n, a, b in zip(x.shape, t.strides, x.strides, strict=True) if n > 1]
    if any(not b for _, b in strides):
        return True
    return (
        t.dtype != x.dtype
        or all(a == b for a, b in strides) and tangent.storage_offset() == primal.storage_offset()
        and _storage_elements(tangent) == _storage_elements(primal)
    )


def _shown_tangent(tensor: Tensor) -> Tensor | None:
    """Return the tangent to print with a tensor, or None."""
    return tangent_at(tensor, LEVELS.active[-1]) if LEVELS.active else None


Suffixes.tangent = staticmethod(_shown_tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a view of the primal, and the tangent at the innermost level.

    >>> torch.autograd.forward_ad.unpack_dual(torch.ones(1))
    UnpackedDualTensor(primal=tensor([1.]), tangent=None)
    """
    if not LEVELS.active:
        return UnpackedDualTensor(tensor, None)
    tangent = tangent_at(tensor, LEVELS.active[-1])
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal = primal_at(tensor, LEVELS.active[-1])
    shown = primal.view_as(primal)
    if LEVELS.has_late:
        shown._base = None  # otherwise it would inherit the tangent from its base
    return UnpackedDualTensor(shown, tangent)


# ------------------------------------------------------------------------------ for operators


def carried_by(tensor: Tensor) -> dict[int, Any]:
    """Return the primal and tangent per level. A view made before its base got a tangent by a
    write receives its window of that tangent."""
    carried: dict[int, Any] = tensor.__dict__.get(_SLOT, _NOTHING)
    base = tensor._base
    if base is None or not LEVELS.has_late or _PRIMAL in tensor.__dict__:
        return carried
    late = {n: (None, window_of(pair[1], base, tensor))
            for n, pair in base.__dict__.get(_SLOT, {}).items() if n not in carried}
    if late:
        carried = tensor.__dict__[_SLOT] = {**carried, **late}
    return carried


def mark_primal(tensor: Tensor) -> Tensor:
    """Mark `tensor` as not inheriting a tangent that its base gets by a write; return it."""
    tensor.__dict__[_PRIMAL] = True
    return tensor


def window_of(tangent: Tensor, base: Tensor, view: Tensor) -> Tensor:
    """Return the part of a base's tangent that `view` covers; both have the base's layout."""
    start = _lowest(view).storage_offset() - _lowest(base).storage_offset()
    return _strided(tangent, tuple(view.shape), view.stride(), start)


def _lowest(x: Tensor) -> Tensor:
    window: Any = x._array
    while window.__class__ is BatchedWindow:
        x = window.below
        window = x._array
    return x


def _strided(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Tensor:
    """Return a strided view of `x`, of all examples if `x` is batched."""
    window: Any = x._array
    if window.__class__ is not BatchedWindow or window.is_shared:
        return x.as_strided(shape, strides, x.storage_offset() + start)
    below = window.below
    shown: Tensor = window.batch.wrap(
        _strided(below, (below.shape[0], *shape), (below.stride(0), *strides), start))
    return shown


def laid_out(tangent: Tensor, primal: Tensor) -> Tensor:
    """Return the tangent with the primal's strides, so that a view of one applies to the other."""
    strides = primal._array.strides
    if tangent._array.strides == strides or 0 in strides or not primal._array.size:
        return tangent
    return zeros_as(primal, tangent).copy_(tangent)


def zeros_as(base: Tensor, tangent: Tensor) -> Tensor:
    """Return zeros in the layout of `base` to hold `tangent`, batched if either is."""
    return _zeros(base, tangent, tuple(base.shape), base.stride())


def _zeros(base: Tensor, tangent: Tensor, shape: tuple, strides: tuple) -> Tensor:
    batch = innermost_batch((base, tangent))
    if batch is None:
        if base._array.__class__ is not np.ndarray:
            return base.new_zeros(shape)
        return base.new_empty_strided(shape, strides).zero_()
    below = batch.lower(base)
    step = below.stride(0) if batch.holds(base) else \
        1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True) if n)
    return batch.wrap(
        _zeros(below, batch.lower(tangent), (batch.size, *shape), (step, *strides)))


def last_level(tensor: Tensor) -> int | None:
    """Return the innermost active level at which the tensor carries a tangent, or None."""
    carried = tensor.__dict__.get(_SLOT) if tensor._base is None else carried_by(tensor)
    if carried:
        for level in reversed(LEVELS.active):
            if level in carried:
                return level
    return None


def innermost_level(values: tuple) -> int | None:
    """Return the innermost active level at which one of the values carries a tangent, or None."""
    levels = [last_level(v) for v in values if isinstance(v, Tensor)]
    return max((n for n in levels if n is not None), default=None)


def primal_at(tensor: Any, level: int) -> Any:
    """Return the tensor without its tangent at `level`; those of other levels remain."""
    if not isinstance(tensor, Tensor):
        return tensor
    carried = tensor.__dict__.get(_SLOT) if tensor._base is None else carried_by(tensor)
    if not carried or level not in carried:
        return tensor
    primal = carried[level][0]
    if primal is None:
        primal = same_history(tensor)
        if primal._base is not None:
            mark_primal(primal)
        rest = {n: pair for n, pair in carried.items() if n != level}
        if rest:
            primal.__dict__[_SLOT] = rest
    return primal


def tangent_at(tensor: Tensor, level: int) -> Tensor | None:
    """Return the tangent at `level`, or None."""
    carried = tensor.__dict__.get(_SLOT) if tensor._base is None else carried_by(tensor)
    pair = carried.get(level) if carried else None
    return None if pair is None else pair[1]


def attach(dual: Tensor, level: int, primal: Tensor, tangent: Tensor) -> None:
    """Make `dual` carry a tangent at `level` in addition to those of `primal`."""
    carried = dict(primal.__dict__.get(_SLOT, {}))
    carried[level] = (primal, tangent)
    dual.__dict__[_SLOT] = carried


def push_through(
    function: Callable[..., Sequence[Tensor]], primals: Sequence[Any],
    tangents: Sequence[Tensor | None], outputs: int,
) -> tuple[Tensor | None, ...]:
    """Return the tangents of function(*primals), for operators that are composed of others.

    outputs: number of the operator's outputs; those that the function omits have no tangent.
    """
    level = push_level()
    try:
        duals = list(primals)
        for i, tangent in enumerate(tangents):
            if tangent is not None:
                duals[i] = same_history(primals[i])
                attach(duals[i], level, primals[i], tangent)
        pushed = [tangent_at(y, level) for y in function(*duals)]
    finally:
        pop_level(level)
    return (*pushed, *(None,) * (outputs - len(pushed)))


def sum_terms(*terms: Tensor | None) -> Tensor | None:
    """Return the sum of the terms that are not None, or None."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def unless_missing(function: Callable[..., Tensor], *tangents: Tensor | None) -> Tensor | None:
    """Return function(*tangents), or None if any of them is None."""
    return None if any(t is None for t in tangents) else function(*tangents)


def carry(source: Tensor, target: Tensor) -> Tensor:
    """Give `target`, which has the same value, the tangents of `source`; return it."""
    return give(tangents_of(source), target)


def tangents_of(tensor: Tensor) -> dict[int, Any]:
    """Return a tensor's tangents by level, for `give`."""
    return {n: (None, pair[1]) for n, pair in carried_by(tensor).items()}


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


def same_history(x: Tensor) -> Tensor:
    """Return a new object that autograd treats as the same tensor: gradients reach a leaf through
    it."""
    result: Tensor = object.__new__(Tensor)
    x._version  # noqa: B018  # both share a counter of writes
    twin = x._alias()
    result._array, result._counter = x._array, twin._counter
    result._requires_grad, result._tracked = x._requires_grad, x._tracked
    result._node, result._base, result._stamp, result._grad = x._node, x._base, x._stamp, None
    if x._node is None and x._requires_grad:
        result._node = new_node(_PRIMAL_PLAN, (x,), (), (), None)
    return result
