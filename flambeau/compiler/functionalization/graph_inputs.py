"""Graph inputs: the sources of a program's memory: arguments, draws, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor, wrap
from ..capture.escapes import collect_written_storages
from ..ir.axis_order import invert_permutation, order_axes
from ..trace import bindings as bind
from ..trace.carried_values import find_carried_grads
from ..trace.counter_rng import CounterDraw, draw_key
from ..trace.operands import collect_tensors
from ..trace.trace import DRAW, Event, Trace, Value, address
from .complex_pairs import as_pairs, convert_from_pairs, view_as_pairs_window


def bind_arguments(trace: Trace, leaves: list[Any], bindings: bind.Bindings) -> dict[int, int]:
    """Return storage -> first leaf in it. Add to the bindings which arguments share a storage,
    which must not overlap, and what is written outside of arguments."""
    result: dict[int, int] = {}
    changed = collect_written_storages(trace)
    input_numbers: dict[int, int] = {}
    arrays: dict[int, np.ndarray] = {}
    for i, leaf in enumerate(leaves):
        array = get_array(leaf)
        number = None if array is None else trace.storage_numbers.get(id(find_owner(array)))
        if array is None or number is None:
            continue
        arrays[i], input_numbers[i] = array, number
        first = result.setdefault(number, i)
        if first != i:
            gap = address(array) - address(arrays[first])
            bindings.overlapping_leaves.append((first, i, gap))
            bindings.aliasing.append((first, i, bind.describe_aliasing(leaves[first], leaf)))
    bindings.disjoint_leaves = [
        (i, j) for i in input_numbers for j in input_numbers
        if i < j and input_numbers[i] != input_numbers[j]
        and {input_numbers[i], input_numbers[j]} & changed
    ]
    for storage in trace.storages:
        if storage.owner is not None and storage.external and storage.number not in result:
            outer = bindings.owners if storage.number in changed else bindings.readers
            outer.append(storage.owner)
    bindings.written_leaves = [i for i, number in input_numbers.items() if number in changed]
    return result


def get_array(leaf: Any) -> np.ndarray | None:
    """Return an argument's array, or None if it has none."""
    array = leaf._array if isinstance(leaf, Tensor) else leaf
    return array if isinstance(array, np.ndarray) else None


def make_draw(event: Event) -> bind.RandomInput:
    """Return the input into which an event's numbers are drawn before each call."""
    window, *rest = event.args
    order = order_axes(window.strides)
    memory = np.empty([window.shape[i] for i in order], window.dtype)
    buffer = memory.transpose(invert_permutation(order))
    drawn = as_pairs(memory)
    return bind.RandomInput(event.function, buffer, drawn, tuple(rest), event.kwargs)


def make_key_draw(generator: Any) -> bind.RandomInput:
    """Return the input into which the key of counter-based draws is drawn before each call."""
    memory = np.empty(1, np.uint64)
    return bind.RandomInput(draw_key, memory, memory, (generator,), {})


def list_draws(trace: Trace) -> Iterator[bind.RandomInput]:
    """Yield a trace's draws in order; counter-based draws yield one key per generator."""
    keys = set()
    for event in trace.events:
        if event.kind != DRAW:
            continue
        if not isinstance(event.function, CounterDraw):
            yield make_draw(event)
        elif event.args[2] not in keys:
            keys.add(event.args[2])
            yield make_key_draw(event.args[2])


def allocate_gradient(value: Value, version: int) -> tuple[np.ndarray, Tensor]:
    """Allocate a gradient, axes by decreasing stride; return its memory and a tensor on it whose
    version is `version`."""
    order = order_axes(value.strides)
    elements = view_as_pairs_window(value)
    pair = elements.shape[len(order) :]
    memory = np.empty([*(value.shape[i] for i in order), *pair], elements.dtype)
    result = wrap(convert_from_pairs(memory, value.dtype).transpose(invert_permutation(order)))
    if version:
        result._bump(version)
    return memory, result


def list_gradients_read_before(trace: Trace) -> list[tuple[Any, Any]]:
    """Return (leaf, grad before) for leaves whose grads were read before they were set.

    Leaves that the call created and did not return are left out: they differ in each call.
    """
    result = []
    handed_out = {id(tensor) for tensor in collect_tensors(trace.result)}
    carried = find_carried_grads(trace.carried)
    for access in trace.grads.values():
        if access.read and (access.outside or id(access.tensor) in handed_out):
            before = access.before
            used = before is None or id(find_owner(before._array)) in trace.storage_numbers
            is_argument = before is not None and carried.get(id(access.tensor)) is before
            result.append((access.tensor, before if used and not is_argument else bind.ANY_GRAD))
    return result


def make_memory_getter(slot: Any) -> Callable[..., Any]:
    """Return a getter for a slot's memory; it raises if the memory differs between calls."""
    return {bind.State: lambda: slot.array, bind.RandomInput: lambda: slot.view}.get(
        type(slot), _refuse_early_read
    )


def _refuse_early_read(*_: Any) -> Any:
    raise RuntimeError("this source is given at each call")
