"""Calls of an execution trace: what is noted of arguments and results, and the nodes in the file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..autograd.traces.argument_texts import number_of, type_of
from ..autograd.traces.inner_calls import ListedCall, list_calls
from ..autograd.traces.recorder import Recorder, RecordScope
from ..tensor.devices import device
from ..tensor.dtypes import dtype
from ..tensor.layout import get_strides, layout, memory_format
from ..tensor.tensor import Tensor

__all__ = ["TracedCalls", "list_nodes"]


class _TensorKey(NamedTuple):
    """What tells one tensor of a trace from another; numbers replace it in the file."""

    tensor: int
    storage: int
    offset: int
    numel: int
    itemsize: int
    device: str


class _Value(NamedTuple):
    """An argument or a result. Lists have a list in each field but `kind`."""

    value: Any
    shape: Any
    kind: str
    strides: Any


def _describe(value: Any, is_operator: bool) -> _Value:
    if isinstance(value, Tensor):
        return _describe_tensor(value)
    if isinstance(value, (list, tuple)):
        elements = [_describe(v, is_operator) for v in value]
        name = "Tuple" if isinstance(value, tuple) and not is_operator else "GenericList"
        return _Value([p.value for p in elements], [p.shape for p in elements],
                      f"{name}[{','.join(p.kind for p in elements)}]",
                      [p.strides for p in elements])
    return _Value(*_describe_plain(value), [])


def _describe_plain(value: Any) -> tuple[Any, list[Any], str]:
    """Return the value, no shape, and the type name of neither a tensor nor a list."""
    if value is None:
        return "<None>", [], "None"
    if isinstance(value, bool):
        return value, [], "Bool"
    if isinstance(value, int):
        return int(value), [], "Int"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value), [], "Double"
    if isinstance(value, str):
        return value, [], "String"
    if isinstance(value, device):
        return str(value), [], "Device"
    if isinstance(value, (dtype, layout, memory_format)):
        return number_of(value) if isinstance(value, dtype) else 0, [], "Int"
    class_name = type(value).__name__.capitalize()
    return f"<{class_name}>", [], class_name


def _describe_tensor(x: Tensor) -> _Value:
    array, type_name = x._array, f"Tensor({type_of(x.dtype)})"
    if not isinstance(array, np.ndarray):
        return _Value(_TensorKey(id(x), 0, 0, 0, 0, ""), list(x.shape), type_name, [])
    storage = x.untyped_storage()
    key = _TensorKey(id(x), storage.data_ptr(), x.storage_offset(), array.size, array.itemsize,
                     str(x.device))
    return _Value(key, list(array.shape), type_name, list(get_strides(array)))


class TracedCalls:
    """The calls that recorders have collected since they were attached."""

    def __init__(self) -> None:
        self.calls: list[ListedCall] = []
        self._attached: list[tuple[Recorder, int]] = []

    def attach(self, recorder: Recorder) -> None:
        """Take a recorder's calls from now on."""
        self._attached.append((recorder, len(recorder.events)))

    def detach(self) -> None:
        """Take the calls of the attached recorders; those that come later do not count."""
        for recorder, first in self._attached:
            self.calls += [
                call for call in list_calls(recorder) if call.position >= first
                and not call.event.name.startswith(("nn.Module: ", "kernel: "))]
        self._attached.clear()

    def describe(self, values: Iterable[Any], is_operator: bool = False) -> list[_Value]:
        """Return what the file says of arguments or results."""
        return [_describe(value, is_operator) for value in values]


class _Numbers:
    """Numbers of nodes, tensors and storages, in order of their first appearance."""

    def __init__(self) -> None:
        self.next = itertools.count(1)
        self._seen: dict[Any, int] = {}

    def value(self, described: Any) -> Any:
        """Return a value with numbers in place of tensors' keys."""
        if isinstance(described, _TensorKey):
            storage = self._number("storage", described.storage) if described.device else 0
            return [self._number("tensor", described.tensor), storage, *described[2:]]
        return [self.value(v) for v in described] if isinstance(described, list) else described

    def _number(self, kind: str, key: int) -> int:
        if (kind, key) not in self._seen:
            self._seen[kind, key] = next(self.next)
        return self._seen[kind, key]


def list_nodes(calls: list[ListedCall]) -> list[dict[str, Any]]:
    """Return the nodes: the process, its threads, and each call below the one around it."""
    numbers = _Numbers()
    process = next(numbers.next)
    nodes = [_node("[pytorch|profiler|execution_trace|process]", process, process, 0)]
    roots: dict[int, int] = {}
    open_calls: dict[int, list[tuple[int, int]]] = {}  # for each thread: ends and numbers
    for call in sorted(calls, key=lambda c: (c.event.begin_ns, -c.event.end_ns)):
        thread, end_ns = call.event.thread, call.event.end_ns
        if thread not in roots:
            node_id = roots[thread] = next(numbers.next)
            nodes.append(_node("[pytorch|profiler|execution_trace|thread]", node_id, process,
                               len(roots)))
        stack = open_calls.setdefault(thread, [])
        while stack and stack[-1][0] < end_ns:
            stack.pop()
        parent = stack[-1][1] if stack else roots[thread]
        node_id = next(numbers.next)
        stack.append((end_ns, node_id))
        nodes.append(_call_node(call, node_id, parent, list(roots).index(thread) + 1, numbers))
    return nodes


def _call_node(
    call: ListedCall, node_id: int, parent: int, thread: int, numbers: _Numbers
) -> dict[str, Any]:
    event = call.event
    inputs, outputs, schema = event.details.described or ((), (), "")
    is_backward = event.scope == RecordScope.BACKWARD_FUNCTION
    return _node(
        event.name, node_id, parent, thread, scope=event.scope, rf_id=call.number,
        seq_id=event.details.sequence, op_schema=schema, fw_parent=parent if is_backward else 0,
        fw_tid=thread if is_backward else 0, inputs=_list_values(inputs, numbers),
        outputs=_list_values(outputs, numbers))


def _list_values(values: Iterable[_Value] | None, numbers: _Numbers) -> dict[str, list[Any]]:
    values = list(values or ())
    return {"values": [numbers.value(v.value) for v in values],
            "shapes": [v.shape for v in values], "types": [v.kind for v in values],
            "strides": [v.strides for v in values]}


def _node(
    name: str, node_id: int, parent: int, thread: int, *, scope: int = RecordScope.USER_SCOPE,
    rf_id: int = 0, seq_id: int = -1, op_schema: str = "", fw_parent: int = 0, fw_tid: int = 0,
    inputs: Any = None, outputs: Any = None,
) -> dict[str, Any]:
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = (
        ("rf_id", "uint64", rf_id), ("fw_parent", "uint64", fw_parent),
        ("seq_id", "int64", seq_id), ("scope", "uint64", int(scope)), ("tid", "uint64", thread),
        ("fw_tid", "uint64", fw_tid), ("op_schema", "string", op_schema),
        ("kernel_backend", "string", ""), ("kernel_file", "string", ""),
        ("tensor_range", "string", ""))
    return {"id": node_id, "name": name, "ctrl_deps": parent, "inputs": inputs or nothing,
            "outputs": outputs or nothing,
            "attrs": [{"name": n, "type": t, "value": v} for n, t, v in attributes]}
