"""Deferred calls: operators do not execute while the call matches a stored signature.

Tensors get uninitialized memory with the signature's layout, and everything is recorded as usual.
If Python needs a value, or the call diverges, the recorded events are computed into that memory in
order, and the call continues as a normal recorded call. A call that matches to the end gets its
values from a program. If a call ends with an error, its events are computed too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.mode import no_grad
from ...native.runtime.page_prefault import PagePrefaulter
from ...native.target.graph_costs import MAX_ZEROED_ELEMENTS
from ...ops.core.autocast import STATE
from ...ops.core.operator import Kind, Operator
from ...tensor.layout import (
    as_bytes, empty_strided_array, ensure_strides, find_dense_order, find_owner,
)
from ...tensor.tensor import Tensor, view_of, wrap
from ...tensor.tree import map_leaves_of
from ..schedule.arena import Arena
from ..trace.bindings import Bindings, view_bytes
from ..trace.counter_rng import CounterDraw, draw_key
from ..trace.number_inputs import NumberInput
from ..trace.operands import as_arrays, collect_arrays, unbind_call
from ..trace.trace import (
    CONSTANT, DRAW, EMPTY, OPERATOR, UPDATE, WRITE, Event, Storage, Value, collect_values,
    map_values,
)
from ..trace.trace_signature import Geometry, TraceSignature
from .listed_history import attach

if TYPE_CHECKING:
    from .recorder import Recorder

NOT_NOW = object()  # the operator must run


class Deferred:
    """The events that a recorded call still has to compute."""

    # Also of the update that ends the deferral: it is computed with the events before it.
    defers_update = True

    def __init__(self, recorder: Recorder, signature: TraceSignature) -> None:
        self.recorder, self.trace, self.signature = recorder, recorder.trace, signature
        self.values, self.trace.values = self.trace.values, False
        self.on = True
        self.originals: dict[int, tuple[Callable, bool]] = {}  # by event number
        self.scalars: dict[int, Any] = {}  # of updates
        self.pages = PagePrefaulter()  # pages that the program will write
        self.arena: Arena | None = None
        if signature.arena:
            with suppress(MemoryError):  # the program then reports the failed allocation
                self.arena = Arena(signature.arena)
                self.pages.ask(self.arena.array)

    # ------------------------------------------------------------------------ recording

    def operator(
        self, operator: Operator, refs: tuple, bound: tuple, original: Callable, swapped: bool
    ) -> Any:
        """Record an operator. Return its results without values, or NOT_NOW if it must run."""
        number = len(self.trace.events)
        event = Event(OPERATOR, operator=operator, args=refs)
        if not self.signature.matches_inputs(number, event, self.trace) \
                or not self._takes_values(operator, bound):
            return NOT_NOW
        try:
            arrays = self._allocate_results(number)
        except MemoryError:  # there may be enough memory without the arena
            return NOT_NOW
        if arrays is None:
            return NOT_NOW
        self.originals[number] = original, swapped
        is_tuple, _ = self.signature.forms[number]
        source = next((x for x in bound if isinstance(x, Tensor)), None)
        with self.recorder.silence():
            tensors = [None if y is None else
                       view_of(source, y) if operator.kind is Kind.VIEW and source is not None
                       else wrap(y) for y in arrays]
            result: Any = tuple(tensors) if is_tuple else tensors[0]
            attach(operator, result, bound)
        return result if operator.result_type is None else operator.result_type(*result)

    def _takes_values(self, operator: Operator, bound: tuple) -> bool:
        """Whether an operator accepts the values of its outside arguments. If not, it raises at
        this point; operators on computed values may raise later, when the call is computed."""
        rule = operator.values
        if rule is None or rule.holds is None:
            return rule is None
        arrays = collect_arrays([bound[operator.names.index(name)] for name in rule.parameters])
        storages = map(self.trace.storage_of, arrays)
        if not all(storage is not None and storage.external for storage in storages):
            return True
        return rule.holds(*(x._array if isinstance(x, Tensor) else x for x in bound))

    def _allocate_results(self, number: int) -> list[np.ndarray | None] | None:
        """Allocate the results of an event; None if they lie on known memory."""
        owners: dict[int, np.ndarray] = {}
        result: list[np.ndarray | None] = []
        _, parts = self.signature.forms[number]
        for value, part in zip(self.signature.results[number], parts, strict=True):
            if value is None:
                result.append(None)
                continue
            if value.storage < len(self.trace.storages):
                return None
            geometry = self.signature.wholes[value.storage]
            owner = owners.get(value.storage)
            if owner is None:
                owner = owners[value.storage] = allocate(geometry)
            if not part:
                result.append(owner)
            elif (value.shape, value.strides, value.dtype) == geometry and not value.offset:
                result.append(owner[...])
            else:
                result.append(view_bytes(as_bytes(owner), value))
        return result

    def copy_of(self, leaf: Tensor, g: Tensor) -> Tensor | None:
        """Return a grad without values for a leaf; None unless the signature writes one now."""
        number = len(self.trace.events)
        supplied = self.signature.inputs
        order = find_dense_order(leaf._array)
        if number >= len(supplied) or not supplied[number].startswith(WRITE) or order is None:
            return None
        array = g._array
        strides = [n // leaf._array.itemsize for n in leaf._array.strides]
        with self.recorder.silence():
            return wrap(empty_strided_array(array.shape, strides, array.dtype))

    def run_unrecorded(self, bound: tuple, original: Callable, args: tuple, kwargs: dict) -> Any:
        """Return the result of an operator that records no event, usually a view of its input;
        NOT_NOW if it computes values."""
        seen = {id(find_owner(a)) for a in collect_arrays(bound)}
        try:
            with np.errstate(all="ignore"):  # warnings about garbage values
                result = original(*args, **kwargs)
        except Exception:
            return NOT_NOW  # it may fail on garbage values
        for y in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(y, Tensor) and id(find_owner(y._array)) not in seen:
                return NOT_NOW
        return result

    def compare_event(self, event: Event) -> None:
        """Compare the event just recorded with the signature; compute all values if it differs."""
        number = len(self.trace.events) - 1
        signature, trace = self.signature, self.trace
        if not signature.matches_inputs(number, event, trace) or not signature.matches_outputs(
            number, event, trace
        ):
            self.compute()

    def note_state(self, states: Any, param: Any, state: dict, had_counters: bool) -> None:
        """Note a parameter's state at the start of an optimizer's step, which may be new."""
        if not had_counters and state and param in states:
            for tensor in state.values():
                if isinstance(tensor, Tensor):
                    self.pages.ask(tensor._array)

    # --------------------------------------------------------------------------- values

    def compute(self) -> None:
        """Compute everything recorded so far, and stop deferring."""
        if not self.on:
            return
        self.leave()
        recorder, trace = self.recorder, self.trace
        self.release()
        trace.values = self.values
        for storage in trace.storages:
            if storage.external and trace.values and storage.owner is not None:
                storage.initial = trace.copy_array(as_bytes(storage.owner))
        drawing, recorder.drawing = recorder.drawing, True
        autocast, STATE.enabled = STATE.enabled, False
        try:
            with recorder.silence(), no_grad():
                _Computation(self).run()
        finally:
            recorder.drawing, STATE.enabled = drawing, autocast

    def expect(self, bindings: Bindings) -> None:
        """Prefault the pages of gradients that the program will write."""
        for _, grad in bindings.grads:
            if grad is not None:
                self.pages.ask(find_owner(grad._array))

    def release(self) -> None:
        """Cut the cycle through the recorder, which holds the call's arguments and results."""
        self.recorder.deferred = self.trace.deferred = None

    def leave(self) -> None:
        """Stop deferring: from now on, memory holds values."""
        self.on, self.arena = False, None
        self.pages.stop()


class _Computation:
    """Execute a trace's events, in the call's own memory if it still exists."""

    def __init__(self, deferred: Deferred) -> None:
        self.deferred, self.trace = deferred, deferred.trace
        self.memory: dict[int, np.ndarray] = {}
        self.keys: set[int] = set()  # counter-based draws that were made
        self.last: dict[int, int] = {}  # the last event that uses each storage
        for i, event in enumerate(self.trace.events):
            for value in collect_values((event.args, event.kwargs, event.results)):
                self.last[value.storage] = i

    def run(self) -> None:
        done: dict[int, list[int]] = {}
        for storage, last_use in self.last.items():
            done.setdefault(last_use, []).append(storage)
        for i, event in enumerate(self.trace.events):
            HANDLERS[event.kind](self, i, event)
            for storage in done.get(i, ()):
                self.memory.pop(storage, None)

    def array(self, value: Value) -> np.ndarray:
        """Return the array of a Value."""
        owner = self.memory.get(value.storage)
        if owner is None:
            owner = self.memory[value.storage] = _find_memory(self.trace.storages[value.storage])
        return view_bytes(as_bytes(owner), value)

    def operator(self, i: int, event: Event) -> None:
        """Run an operator."""
        operator = event.operator
        args = map_values(event.args, lambda value: wrap(self.array(value)))
        args = map_leaves_of(NumberInput, lambda number: number.value, args)
        positions = operator.tensor_positions
        args = tuple(x if k in positions else as_arrays(x) for k, x in enumerate(args))
        plain, named = unbind_call(operator, args)
        original, swapped = self.deferred.originals.get(i, (operator.function, False))
        result = original(*(plain[::-1] if swapped and len(plain) == 2 else plain), **named)
        result = result if isinstance(result, (tuple, list)) else (result,)
        for y, value in zip(result, event.results, strict=True):
            if value is not None:
                self.array(value)[...] = y._array

    def write(self, i: int, event: Event) -> None:
        """Copy one window into another."""
        np.copyto(self.array(event.args[0]), self.array(event.args[1]), casting="unsafe")

    def constant(self, i: int, event: Event) -> None:
        """Fill in a constant."""
        self.array(event.results[0])[...] = event.array

    def draw(self, i: int, event: Event) -> None:
        """Draw random numbers."""
        target, *rest = event.args
        array = self.array(target)
        if isinstance(event.function, CounterDraw):
            key, generator = event.array, event.args[2]
            assert key is not None
            if id(key) not in self.keys:
                self.keys.add(id(key))
                draw_key(key, generator)
            event.function.fill(array, int(key[0]))
            return
        event.function(array, *rest, **event.kwargs)
        event.array = self.trace.copy_array(array)

    def update(self, i: int, event: Event) -> None:
        """Run an optimizer's formula for each parameter."""
        supplied = event.kwargs
        scalars = self.deferred.scalars[i]
        for param, grad, states in event.args:
            tensors = [wrap(self.array(value)) for value in (param, grad, *states)]
            supplied["optimizer"]._flambeau_run_formula(
                supplied["flags"], scalars, *tensors[:2], tensors[2:]
            )


HANDLERS: dict[str, Callable[[_Computation, int, Event], None]] = {
    OPERATOR: _Computation.operator, WRITE: _Computation.write, CONSTANT: _Computation.constant,
    DRAW: _Computation.draw, UPDATE: _Computation.update, EMPTY: lambda self, i, event: None,
}


def allocate(geometry: Geometry) -> np.ndarray:
    """Allocate an array; zero it if it is small or may be used as indices."""
    shape, strides, dtype = geometry
    result = ensure_strides(np.empty(shape, dtype), strides)
    if dtype.kind in "biu" or result.size <= MAX_ZEROED_ELEMENTS:
        result.fill(0)
    return result


def _find_memory(storage: Storage) -> np.ndarray:
    """Return a storage's memory, or new memory if the call freed it."""
    owner = storage.owner if storage.owner_ref is None else storage.owner_ref()
    geometry = storage.whole
    return allocate((geometry.shape, geometry.strides, geometry.dtype)) if owner is None else owner
