"""Side effects: what a recorded call stored in Python objects, which its program stores again.

The watcher sees the step's own stores. Library modules store to their own attributes, as
`weight_norm` does; those are found by comparing with their earlier values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from ..proof.guards import format_line
from ..proof.stores import Store, iterate_containers
from ..proof.watcher import Watcher
from ..trace.carried_values import find_carried_grads, list_new_grads, make_grad_place
from ..trace.host_numbers import Place
from ..trace.plain_values import PLAIN, are_same_plain
from ..trace.trace import CONSTANT, EMPTY, OPERATOR, UPDATE, Effect, Trace
from .escapes import collect_written_storages, iterate_tensors
from .recorder import Recorder

_MISSING = object()


def note_stores(recorder: Recorder, watcher: Watcher | None, returned: Any) -> None:
    """Add the call's stores to the trace, and the values that a program must produce: the result
    and those to store."""
    trace = recorder.trace
    recorder.container_ids = [id(x) for x in iterate_containers(returned)]
    result = returned if watcher is None else watcher.read_result(returned)
    stores = watcher.read_stores() if watcher is not None else ()
    handed_out = [result, *(value for _, value in stores)]
    values = [*_note_grads(trace, handed_out), *_note_changed_attributes(trace, recorder, stores)]
    for store, value in stores:
        line = format_line(*store.line)
        if any(store.place.owner is group for group in _list_updated_groups(trace)):
            trace.add_problem("it changes the settings of an optimizer", line)
        trace.effects.append(Effect(store.place))
        values.append(value)
    recorder.container_ids += [id(x) for x in iterate_containers(values)][1:]
    trace.result = (result, tuple(values)) if values else result
    trace.plain = list(_iterate_plain_leaves(trace.result))


def _note_grads(trace: Trace, handed_out: Any) -> list[Tensor]:
    """Add the gradients that a program cannot leave in memory of its own to the trace; return them.

    Those are the ones that follow gradients that the call took over, and those that the step
    returns or stores, too.
    """
    carried = find_carried_grads(trace.carried)
    leaves = {id(place.owner) for place, _ in list_new_grads(trace) if id(place.owner) in carried}
    seen = {id(tensor) for tensor in iterate_tensors(handed_out)}
    result = []
    for access in trace.grads.values():
        leaf, grad = access.tensor, access.tensor._grad
        if id(leaf) in leaves or (grad is not access.before and id(grad) in seen
                                  and id(leaf) in trace.existing_tensors):
            trace.effects.append(Effect(make_grad_place(leaf)))
            result.append(grad)
    return result


def _note_changed_attributes(
    trace: Trace, recorder: Recorder, stores: Iterable[tuple[Store, Any]]
) -> list[Any]:
    """Add the attributes that library modules stored to the trace; return their values. They come
    before what the step stores, because it may print only after its calls of modules."""
    seen = {(id(store.place.owner), store.place.key) for store, _ in stores}
    values = []
    for module, key, value in _iterate_changed_attributes(recorder):
        if (id(module), key) not in seen:
            if not isinstance(value, Tensor):
                trace.add_problem(Reason(f"it changes {type(module).__name__}.{key}, which is not "
                                         "a tensor", Advice.CHANGE_OUTSIDE), "")
            trace.effects.append(Effect(Place(module, key, True)))
            values.append(value)
    return values


def watch_writes(trace: Trace) -> Callable[[], bool]:
    """Return a function that tells whether the call has written to tensors since, drawn random
    numbers, set grads or stepped a scheduler. Operators that only compute do not count."""
    events, calls = len(trace.events), len(trace.host_calls)
    grads = {key: access.tensor._grad for key, access in trace.grads.items()}

    def has_written() -> bool:
        later = trace.events[events:]
        return (any(event.kind not in (OPERATOR, CONSTANT, EMPTY) for event in later)
                or len(trace.host_calls) > calls
                or any(access.tensor._grad is not grads.get(key, access.before)
                       for key, access in trace.grads.items()))

    return has_written


def is_unwritten(trace: Trace, x: Tensor) -> bool:
    """Whether no event of the call has written to a tensor's memory."""
    owners = [trace.storages[number].owner for number in collect_written_storages(trace)]
    return not any(owner.__class__ is np.ndarray and np.may_share_memory(owner, x._array)
                   for owner in owners)


def note_arrays(trace: Trace) -> None:
    """Refuse a call that reads a NumPy array in memory that it writes: guards compare the array as
    it was before the call."""
    numbers = collect_written_storages(trace) if trace.proof.arrays else ()
    owners = [trace.storages[number].owner for number in numbers]
    # Two arrays on one memory may have different owners, as after from_dlpack.
    if any(np.may_share_memory(array, owner) for array in trace.proof.arrays for owner in owners
           if owner.__class__ is np.ndarray):
        trace.add_problem("it reads a NumPy array on memory that it writes", "")


def _list_updated_groups(trace: Trace) -> list[dict[str, Any]]:
    """Return the parameter groups that the call's updates read."""
    optimizers = [event.kwargs["optimizer"] for event in trace.events if event.kind == UPDATE]
    return [group for optimizer in optimizers for group in optimizer.param_groups]


def _iterate_changed_attributes(recorder: Recorder) -> Iterator[tuple[Any, str, Any]]:
    """Yield (module, name, value) for attributes that changed on called modules."""
    for module, before in recorder.spaces.values():
        for key, value in vars(module).items():
            if not are_same_plain(before.get(key, _MISSING), value):
                yield module, key, value


def _iterate_plain_leaves(x: Any) -> Iterator[Any]:
    kind = type(x)
    if issubclass(kind, (tuple, list)):
        for item in x:
            yield from _iterate_plain_leaves(item)
    elif issubclass(kind, dict):
        yield from _iterate_plain_leaves(list(x.values()))
    elif kind in PLAIN:
        yield x
