"""Recorder of optimizers: a step over a parameter group, one event per set of flags and scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...optim.kernel import count_writes
from ...tensor.layout import find_owner
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..trace.trace import UPDATE
from .recorder import Recorder


def record_group_step(
    r: Recorder, original: Callable, optimizer: Any, group: dict[str, Any]
) -> None:
    """Record a step over one group, as one event per set of flags and scalars."""
    if group.get("differentiable") or group.get("capturable"):
        r.compute()
        r.problem(f"{type(optimizer).__name__} runs with differentiable or capturable")
        return original(optimizer, group)
    number = next(i for i, item in enumerate(optimizer.param_groups) if item is group)
    names = optimizer._flambeau_states(group)
    alike: dict[Any, list[Any]] = {}
    for position, param in enumerate(group["params"]):
        if param.grad is not None:
            state = optimizer.state[param] if names else {}
            key = _begin_parameter(r, optimizer, group, param, state)
            alike.setdefault(key, []).append((position, param, param.grad, state))
    for key, rows in alike.items():
        with r.silence():
            flags, scalars = optimizer._flambeau_plan(group, key)
        deferred = _update(r, optimizer, number, flags, scalars, rows, names)
        with r.silence():
            for _, param, grad, state in rows:
                states = [state[n] for n in names]
                if not deferred:
                    optimizer._flambeau_run_formula(flags, scalars, param, grad, states)
                    continue
                kind: Any = type(scalars)  # a NamedTuple's class
                counts = count_writes(
                    type(optimizer)._flambeau_formula, flags, kind, len(states))
                for tensor, writes in zip((param, *states), counts, strict=True):
                    tensor._bump(writes)
    return None


def _begin_parameter(
    r: Recorder, optimizer: Any, group: dict[str, Any], param: Any, state: dict
) -> Any:
    """Begin a parameter's step. State that it creates counts as existing before the call."""
    old = dict(state)
    had_counters = bool(_copy_counters(state))
    with r.silence():
        key = optimizer._flambeau_begin(group, param, state)
    created = [t for n, t in state.items() if isinstance(t, Tensor) and old.get(n) is not t]
    for tensor in created:
        r.trace.existing_tensors.add(id(tensor))
        r.trace.known_owners.add(id(find_owner(tensor._array)))
        r.keep_alive.append((tensor, find_owner(tensor._array)))
        r.note_version(tensor)
    r.begun.update(id(t) for t in state.values() if isinstance(t, Tensor))
    if created and _changes_after_first_step(r, optimizer, group, param, state, key):
        r.problem(f"{type(optimizer).__name__} does something else in its first step")
    if r.deferred is not None:
        r.deferred.note_state(optimizer.state, param, state, had_counters)
    return key


def _changes_after_first_step(
    r: Recorder, optimizer: Any, group: dict[str, Any], param: Any, state: dict, key: Any
) -> bool:
    """Whether the step's flags after the first step, which has key `key`, differ from it."""
    old = dict(state)
    counters = _copy_counters(state)
    with r.silence():
        versions = [(t, get_version(t)) for t in state.values() if isinstance(t, Tensor)]
        following = optimizer._flambeau_begin(group, param, state)
        for array, before in counters.values():
            array[...] = before
        for tensor, version in versions:
            if writes := get_version(tensor) - version:
                tensor._bump(-writes)
                r.versions.append((tensor, version - writes))  # every step starts with this version
        state.update(old)
        return bool(
            optimizer._flambeau_plan(group, key)[0] != optimizer._flambeau_plan(group, following)[0]
        )


def _copy_counters(state: dict[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return a state's scalar arrays with copies, by name."""
    return {name: (t._array, t._array.copy()) for name, t in state.items()
            if isinstance(t, Tensor) and not t._array.ndim}


def _update(r: Recorder, optimizer: Any, group: int, flags: Any, scalars: Any, rows: list,
            names: tuple[str, ...]) -> bool:
    """Record an update; return whether it is deferred, so that the caller need not run it."""
    if any(isinstance(s, Tensor) for s in scalars):
        r.compute()
        r.problem(f"{type(optimizer).__name__} has options that are tensors")
        return False
    fields = {"optimizer": optimizer, "group": group, "flags": flags, "names": names,
              "positions": tuple(row[0] for row in rows)}
    refs = tuple(
        (r.refer(param), r.refer(grad), tuple(r.refer(state[n]) for n in names))
        for _, param, grad, state in rows
    )
    deferred = r.deferred
    if deferred is not None:
        deferred.scalars[len(r.trace.events)] = scalars
    r.add(UPDATE, function=type(optimizer)._flambeau_formula, args=refs, kwargs=fields,
          array=np.array(scalars, np.float64))
    return deferred is not None and deferred.defers_update
