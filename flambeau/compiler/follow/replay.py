"""Replay: compute the listed events of a followed call by running their operators in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...autograd.mode import no_grad
from ...native.foundation.method_patches import library_attributes
from ...ops.core.autocast import STATE
from ...ops.core.dispatch import find_pointwise_operator
from ...ops.core.operator import Operator
from ...tensor.layout import as_bytes
from ...tensor.tensor import Tensor, wrap
from ..trace.bindings import view_bytes
from ..trace.operands import as_arrays, unbind_call
from ..trace.trace import CONSTANT, DRAW, EMPTY, OPERATOR, UPDATE, WINDOW, WRITE, Value, map_values
from .following import Following
from .memory_layout import allocate
from .segment import Entry


class Replay:
    """Runs the events listed so far on this call's memory."""

    def __init__(self, following: Following) -> None:
        self.following = following

    def run(self) -> None:
        """Compute the events. Errors get a note that names the operator's line."""
        following = self.following
        following.is_computed = True
        autocast, STATE.enabled = STATE.enabled, False
        try:
            with no_grad():
                for i, entry in enumerate(following.segment.entries[: following.pos]):
                    try:
                        HANDLERS[entry.kind](self, i, entry)
                    except Exception as error:
                        error.add_note(f"in {entry.event.origin}, which a compiled call computed "
                                       "later")
                        raise
        finally:
            STATE.enabled = autocast

    def array(self, value: Value) -> np.ndarray:
        """Return the window that a Value describes."""
        following, s = self.following, value.storage
        owner = following.owners[s]
        if owner is None:  # inside a backward pass
            owner = self._inner(s)
        if value.shape == owner.shape and value.strides == owner.strides and not value.offset \
                and s not in following.shifts and value.dtype == owner.dtype:
            return owner
        if s in following.shifts:
            value = replace(value, offset=value.offset + following.shifts[s])
        return view_bytes(as_bytes(owner), value)

    def _inner(self, s: int) -> np.ndarray:
        """Return the memory of a storage that Python never sees, allocating it if needed."""
        memory = self.following.segment.memory[s]
        if memory.owner is not None:
            return memory.owner
        geometry = memory.whole
        owner = allocate((geometry.shape, geometry.strides, geometry.dtype))
        self.following.owners[s] = owner
        return owner

    def operator(self, i: int, entry: Entry) -> None:
        """Run an operator."""
        event, operator = entry.event, entry.operator
        args = map_values(event.args, lambda value: wrap(self.array(value)))
        positions = operator.tensor_positions
        args = tuple([x if k in positions else as_arrays(x) for k, x in enumerate(args)])
        result = apply(operator, args)
        result = result if isinstance(result, (tuple, list)) else (result,)
        for y, value in zip(result, event.results, strict=True):
            if value is not None:
                self.array(value)[...] = y._array

    def write(self, i: int, entry: Entry) -> None:
        """Copy one window into another."""
        into, source = entry.event.args
        np.copyto(self.array(into), self.array(source), casting="unsafe")

    def window_map(self, i: int, entry: Entry) -> None:
        """Map a cotangent between a base and its view."""
        event = entry.event
        y = event.function(wrap(self.array(event.args[0])), event.kwargs["geometry"])
        self.array(event.results[0])[...] = y._array

    def draw(self, i: int, entry: Entry) -> None:
        """Copy the numbers drawn when the event was listed."""
        self.array(entry.event.args[0])[...] = entry.buffer.buffer

    def update(self, i: int, entry: Entry) -> None:
        """Run an optimizer's formula for each parameter."""
        supplied, scalars = entry.event.kwargs, self.following.updates[i]
        for param, grad, states in entry.event.args:
            tensors = [wrap(self.array(value)) for value in (param, grad, *states)]
            supplied["optimizer"]._flambeau_run_formula(
                supplied["flags"], scalars, *tensors[:2], tensors[2:]
            )


def _do_nothing(self: Replay, i: int, entry: Entry) -> None:
    """Do nothing: constants already have their values, and empty memory needs none."""


HANDLERS: dict[str, Callable[[Replay, int, Entry], None]] = {
    OPERATOR: Replay.operator, WRITE: Replay.write, CONSTANT: _do_nothing, EMPTY: _do_nothing,
    DRAW: Replay.draw, UPDATE: Replay.update, WINDOW: Replay.window_map,
}


def apply(operator: Operator, bound: tuple) -> Any:
    """Call an operator's function; one of two operands may be a Python number."""
    args, kwargs = unbind_call(operator, bound)
    if len(args) == 2 and not kwargs:
        numbers = [not isinstance(x, Tensor) for x in args]
        if numbers == [True, False] and operator.name in REFLECTED:
            return REFLECTED[operator.name](args[1], args[0])
        if numbers == [False, True] and operator.name in PLAIN:
            return PLAIN[operator.name](*args)
    return operator.function(*args, **kwargs)


def iterate_python_operators() -> Iterator[tuple[Any, Operator, bool]]:
    """Yield (function, operator, whether operands are swapped) for Python's arithmetic operators.

    Call before stubs are installed.
    """
    functions: Iterable[Any] = library_attributes(Tensor).values()
    for function in functions:
        if (made_of := find_pointwise_operator(function)) is not None:
            yield function, *made_of


PLAIN = {operator.name: f for f, operator, swapped in iterate_python_operators() if not swapped}
REFLECTED = {operator.name: f for f, operator, swapped in iterate_python_operators() if swapped}
