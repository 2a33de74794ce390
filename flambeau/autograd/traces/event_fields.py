"""The typed fields of events in a profile's tree, and the ids of tensors and storages in it.

Ids number storages and tensors in the order of the events: `allocation_id` is a storage's own, from
1; `id` is shared by all storages that one tensor has had, and by all tensors on one storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from types import CodeType
from typing import Any, NamedTuple

from ...tensor.devices import device
from .python_calls import PythonCall
from .recorder import Details, MemoryEvent
from .tensor_records import ModuleRecord, OptimizerRecord, TensorRecord


class _EventType(IntEnum):
    """The kinds of events, with PyTorch's numbers."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    PyCall = 5
    PyCCall = 6
    Kineto = 7


class StorageIdentities:
    """Ids of tensors and storages, assigned once all events are known."""

    def __init__(self) -> None:
        self._allocations: dict[int, int] = {}
        self._ids: dict[tuple[str, int], int] = {}
        self._parents: dict[tuple[str, int], tuple[str, int]] = {}

    def assign(self, noted: Iterable[Any], holders: Iterable[tuple[int, int]]) -> None:
        """Assign ids to the tensors and allocations of events, given in the events' order.

        `holders`: numbers of tensors and of the storages that they had as results.
        """
        noted = [item for item in noted if item.storage is not None]
        for tensor, storage in holders:
            self._join(("tensor", tensor), ("storage", storage))
        for item in noted:
            if isinstance(item, TensorRecord) and item.storage is not None:
                self._join(("tensor", item.number), ("storage", item.storage))
        for item in noted:
            self._allocations.setdefault(item.storage, len(self._allocations) + 1)
            self._ids.setdefault(self._find(("storage", item.storage)), len(self._ids))

    def _find(self, key: tuple[str, int]) -> tuple[str, int]:
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def _join(self, a: tuple[str, int], b: tuple[str, int]) -> None:
        self._parents[self._find(a)] = self._find(b)

    def get_allocation(self, storage: int | None) -> int | None:
        """Return the id of a storage."""
        return None if storage is None else self._allocations.get(storage)

    def get_id(self, storage: int | None) -> int | None:
        """Return the id that a storage shares with others of its tensors."""
        return None if storage is None else self._ids.get(self._find(("storage", storage)))


class _OnStorage:
    """What has ids: the record of something on a storage, which a tensor or an allocation is."""

    _record: TensorRecord | MemoryEvent
    _identities: StorageIdentities

    @property
    def id(self) -> int | None:
        """The id of the tensors on the storage: views and the tensors behind them share it."""
        return self._identities.get_id(self._record.storage)

    @property
    def allocation_id(self) -> int | None:
        """The id of the storage."""
        return self._identities.get_allocation(self._record.storage)


class _TensorMetadata(_OnStorage):
    """A tensor at the time of an event."""

    def __init__(self, record: TensorRecord, identities: StorageIdentities) -> None:
        self._record, self._identities = record, identities
        self.impl_ptr, self.storage_data_ptr = record.address, record.storage_address
        self.dtype, self.layout, self.device = record.dtype, record.layout, record.device
        self.sizes, self.strides = list(record.sizes), list(record.strides)
        self.dim = len(self.sizes)


class _Fields:
    """What all kinds of fields have."""

    tag: _EventType

    def list_identified(self) -> Iterator[Any]:
        """Yield the tensors and allocations that have ids."""
        return iter(())


class _ExtraFields_TorchOp(_Fields):
    """Fields of an operator, a node of the backward pass or a label.

    `inputs`: tensors, lists of tensors, and plain numbers, of a profile with shapes; `saved`: the
    tensors that a node of the backward pass has saved, whose readers need not be operators.
    """

    tag = _EventType.TorchOp

    def __init__(
        self, name: str, scope: int, shapes: Any, details: Details,
        identities: StorageIdentities | None = None,
    ) -> None:
        self.name, self.scope = name, scope
        self.sequence_number, self.shapes = details.sequence, shapes or []
        self.arguments, self.dtypes = details.arguments, details.dtypes
        self.is_async = self.allow_tf32_cublas = False
        self._values = (*details.saved, *details.values)
        self._identities = identities or StorageIdentities()
        self.inputs = [self._describe(value) for value in details.values]
        self.saved = [self._describe(value) for value in details.saved]

    def _describe(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._describe(v) for v in value]
        return _TensorMetadata(value, self._identities) if isinstance(value, TensorRecord) \
            else value

    def list_identified(self) -> Iterator[Any]:
        for value in self._values:
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, TensorRecord):
                    yield item


class _PyFrameState(NamedTuple):
    """The place of a Python function."""

    line_number: int
    file_name: str
    function_name: str


class _NNModuleInfo:
    """A module, with its own parameters and their gradients."""

    def __init__(self, record: ModuleRecord, identities: StorageIdentities) -> None:
        cls = type(record.module)
        self.self_ptr, self.cls_ptr, self.cls_name = id(record.module), id(cls), cls.__name__
        self.parameters = [
            (name, _TensorMetadata(p, identities), _describe_or_none(grad, identities))
            for name, p, grad in record.parameters]


class _OptimizerInfo:
    """An optimizer, with its parameters, their gradients and state."""

    def __init__(self, record: OptimizerRecord, identities: StorageIdentities) -> None:
        self.self_ptr = id(record.optimizer)
        self.parameters = [
            (_TensorMetadata(p, identities), _describe_or_none(grad, identities),
             [(name, _TensorMetadata(value, identities)) for name, value in state])
            for p, grad, state in record.parameters]


def _describe_or_none(
    record: TensorRecord | None, identities: StorageIdentities
) -> _TensorMetadata | None:
    return None if record is None else _TensorMetadata(record, identities)


class _ExtraFields_PyCall(_Fields):
    """Fields of a call of a Python function; `module` and `optimizer` describe the callee."""

    tag = _EventType.PyCall

    def __init__(self, place: _PyFrameState, caller: _PyFrameState) -> None:
        self.callsite, self.caller = place, caller
        self.line_number, self.file_name, self.function_name = place
        self.python_id = self.caller_id = 0
        self.module: _NNModuleInfo | None = None
        self.optimizer: _OptimizerInfo | None = None
        self._records: tuple[Any, ...] = ()

    def list_identified(self) -> Iterator[Any]:
        return iter(self._records)


class _ExtraFields_PyCCall(_Fields):
    """Fields of a call of a function that the interpreter or the library implements."""

    tag = _EventType.PyCCall

    def __init__(self, caller: _PyFrameState) -> None:
        self.caller = caller
        self.python_id = self.caller_id = 0


def describe_call(
    call: PythonCall, callers: dict[int, PythonCall]
) -> _ExtraFields_PyCall | _ExtraFields_PyCCall:
    """Return the fields of a recorded call; `callers` has the calls by number."""
    caller = callers.get(call.caller)
    while caller is not None and isinstance(caller.code, str):
        caller = callers.get(caller.caller)
    place = _locate(caller.code if caller else None)
    fields = _ExtraFields_PyCCall(place) if isinstance(call.code, str) else \
        _ExtraFields_PyCall(_locate(call.code), place)
    fields.python_id, fields.caller_id = call.number, 0 if caller is None else caller.number
    return fields


def _locate(code: CodeType | str | None) -> _PyFrameState:
    return _PyFrameState(code.co_firstlineno, code.co_filename, code.co_name) \
        if isinstance(code, CodeType) else _PyFrameState(0, "", "")


def describe_subject(record: Any, identities: StorageIdentities) -> _ExtraFields_PyCall:
    """Return the fields of a call of a module, or of an optimizer's step."""
    is_module = isinstance(record, ModuleRecord)
    subject = record.module if is_module else record.optimizer
    function = type(subject).forward if is_module else type(subject).step
    fields = _ExtraFields_PyCall(_locate(getattr(function, "__code__", None)), _locate(None))
    if is_module:
        fields.module = _NNModuleInfo(record, identities)
        fields._records = tuple(x for _, *pair in record.parameters for x in pair if x is not None)
    else:
        fields.optimizer = _OptimizerInfo(record, identities)
        fields._records = tuple(
            x for p, grad, state in record.parameters
            for x in (p, grad, *(value for _, value in state)) if x is not None)
    return fields


class _ExtraFields_Allocation(_OnStorage, _Fields):
    """Fields of an allocation or a free."""

    tag = _EventType.Allocation

    def __init__(
        self, event: MemoryEvent, identities: StorageIdentities | None = None
    ) -> None:
        self.ptr, self.alloc_size, self.total_allocated = event.address, event.nbytes, event.total
        self.device, self.total_reserved = device("cpu"), 0
        self._record, self._identities = event, identities or StorageIdentities()

    def list_identified(self) -> Iterator[Any]:
        yield self._record
