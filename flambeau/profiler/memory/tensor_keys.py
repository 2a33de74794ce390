"""TensorKey: which tensor an event of a profile is about; parameters and gradients of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...autograd.traces.event_fields import _EventType, _TensorMetadata
from ...autograd.traces.recorder import RecordScope
from ...tensor.devices import device as Device

__all__ = ["TensorKey", "extract_gradients", "extract_parameters", "get_scopes"]


# What AccumulateGrad calls with the gradient as its first argument.
_ACCUMULATIONS = ("aten::detach", "aten::add_", "aten::copy_")


class _Storage(NamedTuple):
    """A storage: its address and its id."""

    ptr: int
    allocation_id: int


class TensorKey(NamedTuple):
    """A tensor's id and storage; views have the key of the tensor behind them."""

    id: int
    storage: _Storage
    device: Device

    def __repr__(self) -> str:
        return f"id={self.id}: {self.storage.ptr:#x} ({self.storage.allocation_id})"

    @classmethod
    def from_tensor(cls, tensor: _TensorMetadata | None) -> TensorKey | None:
        """Return the key of a tensor, or None if it has no memory of its own."""
        if tensor is None:
            return None
        return cls._create(tensor.id, tensor.storage_data_ptr, tensor.allocation_id, tensor.device)

    @classmethod
    def from_allocation(cls, fields: Any) -> TensorKey | None:
        """Return the key of the tensor that an allocation or a free is for."""
        return cls._create(fields.id, fields.ptr, fields.allocation_id, fields.device)

    @classmethod
    def _create(
        cls, id: int | None, address: int | None, allocation: int | None, on: Device
    ) -> TensorKey | None:
        if id is None or address is None or allocation is None:
            return None
        return cls(id, _Storage(address, allocation), on)


def get_scopes(event: Any) -> tuple[RecordScope, ...]:
    """Return the scopes of an event and of those around it, innermost first."""
    scopes = []
    while event is not None:
        if event.tag == _EventType.TorchOp:
            scopes.append(RecordScope(event.extra_fields.scope))
        event = event.parent
    return tuple(scopes)


def _iterate_parameters(event: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parameters that an event mentions, and their gradients."""
    if event.tag == _EventType.TorchOp:
        if event.name == "torch::autograd::AccumulateGrad":
            yield from ((None, call.extra_fields.inputs[0]) for call in event.children
                        if call.name in _ACCUMULATIONS and call.extra_fields.inputs)
    elif event.tag == _EventType.PyCall:
        if event.extra_fields.module is not None:
            yield from ((p, grad) for _, p, grad in event.extra_fields.module.parameters)
        if event.extra_fields.optimizer is not None:
            yield from ((p, grad) for p, grad, _ in event.extra_fields.optimizer.parameters)


def extract_parameters(event: Any) -> Iterator[TensorKey]:
    """Yield the keys of the parameters that a module's or an optimizer's call mentions."""
    for parameter, _ in _iterate_parameters(event):
        if (key := TensorKey.from_tensor(parameter)) is not None:
            yield key


def extract_gradients(event: Any) -> Iterator[tuple[TensorKey | None, TensorKey]]:
    """Yield the keys of gradients that an event mentions, each after its parameter's or None."""
    for parameter, grad in _iterate_parameters(event):
        if (key := TensorKey.from_tensor(grad)) is not None:
            yield TensorKey.from_tensor(parameter), key
