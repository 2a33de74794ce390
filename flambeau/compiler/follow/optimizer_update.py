"""GroupUpdate: an optimizer's step over one group as one event of a followed call.

The step counts are advanced in one array, learning rates are read from the group, and the version
counters of parameters and states are linked to how often the event was listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...optim.kernel import count_writes
from ...tensor.storage import VersionCounter
from ..runtime.optimizer_counters import StepCounter
from ..trace.bindings import Update

if TYPE_CHECKING:
    from .following import Following
    from .segment import Entry


class GroupUpdate:
    """An UPDATE entry that is the whole step of an optimizer over one group."""

    def __init__(self, entry: Entry) -> None:
        supplied = entry.event.kwargs
        self.optimizer, names = supplied["optimiser"], supplied["names"]
        self.ran, self.listed = [0], [0]
        update = Update(self.optimizer, supplied["group"], supplied["positions"], names,
                        supplied["flags"], entry.event)
        self.ticker = StepCounter(update, self.ran)
        group = self.optimizer.param_groups[supplied["group"]]
        positions = set(supplied["positions"])
        params = group["params"]
        self.group, self.params, self.length = group, params, len(params)
        self.others = [p for i, p in enumerate(params) if i not in positions]
        self.rows: list[tuple[Any, Any, int, Any]] = []
        self.arrays: list[tuple[Any, Any]] = []  # states and their arrays
        # Storages whose grads, as the backward pass sets them, are the expected windows.
        self.same_windows: set[int] = set()
        for i, (_, grad, _) in zip(supplied["positions"], entry.event.args, strict=True):
            param = params[i]
            state = self.optimizer.state.get(param, {})
            states = [state[n] for n in names]
            self.rows.append((param, param._array, grad.storage, grad))
            self.arrays += [(t, t._array) for t in states]
            self._link_formula(supplied["flags"], param, states)
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

    def follow(self, following: Following, group: dict[str, Any]) -> bool:
        """List the update; False, without any effect, if it is another one."""
        if group is not self.group or group["params"] is not self.params \
                or len(self.params) != self.length:
            return False
        owners, windows, same_windows = following.owners, following.windows, self.same_windows
        for param, array, s, value in self.rows:
            grad = param._grad
            if param._array is not array or grad is None:
                return False
            window = grad._array
            if window is owners[s] or s in same_windows and window is windows.get(s):
                continue
            if not following.same_window(value, window):
                return False
            if window is windows.get(s):
                same_windows.add(s)
        for param in self.others:
            if param._grad is not None:
                return False
        for state, array in self.arrays:
            if state._array is not array:
                return False
        scalars = self.ticker.advance()
        if scalars is None:
            return False
        self.ran[0] += 1
        self.listed[0] += 1
        following.updates[following.pos] = scalars
        following.step()
        return True
