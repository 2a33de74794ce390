"""Step counters: an optimizer's step counts and hyperparameters for one run of a program.

Eager steps advance one counter per parameter. Here the counters of a group lie side by side in one
block: one addition advances all, and `state_dict` stays correct. Each `state["step"]` still owns
its storage, of one element: NumPy knows its cell as memory of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import numpy as np

from ...tensor.exposed_memory import PrivateBlock
from ...tensor.layout import find_owner
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..trace.bindings import Bindings, Update


_array_of = attrgetter("_array")
_CELLS: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()  # by id


class StepCounter:
    """Advances the counters of one update's parameters and computes the formula's numbers."""

    def __init__(self, update: Update, ran: Any) -> None:
        """`ran`: the step's run count, in a cell; says which run an increment belongs to."""
        self.ran, self.ticked = ran, -1
        self._read_group(update)
        self.saved = [self._list_scalars(state) for _, state in self.rows]
        self.only_counts = self._try_begin()
        self.before: list[tuple[np.ndarray, np.ndarray]] = []  # arrays that an update wrote, copies
        self.block: CounterBlock | None = None
        self.adjacent: Any = None  # cells in the block that one addition advances
        if self.only_counts and len(self.rows) > 1 and self.saved[0]:
            self._place_in_block(update.positions)
        self.unit: Any = None if self.adjacent is None else self.adjacent.dtype.type(1)
        self.read_count = None  # reads the first count, if beginning a step only counts
        if self.adjacent is not None and self.key_is_count:
            self.read_count = self.adjacent[:1].reshape(()).item
        self.state_tensors = _list_state_tensors(self.state)
        self.own_tensors = _list_state_tensors(dict(enumerate(state for _, state in self.rows)))
        self.arrays = [*map(_array_of, self.own_tensors)]

    def _read_group(self, update: Update) -> None:
        """Note the optimizer's group, its parameters and their states."""
        self.optimizer = optimizer = update.optimizer
        self.flags = update.flags
        self.groups, self.count = optimizer.param_groups, len(optimizer.param_groups)
        self.number, self.group = update.group, self.groups[update.group]
        self.routes = read_routes(optimizer, self.group)
        self.params = self.group["params"]
        self.params_before = [*map(id, self.params)]
        self.state = optimizer.state
        self.rows = [(self.params[i], optimizer.state.get(self.params[i], {}))
                     for i in update.positions]
        self.first_param, self.first_state = self.rows[0]
        self.begin, self.plan = optimizer._flambeau_begin, optimizer._flambeau_plan

    def _place_in_block(self, positions: Sequence[int]) -> None:
        """Move the group's counters side by side, if it can be, to advance them in one addition."""
        self.block = place_counters(self.optimizer, self.number)
        low, high = positions[0], positions[-1] + 1
        if self.block is None or high - low != len(positions):
            self.only_counts = False
        else:
            first = low if self.key_is_count else low + 1  # `begin` advances the first itself
            self.adjacent = self.block.counts[first:high]
        self.saved = [self._list_scalars(state) for _, state in self.rows]

    def _list_scalars(self, state: dict[str, Any]) -> list[np.ndarray]:
        """Return the scalar arrays of a state, such as its counters."""
        return [t._array for t in state.values() if hasattr(t, "_array") and t._array.ndim == 0]

    def _try_begin(self) -> bool:
        """Begin a step and undo it; return whether that only increments its counter."""
        arrays = self.saved[0]
        before = [a.copy() for a in arrays]
        versions = {name: get_version(t) for name, t in self.first_state.items()
                    if isinstance(t, Tensor)}
        key = self.begin(self.group, self.first_param, self.first_state)
        counter = self.first_state.get("step")
        self.key_is_count = counter is not None and key.__class__ is float and key == counter._array
        plain = all(
            (a == b + 1) if counter is not None and a is counter._array else a == b
            for a, b in zip(arrays, before, strict=True)
        )
        for a, b in zip(arrays, before, strict=True):
            a[()] = b
        self.writes = {name: count for name, version in versions.items()
                       if (count := get_version(self.first_state[name]) - version)}
        for name, count in self.writes.items():
            self.first_state[name]._counter.value -= count
        return plain and len(arrays) <= 1 and (not arrays or counter is not None)

    def list_begun(self) -> list[tuple[Tensor, int]]:
        """Return (tensor, number of writes) for tensors written when an optimizer's step begins."""
        rows = self.rows if self.adjacent is None and not self.only_counts else self.rows[:1]
        return [] if self.read_count is not None else [
            (state[name], count) for _, state in rows for name, count in self.writes.items()
            if name in state
        ]

    def list_counted(self) -> list[tuple[Tensor, int]]:
        """Return the other tensors that eager steps write as they begin; here in one addition."""
        begun = {id(tensor) for tensor, _ in self.list_begun()}
        return [(state[name], count) for _, state in self.rows
                for name, count in self.writes.items()
                if name in state and id(state[name]) not in begun]

    def check(self) -> bool:
        """Whether the optimizer still has the groups and state of the program."""
        optimizer = self.optimizer
        return (
            optimizer.state is self.state and optimizer.param_groups is self.groups
            and len(self.groups) == self.count and self.groups[self.number] is self.group
            and all(map(is_, read_routes(optimizer, self.group), self.routes))
            and self.group["params"] is self.params
            and [*map(id, self.params)] == self.params_before
            and (self.block is None
                 or optimizer._flambeau_counters.get(self.number) is self.block)
            and self._has_same_tensors()
        )

    def _has_same_tensors(self) -> bool:
        """Whether the state has the same tensors, and this update's have the same memory."""
        before = self.state_tensors
        values = list(chain.from_iterable(map(dict.values, self.state.values())))
        if len(values) != len(before):  # some are numbers
            values = _list_state_tensors(self.state)
        return (len(values) == len(before) and all(map(is_, values, before))
                and all(map(is_, [t._array for t in self.own_tensors], self.arrays)))

    def advance(self) -> Any:
        """Advance and return the formula's numbers; None, unadvanced, if flags or state changed, or
        if this raises: the call then runs in Python, which raises it after what comes before."""
        if not self.check():
            return None
        try:
            return self._count_and_plan()
        except Exception:
            self.undo()
            return None

    def _count_and_plan(self) -> Any:
        if self.read_count is not None:
            # Set before counting: interrupts arrive only after calls, so a run noted here was
            # counted.
            self.ticked = self.ran[0]
            np.add(self.adjacent, self.unit, self.adjacent)
            key: Any = self.read_count()
            alike = self._count_alike()
        else:
            key, alike = self._begin_params()
        flags, scalars = self.plan(self.group, key)
        if flags != self.flags or not alike:
            self.undo()
            return None
        return scalars

    def _count_alike(self) -> bool:
        """Whether all parameters have the first one's count: the formula takes a single one."""
        counts = self.adjacent.tobytes()
        first: bytes = self.first_state["step"]._array.tobytes()
        return bool(counts == first * (len(counts) // len(first)))

    def _begin_params(self) -> tuple[Any, bool]:
        """Begin each parameter's step; return the first key, and whether all are equal."""
        arrays = [a for entries in self.saved[: 1 if self.only_counts else None] for a in entries]
        if self.adjacent is not None:
            arrays.append(self.adjacent)
        self.before = [(a, a.copy()) for a in arrays]
        self.ticked = self.ran[0]
        key = self.begin(self.group, self.first_param, self.first_state)
        if self.adjacent is not None:
            np.add(self.adjacent, self.unit, self.adjacent)
            return key, self._count_alike()
        if self.only_counts:
            return key, True
        keys = [self.begin(self.group, param, state) for param, state in self.rows[1:]]
        return key, all(k == key for k in keys)

    def undo(self) -> None:
        """Undo the increment for the upcoming run, if there was one."""
        if self.ticked != self.ran[0]:
            return
        self.ticked = -1
        if self.read_count is not None:
            np.subtract(self.adjacent, self.unit, self.adjacent)
            return
        for array, before in self.before:
            array[...] = before
        for tensor, count in self.list_begun():
            tensor._bump(-count)


class CounterBlock:
    """The step counters of one group in adjacent memory, one cell per parameter."""

    def __init__(self, size: int, kind: np.dtype) -> None:
        memory = PrivateBlock(size * kind.itemsize)
        self.counts = np.frombuffer(memory, kind)
        self.cells = [np.ndarray((), kind, memory, i * kind.itemsize) for i in range(size)]
        _CELLS.update((id(cell), cell) for cell in self.cells)

    def has_cells_of(self, tensors: list[Any]) -> bool:
        """Whether these tensors, one per parameter or None, count in this block."""
        return len(tensors) == len(self.cells) and all(
            t is None or find_owner(t._array) is cell
            for t, cell in zip(tensors, self.cells, strict=True)
        )


def place_counters(optimizer: Any, number: int) -> CounterBlock | None:
    """Move a group's step counters to one block, ordered by position, and return it; None if other
    groups count with the same tensors."""
    params = optimizer.param_groups[number]["params"]
    tensors = [optimizer.state[p]["step"] if p in optimizer.state else None for p in params]
    stored = optimizer.__dict__.setdefault("_flambeau_counters", {})
    known = stored.get(number)
    if known is not None and known.has_cells_of(tensors):
        return known
    if any(t is not None and id(find_owner(t._array)) in _CELLS for t in tensors):
        return None
    kind = next(t for t in tensors if t is not None)._array.dtype
    result = CounterBlock(len(params), kind)
    for tensor, cell in zip(tensors, result.cells, strict=True):
        if tensor is not None:
            cell[()] = tensor._array
            tensor._array = cell
    stored[number] = result
    return result


class RecordedGroup:
    """The parameters, state and routes of an optimizer's group at recording time, for which a
    background build is valid."""

    def __init__(self, update: Update) -> None:
        self.optimizer, self.number = update.optimizer, update.group
        self.before = self._read()

    def is_same(self) -> bool:
        """Whether the optimizer still has the same parameters and state."""
        try:
            now = self._read()
        except (LookupError, AttributeError):
            return False
        return len(now) == len(self.before) and all(map(is_, now, self.before))

    def _read(self) -> list[Any]:
        optimizer = self.optimizer
        groups, state = optimizer.param_groups, optimizer.state
        group = groups[self.number]
        tensors = _list_state_tensors(state)
        entries = [group["params"], *group["params"], *tensors, *map(_array_of, tensors)]
        return [groups, *groups, state, *entries, *read_routes(optimizer, group)]


def read_routes(optimizer: Any, group: dict[str, Any]) -> tuple[Any, ...]:
    """Return the options that say whether a step is refused, and whether autograd records it."""
    return (group.get("capturable"), group.get("differentiable"),
            optimizer.defaults.get("differentiable"))


def snapshot_groups(bindings: Bindings) -> list[RecordedGroup]:
    """Snapshot the groups that a recorded call updated."""
    return [RecordedGroup(update) for update in bindings.updates]


def _list_state_tensors(state: Any) -> list[Any]:
    """Return the tensors of an optimizer's state."""
    return [x for x in chain.from_iterable(map(dict.values, state.values()))
            if isinstance(x, Tensor)]
