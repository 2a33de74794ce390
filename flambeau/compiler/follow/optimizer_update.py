"""GroupUpdate: an optimizer's step over one group as one event of a followed call.

Step counts advance in one array, learning rates are read from the group, and the version counters
of parameters and states are linked to the number of times the event was listed.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ...optim.kernel import count_writes
from ...tensor.storage import VersionCounter
from ..runtime.optimizer_counters import StepCounter
from ..trace.bindings import Update
from ..trace.trace import Value

if TYPE_CHECKING:
    from .following import Following
    from .segment import Entry

_array_of = attrgetter("_array")


def has_states(following: Following, entry: Entry) -> bool:
    """Whether an UPDATE entry's optimizer still has the parameters and the states, on the same
    memory, that the entry advances."""
    supplied = entry.event.kwargs
    optimizer, names = supplied["optimizer"], supplied["names"]
    params = optimizer.param_groups[supplied["group"]]["params"]
    for i, (value, _, values) in zip(supplied["positions"], entry.event.args, strict=True):
        state = optimizer.state.get(params[i], {})
        if not following.matches_window(value, params[i]._array) or not all(
            name in state and following.matches_window(expected, state[name]._array)
            for name, expected in zip(names, values, strict=True)
        ):
            return False
    return True


class GroupUpdate:
    """An UPDATE entry that is an optimizer's whole step over one group."""

    def __init__(self, entry: Entry) -> None:
        supplied = entry.event.kwargs
        self.optimizer, names = supplied["optimizer"], supplied["names"]
        self.ran, self.listed = [0], [0]
        update = Update(self.optimizer, supplied["group"], supplied["positions"], names,
                        supplied["flags"], entry.event)
        self.ticker = StepCounter(update, self.ran)
        group = self.optimizer.param_groups[supplied["group"]]
        positions = set(supplied["positions"])
        params = group["params"]
        self.group, self.params, self.length = group, params, len(params)
        self.others = [p for i, p in enumerate(params) if i not in positions]
        self.updated: list[Any] = []  # parameters
        self.values: list[Value] = []  # the windows of their grads
        # Storages whose grads are the expected windows as the backward pass sets them.
        self.same_windows: set[int] = set()
        for i, (_, grad, _) in zip(supplied["positions"], entry.event.args, strict=True):
            param = params[i]
            state = self.optimizer.state.get(param, {})
            states = [state[n] for n in names]
            self.updated.append(param)
            self.values.append(grad)
            self._link_formula(supplied["flags"], param, states)
        self.arrays = [*map(_array_of, self.updated)]  # `ticker` compares those of the states
        self.storages = [value.storage for value in self.values]
        self.storage_set = {*self.storages}
        for tensor, writes in self.ticker.list_counted():
            self._link(tensor, writes)

    def _link_formula(self, flags: Any, param: Any, states: list[Any]) -> None:
        kind = type(self.optimizer)
        counts = count_writes(kind._flambeau_formula, flags, kind._flambeau_scalars, len(states))
        for tensor, writes in zip((param, *states), counts, strict=True):
            self._link(tensor, writes)

    def _link(self, tensor: Any, writes: int) -> None:
        if tensor._counter is None:
            tensor._counter = VersionCounter()
        tensor._counter.link(self.listed, writes)

    def _are_listed(self, following: Following, grads: list[np.ndarray]) -> bool:
        """Whether the backward pass set these grads, all known to be the expected windows."""
        windows, owners = following.windows, map(following.owners.__getitem__, self.storages)
        return (not (windows.keys() & self.storage_set) - self.same_windows
                and all(map(is_, grads, map(windows.get, self.storages, owners))))

    def _are_same(self, following: Following, grads: list[np.ndarray]) -> bool:
        """Whether the grads are the expected windows, compared one by one."""
        for value, grad in zip(self.values, grads, strict=True):
            s = value.storage
            if grad is following.owners[s]:
                continue
            if not following.matches_window(value, grad):
                return False
            if grad is following.windows.get(s):
                self.same_windows.add(s)
        return True

    def follow(self, following: Following, group: dict[str, Any]) -> bool:
        """List the update. Return False, with no side effects, if it differs."""
        if group is not self.group or group["params"] is not self.params \
                or len(self.params) != self.length:
            return False
        # A comprehension reads slots of one class faster than attrgetter.
        if not all(map(is_, [p._array for p in self.updated], self.arrays)):
            return False
        try:
            grads = [p._grad._array for p in self.updated]
        except AttributeError:  # a parameter without a grad
            return False
        if not self._are_listed(following, grads) and not self._are_same(following, grads):
            return False
        for param in self.others:
            if param._grad is not None:
                return False
        scalars = self.ticker.advance()
        if scalars is None:
            return False
        self.ran[0] += 1
        self.listed[0] += 1
        following.updates[following.pos] = scalars
        following.step()
        return True
