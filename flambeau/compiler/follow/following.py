"""Following: the cursor of a call in a segment, and the memory of the segment's storages.

A listed operator returns a tensor immediately: its memory is allocated with the recorded layout;
only the values are missing. Views of it are real views, so shapes, strides, storages, versions and
autograd history are exact before anything is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.tape import next_sequence
from ...native.runtime.fast_call import data_address
from ...native.target.compile_costs import COPIED_OWNER_SLACK_BYTES, MAX_COPIED_OWNER_RATIO
from ...ops.core.operator import Kind
from ...ops.indexing.index import VersionedPositions
from ...tensor.ambient import AMBIENT
from ...tensor.exposed_memory import is_any_exposed, is_exposed
from ...tensor.layout import as_bytes, find_owner
from ...tensor.size import Size
from ...tensor.tensor import Tensor, creation, view_of
from ..capture.listed_history import attach
from ..trace.bindings import view_bytes
from ..trace.plain_values import PLAIN, are_same_plain, are_same_setting
from ..trace.trace import Value, are_same_bits
from .segment import END, INTERNAL, Entry, Segment

_SEQUENCES = (tuple, list, Size, VersionedPositions)

_new = object.__new__


class Following:
    """The cursor of one call in one segment.

    owners: the array that owns each storage in this call; None if not seen yet.
    inputs: the first window through which the call accessed each outside storage.
    sources: the original memory of inputs that Python may write unnoticed; `owners` has a copy.
    shifts: how many bytes later than recorded each input starts in its owner.
    updates: the scalars of optimizer updates, by event.
    """

    __slots__ = (
        "addresses", "ambient", "bound", "cues", "inputs", "is_computed", "next", "owners", "pos",
        "segment", "sequence", "shifts", "sources", "updates", "walked", "windows",
    )

    def __init__(self, segment: Segment) -> None:
        self.segment, self.pos = segment, 0
        self.is_computed = False  # whether computing the listed events may have written
        self.next: Entry = segment.entries[0]
        segment.recycled.refresh()
        self.owners: list[np.ndarray | None] = segment.owners.copy()
        self.addresses: list[int | None] = [None] * len(segment.memory)
        self.sources: dict[int, np.ndarray] = {}
        self.inputs: dict[int, np.ndarray] = {}
        self.shifts: dict[int, int] = {}
        self.bound: set[int] = segment.stable_ids.copy()  # ids of owners bound to a storage
        self.cues: list[Any] | None = None  # inline caches that this call generates
        self.updates: dict[int, Any] = {}
        self.windows: dict[int, np.ndarray] = {}  # by storage: grads that cover part of it
        self.take_ready()
        self.walked = 0  # backward passes followed as one event
        self.ambient = AMBIENT.changes
        self.sequence: int = next_sequence()  # nodes of this call have higher numbers

    def take_ready(self) -> None:
        """Bind the arrays of storages that are ready from the start."""
        recycled = self.segment.recycled
        owners, arrays = self.owners, recycled.arrays
        for s in recycled.ready:
            owners[s] = arrays[s]
        self.bound |= recycled.ready_ids

    @property
    def shows_writes(self) -> bool:
        """Whether Python may see the segment's writes to outside memory."""
        return is_any_exposed(self.segment.written_ids)

    def step(self) -> None:
        """Advance to the next event."""
        self.pos += 1
        entries = self.segment.entries
        self.next = entries[self.pos] if self.pos < self.segment.count else END

    def is_pending(self, array: np.ndarray) -> bool:
        """Whether an array still lacks its values."""
        number = id(find_owner(array))
        if number not in self.bound:
            return False
        numbers = [*map(id, self.owners)]
        if number not in numbers:  # an input that was copied
            return False
        computed = self.segment.memory[numbers.index(number)].computed  # None for constants
        return computed is not None and computed < self.pos

    # ------------------------------------------------------------------------------ results

    def produce(self, entry: Entry, bound: tuple) -> Any:
        """List an operator that matches the next entry. Return its result, without values."""
        new = self.make(entry)
        self.step()
        results = entry.results
        if results is None:  # one tensor on new memory
            tensor = _new(Tensor)
            tensor._array = new  # type: ignore[assignment]
            tensor._requires_grad = tensor._tracked = False
            tensor._node = tensor._grad = tensor._counter = tensor._base = None
            tensor._stamp = creation.stamp
            attach(entry.operator, tensor, bound)
            return tensor
        operator, source = entry.operator, None
        if operator.kind is Kind.VIEW:
            source = next((x for x in bound if isinstance(x, Tensor)), None)
        tensors = [None if v is None else self.tensor(v, part, source) for v, part in results]
        result: Any = tuple(tensors) if entry.returns_several else tensors[0]
        attach(operator, result, bound)
        return result if operator.result_type is None else operator.result_type(*result)

    def make(self, entry: Entry) -> np.ndarray | None:
        """Allocate the storages that begin at an entry. Return the last one's array."""
        owners, take = self.owners, self.segment.recycled.take
        owner: np.ndarray | None = None
        ready = self.segment.recycled.ready
        for s in entry.allocated:
            owner = None  # this reference would count as a holder
            if s in ready:
                owner = owners[s]
                continue
            owner = owners[s] = take(s)
            self.bound.add(id(owner))
        return owner

    def tensor(self, value: Value, part: bool, source: Tensor | None) -> Tensor:
        """Return a tensor on a window of its storage; a view of `source` if given."""
        owner = self.owners[value.storage]
        assert owner is not None
        array = owner
        if part:
            is_whole_owner = value.offset == 0 and value.shape == owner.shape \
                and value.strides == owner.strides and value.dtype == owner.dtype
            array = owner[...] if is_whole_owner else view_bytes(as_bytes(owner), value)
        if source is not None:
            return view_of(source, array)
        result = _new(Tensor)
        result._array = array
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        return result

    # --------------------------------------------------------------------------- comparison

    def matches(self, entry: Entry, bound: tuple) -> bool:
        """Whether an operator's operands are those that the entry expects."""
        operands = entry.operands
        if len(operands) != len(bound) or self.ambient != AMBIENT.changes:
            return False
        owners = self.owners
        for (s, expected), result in zip(operands, bound, strict=True):
            if s is None:
                if result is not expected and not self.same(expected, result):
                    return False
            elif not isinstance(result, Tensor) or (
                result._array is not owners[s] and not self.same(expected, result)
            ):
                return False
        return True

    def all_same(self, expected: Any, actual: Any) -> bool:
        """Whether all arguments equal the expected ones."""
        if len(expected) != len(actual):
            return False
        for a, b in zip(expected, actual, strict=True):  # noqa: SIM110 faster than `all`
            if not self.same(a, b):
                return False
        return True

    def same(self, a: Any, b: Any) -> bool:
        """Whether one argument equals the expected one."""
        kind = a.__class__
        if kind is Value:
            array = b._array if isinstance(b, Tensor) else b
            return array.__class__ is np.ndarray and self.matches_window(a, array)
        if a is b:
            return not isinstance(b, Tensor)
        if kind is tuple or kind is list:
            return b.__class__ in _SEQUENCES and self.all_same(a, b)
        if kind is not b.__class__:
            return False
        if kind is dict:
            return list(a) == list(b) and self.all_same(list(a.values()), list(b.values()))
        if isinstance(a, PLAIN):
            return are_same_plain(a, b)
        if isinstance(a, tuple):
            return self.all_same(a, b)
        if isinstance(a, np.ndarray):
            return are_same_bits(a, b)
        if kind is slice:
            return self.all_same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
        return are_same_setting(a, b)

    def matches_window(self, value: Value, array: np.ndarray) -> bool:
        """Whether an array is the expected window. Binds outside memory on its first use."""
        owner = self.owners[value.storage]
        if owner is None:
            return self._bind(value, array)
        if self.sources and value.storage in self.sources:
            source = self.sources[value.storage]
            return (find_owner(array) is source and self.has_layout(value, array)
                    and are_same_bits(source, owner))
        if owner is array or array.base is owner or find_owner(array) is owner:
            return self.has_layout(value, array)
        return False

    def has_layout(self, value: Value, array: np.ndarray) -> bool:
        """Whether an array of the right storage has the expected layout and offset."""
        if not _is_alike(value, array):
            return False
        start = self.addresses[value.storage]
        if start is None:
            owner = self.owners[value.storage]
            assert owner is not None
            if array is owner or (array.base is owner and array.shape == owner.shape
                                  and array.strides == owner.strides):
                return value.offset == 0
            start = self.addresses[value.storage] = data_address(owner)
        return data_address(array) - start == value.offset

    def begins(self, entry: Entry, value: Value, array: np.ndarray) -> bool:
        """Whether an array is the new memory that the entry expects. Binds it if so."""
        s = value.storage
        if s not in entry.allocated:
            return False
        owner, geometry = find_owner(array), self.segment.memory[s].whole
        if not _is_alike(geometry, owner) or id(owner) in self.bound:
            return False
        self.owners[s] = owner
        self.bound.add(id(owner))
        return self.has_layout(value, array)

    # -------------------------------------------------------------------- memory from outside

    def _bind(self, value: Value, array: np.ndarray) -> bool:
        """Bind an array to a storage from outside, at its first use. Return False if it does not
        fit."""
        s = value.storage
        memory = self.segment.memory[s]
        owner = array if array.base is None else find_owner(array)
        if memory.kind == INTERNAL or id(owner) in self.bound \
                or id(owner) in self.segment.stable_ids or not _is_alike(value, array):
            return False
        exposed = is_exposed(owner)
        if memory.written and (exposed or not array.flags.writeable):
            return False
        if array is owner and not value.offset and not exposed:
            self.inputs[s] = self.owners[s] = array
            self.bound.add(id(owner))
            return True
        start = data_address(array) - value.offset
        if not exposed:
            self.inputs[s], self.owners[s] = array, owner
        elif not self._copy(s, owner, array):
            return False
        self.bound.add(id(owner))
        self.addresses[s] = start
        if start != data_address(owner):
            self.shifts[s] = start - data_address(owner)
        return True

    def _copy(self, s: int, owner: np.ndarray, array: np.ndarray) -> bool:
        """Copy an input that Python may write unnoticed. Return False if its owner is far larger or
        not contiguous."""
        if not owner.flags.c_contiguous or owner.nbytes > _limit_copy(array.nbytes):
            return False
        copy = owner.copy()
        self.owners[s], self.sources[s], self.inputs[s] = copy, owner, copy
        if array is not owner:
            offset = data_address(array) - data_address(owner)
            place = Value(s, offset, array.shape, array.strides, array.dtype)
            self.inputs[s] = view_bytes(as_bytes(copy), place)
        return True


def _is_alike(value: Value, array: np.ndarray) -> bool:
    """Whether an array has a window's shape, strides and dtype."""
    return (array.shape == value.shape and array.strides == value.strides
            and (array.dtype is value.dtype or array.dtype == value.dtype))


def _limit_copy(nbytes: int) -> int:
    """The size of the largest owner that is copied for an input of some size."""
    return MAX_COPIED_OWNER_RATIO * nbytes + COPIED_OWNER_SLACK_BYTES
