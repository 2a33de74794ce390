"""Step counters: an optimizer's step counts and hyperparameters for one run of a program.

Eager steps advance one counter per parameter. Here the counters of a group share one array, of
which each `state["step"]` is a window: one addition advances all, and `state_dict` stays right.
"""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor
from ..trace.bindings import Bindings, Update


class StepCounter:
    """Advances the counters of one update's parameters and computes the formula's numbers."""

    def __init__(self, update: Update, ran: Any) -> None:
        """`ran`: the step's run count, in a cell; tells which run an increment was for."""
        self.ran, self.ticked = ran, -1
        self.optimiser = optimiser = update.optimiser
        self.flags = update.flags
        self.groups, self.count = optimiser.param_groups, len(optimiser.param_groups)
        self.group = group = self.groups[update.group]
        self.params = group["params"]
        self.params_before = [*map(id, self.params)]
        self.rows = [(self.params[i], optimiser.state.get(self.params[i], {}))
                     for i in update.positions]
        self.state = optimiser.state
        self.first_param, self.first_state = self.rows[0]
        self.begin, self.plan = optimiser._flambeau_begin, optimiser._flambeau_plan
        self.saved = [self._entries(state) for _, state in self.rows]
        self.simple = self._only_counts()
        self.before: list[tuple[np.ndarray, np.ndarray]] = []
        self.rest: Any = None
        self.shared: np.ndarray | None = None
        self.number = update.group
        if self.simple and len(self.rows) > 1 and self.saved[0]:
            self.shared = shared_counters(optimiser, update.group)
            low, high = update.positions[0], update.positions[-1] + 1
            if high - low == len(update.positions):
                self.rest = self.shared[low:high] if self.counts else self.shared[low + 1 : high]
            else:
                self.simple = False
            self.saved = [self._entries(state) for _, state in self.rows]
        self.unit: Any = None if self.rest is None else self.rest.dtype.type(1)
        self.state_tensors = self._list_state_tensors()
        self.item = None  # reads the first count, where counting is all that beginning does
        if self.rest is not None and self.counts:
            self.item = self.rest[:1].reshape(()).item

    def _entries(self, state: dict[str, Any]) -> list[np.ndarray]:
        """The arrays of a state's counters and other single numbers."""
        return [t._array for t in state.values() if hasattr(t, "_array") and t._array.ndim == 0]

    def _only_counts(self) -> bool:
        """Whether beginning a step does nothing but count it."""
        arrays = self.saved[0]
        before = [a.copy() for a in arrays]
        key = self.begin(self.group, self.first_param, self.first_state)
        counter = self.first_state.get("step")
        self.counts = counter is not None and key.__class__ is float and key == counter._array
        plain = all(
            (a == b + 1) if counter is not None and a is counter._array else a == b
            for a, b in zip(arrays, before, strict=True)
        )
        for a, b in zip(arrays, before, strict=True):
            a[()] = b
        return plain and len(arrays) <= 1 and (not arrays or counter is not None)

    def check(self) -> bool:
        """Whether the optimiser still has the groups and state of the program."""
        optimiser = self.optimiser
        return (
            optimiser.state is self.state and optimiser.param_groups is self.groups
            and len(self.groups) == self.count and self.groups[self.number] is self.group
            and self.group["params"] is self.params
            and [*map(id, self.params)] == self.params_before
            and (self.shared is None
                 or optimiser._flambeau_counters.get(self.number) is self.shared)
            and self._has_same_tensors()
        )

    def _list_state_tensors(self) -> list[Any]:
        return _state_tensors(self.state)

    def _has_same_tensors(self) -> bool:
        """Whether the state still consists of the same tensors. Lists compare by identity first."""
        try:
            values = list(chain.from_iterable(map(dict.values, self.state.values())))
            if values == self.state_tensors:
                return True
        except (RuntimeError, ValueError, TypeError):  # two different tensors were compared
            pass
        now = self._list_state_tensors()
        return list(map(id, now)) == list(map(id, self.state_tensors))

    def advance(self) -> Any:
        """Ticks; the formula's numbers. None, with nothing ticked, where flags or state changed."""
        if not self.check():
            return None
        if self.item is not None:
            # Interrupts strike after calls: when one finds this run noted, it has been counted.
            self.ticked = self.ran[0]
            np.add(self.rest, self.unit, self.rest)
            key: Any = self.item()
        else:
            key = self._begin_params()
        flags, scalars = self.plan(self.group, key)
        if flags != self.flags:
            self.undo()
            return None
        return scalars

    def _begin_params(self) -> Any:
        """Begins the step of each parameter; the first one's key."""
        arrays = [a for entries in self.saved[: 1 if self.simple else None] for a in entries]
        if self.rest is not None:
            arrays.append(self.rest)
        self.before = [(a, a.copy()) for a in arrays]
        self.ticked = self.ran[0]
        key = self.begin(self.group, self.first_param, self.first_state)
        if self.rest is not None:
            np.add(self.rest, self.unit, self.rest)
        elif not self.simple:
            for param, state in self.rows[1:]:
                self.begin(self.group, param, state)
        return key

    def undo(self) -> None:
        """Takes the tick back, where there was one for the run that is to come."""
        if self.ticked != self.ran[0]:
            return
        self.ticked = -1
        if self.item is not None:
            np.subtract(self.rest, self.unit, self.rest)
            return
        for array, before in self.before:
            array[...] = before


def shared_counters(optimiser: Any, number: int) -> np.ndarray:
    """One array for the step counters of a group, by position, with the counters moved there."""
    params = optimiser.param_groups[number]["params"]
    tensors = [optimiser.state[p]["step"] if p in optimiser.state else None for p in params]
    stored = optimiser.__dict__.setdefault("_flambeau_counters", {})
    known = stored.get(number)
    if known is not None and known.size == len(params) and all(
        t is None or owner_of(t._array) is known for t in tensors
    ):
        return known
    kind = next(t for t in tensors if t is not None)._array.dtype
    result = np.zeros(len(params), kind)
    for i, tensor in enumerate(tensors):
        if tensor is not None:
            result[i] = tensor._array
            tensor._array = result[i : i + 1].reshape(())
    stored[number] = result
    return result


class RecordedGroup:
    """The parameters and the state of an optimiser's group when a call was recorded: a program
    that was built in the background is for these."""

    def __init__(self, update: Update) -> None:
        self.optimiser, self.number = update.optimiser, update.group
        self.before = self._read()

    def is_same(self) -> bool:
        """Whether the optimiser has them still."""
        try:
            now = self._read()
        except (LookupError, AttributeError):
            return False
        return len(now) == len(self.before) and all(map(is_, now, self.before))

    def _read(self) -> list[Any]:
        optimiser = self.optimiser
        groups, state = optimiser.param_groups, optimiser.state
        group = groups[self.number]
        entries = [group["params"], *group["params"], *_state_tensors(state)]
        return [groups, *groups, state, *entries]


def snapshot_groups(bindings: Bindings) -> list[RecordedGroup]:
    """Those that a recorded call updated."""
    return [RecordedGroup(update) for update in bindings.updates]


def _state_tensors(state: Any) -> list[Any]:
    """The tensors that an optimiser's state consists of."""
    return [x for x in chain.from_iterable(map(dict.values, state.values()))
            if isinstance(x, Tensor)]
