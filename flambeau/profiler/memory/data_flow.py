"""DataFlowGraph: which versions of tensors the events of a profile read, write, create and free.

Its nodes are outermost operators, nodes of the backward pass, steps of optimizers, and allocations
and frees outside of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...autograd.traces.event_fields import _EventType, _TensorMetadata
from ...autograd.traces.recorder import RecordScope
from .._utils import traverse_dfs
from .schema_matcher import SchemaMatcher
from .tensor_keys import TensorKey

__all__ = ["DataFlowEdge", "DataFlowGraph", "DataFlowNode", "OpTree", "SizeMap"]


class OpTree:
    """The tree of a profile's events."""

    def __init__(self, result: Any) -> None:
        self._roots = result.experimental_event_tree()

    def dfs(self) -> Iterator[Any]:
        """Yield the events in pre-order."""
        return traverse_dfs(self._roots)

    @property
    def sorted_nodes(self) -> tuple[Any, ...]:
        """The events by start."""
        return tuple(sorted(self.dfs(), key=lambda e: e.start_time_ns))


def _list_tensors(fields: Any) -> Iterator[tuple[_TensorMetadata, bool]]:
    """Yield the tensors of an operator's event, and whether it writes them."""
    yield from ((tensor, False) for tensor in fields.saved if isinstance(tensor, _TensorMetadata))
    for value, written in zip(fields.inputs, SchemaMatcher.inputs_are_mutable(fields), strict=True):
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, _TensorMetadata):
                yield item, bool(written)


class SizeMap:
    """The bytes of each tensor's storage, as far as events show them."""

    def __init__(self, op_tree: OpTree) -> None:
        self._bytes: dict[TensorKey, int] = {}
        allocated: dict[TensorKey, int] = {}
        for event in op_tree.dfs():
            fields = event.extra_fields
            if event.tag == _EventType.Allocation:
                if (key := TensorKey.from_allocation(fields)) is not None:
                    allocated[key] = abs(fields.alloc_size)
                continue
            for tensor in _list_all_tensors(event):
                if (key := TensorKey.from_tensor(tensor)) is not None:
                    self._bytes[key] = max(self._bytes.get(key, 0), _count_bytes(tensor))
        self._bytes.update(allocated)

    def __getitem__(self, key: TensorKey) -> int:
        return self._bytes.get(key, 0)

    def __iter__(self) -> Iterator[TensorKey]:
        """Yield the keys of all tensors that events mention."""
        return iter(self._bytes)


def _count_bytes(tensor: _TensorMetadata) -> int:
    """Return the bytes that a tensor reaches over in its storage."""
    if 0 in tensor.sizes:
        return 0
    last = sum((n - 1) * stride for n, stride in zip(tensor.sizes, tensor.strides, strict=False))
    return int((last + 1) * tensor.dtype.itemsize)


def _list_all_tensors(event: Any) -> Iterator[_TensorMetadata]:
    fields = event.extra_fields
    if event.tag == _EventType.TorchOp:
        yield from (tensor for tensor, _ in _list_tensors(fields))
    elif event.tag == _EventType.PyCall:
        if fields.module is not None:
            for _, *pair in fields.module.parameters:
                yield from filter(None, pair)
        if fields.optimizer is not None:
            for p, grad, state in fields.optimizer.parameters:
                yield from filter(None, (p, grad, *(value for _, value in state)))


@dataclass
class DataFlowEdge:
    """How a node uses a tensor; `input_version` is None for one that it allocates."""

    input_version: int | None = None
    mutated: bool = False
    is_allocation: bool = False
    is_deletion: bool = False


class DataFlowNode:
    """A node of the graph. Creating it advances the versions of the graph's tensors."""

    def __init__(self, event: Any, graph: DataFlowGraph) -> None:
        self._event, self._graph = event, graph
        self._edges = self._determine_edges()
        for key, edge in self._edges.items():
            if edge.mutated and not edge.is_allocation:
                graph.bump(key)
        for key, edge in self._edges.items():
            if edge.is_deletion:
                graph.delete(key)

    def _determine_edges(self) -> dict[TensorKey, DataFlowEdge]:
        edges: dict[TensorKey, DataFlowEdge] = {}
        is_operator = self._event.tag == _EventType.TorchOp \
            and self._event.extra_fields.scope == RecordScope.FUNCTION
        for event in traverse_dfs([self._event]):
            is_inner = is_operator and event is not self._event
            for key, written, bytes_added in self._list_uses(event):
                # What only inner operators read, and nothing has read before, is created within.
                is_new = is_inner and key not in edges and not self._graph.knows(key)
                edge = edges.setdefault(key, DataFlowEdge())
                edge.mutated |= written
                edge.is_allocation |= bytes_added > 0 or is_new
                edge.is_deletion |= bytes_added < 0
        for key, edge in edges.items():
            edge.input_version = None if edge.is_allocation else self._graph.lookup(key)
            if edge.is_allocation:
                self._graph.add(key)
        return dict(sorted(edges.items(), key=lambda edge: (edge[0].id, edge[0].storage)))

    @staticmethod
    def _list_uses(event: Any) -> Iterator[tuple[TensorKey, bool, int]]:
        """Yield (tensor, whether it is written, bytes allocated or freed)."""
        fields, uses = event.extra_fields, []
        if event.tag == _EventType.TorchOp:
            uses = [(TensorKey.from_tensor(t), written, 0) for t, written in _list_tensors(fields)]
        elif event.tag == _EventType.Allocation:
            uses = [(TensorKey.from_allocation(fields), False, fields.alloc_size)]
        elif event.tag == _EventType.PyCall and fields.optimizer is not None:
            for p, _, state in fields.optimizer.parameters:
                uses += [(TensorKey.from_tensor(x), True, 0)
                         for x in (p, *(value for _, value in state))]
        yield from ((key, written, count) for key, written, count in uses if key is not None)

    @property
    def inputs(self) -> dict[TensorKey, tuple[bool, int]]:
        """The tensors that were there before: whether they are written, and their versions."""
        return {key: (edge.mutated, edge.input_version) for key, edge in self._edges.items()
                if edge.input_version is not None}

    @property
    def outputs(self) -> dict[TensorKey, int]:
        """The tensors that are created or written and outlive the node, with their versions."""
        return {key: 0 if edge.input_version is None else edge.input_version + 1
                for key, edge in self._edges.items()
                if not edge.is_deletion and (edge.is_allocation or edge.mutated)}

    @property
    def intermediates(self) -> tuple[TensorKey, ...]:
        """The tensors that live only within the node."""
        return tuple(key for key, edge in self._edges.items()
                     if edge.is_allocation and edge.is_deletion)

    @property
    def start_time(self) -> int:
        """The event's start in nanoseconds."""
        return int(self._event.start_time_ns)


class DataFlowGraph:
    """The nodes by start, and the current version of each tensor; None once it is freed."""

    def __init__(self, op_tree: OpTree) -> None:
        self._op_tree = op_tree
        self._active_version: dict[TensorKey, int | None] = {}
        self._leaf_events = tuple(_extract_leaf_events(op_tree))
        self._flow_nodes = [DataFlowNode(event, self) for event in self._leaf_events]

    @property
    def flow_nodes(self) -> tuple[DataFlowNode, ...]:
        """The nodes by start."""
        return tuple(self._flow_nodes)

    @property
    def leaf_events(self) -> tuple[Any, ...]:
        """The events of the nodes."""
        return self._leaf_events

    def lookup(self, key: TensorKey) -> int:
        """Return a tensor's version; one that is seen for the first time was there before."""
        version = self._active_version.setdefault(key, 0)
        return 0 if version is None else version

    def knows(self, key: TensorKey) -> bool:
        """Return whether a node has used the tensor."""
        return key in self._active_version

    def add(self, key: TensorKey) -> None:
        """Note a new tensor."""
        self._active_version[key] = 0

    def bump(self, key: TensorKey) -> None:
        """Note a write to a tensor."""
        self._active_version[key] = self.lookup(key) + 1

    def delete(self, key: TensorKey) -> None:
        """Note that a tensor was freed."""
        self._active_version[key] = None


def _extract_leaf_events(op_tree: OpTree) -> list[Any]:
    """Return the outermost events that use tensors, by start."""
    leaves: list[Any] = []
    remaining = list(op_tree._roots)
    while remaining:
        event = remaining.pop()
        if _is_leaf(event):
            leaves.append(event)
        else:
            remaining.extend(event.children)
    return sorted(leaves, key=lambda e: e.start_time_ns)


def _is_leaf(event: Any) -> bool:
    if event.tag == _EventType.Allocation:
        return True
    if event.tag == _EventType.PyCall:
        return event.extra_fields.optimizer is not None
    if event.tag != _EventType.TorchOp:
        return False
    scope = event.extra_fields.scope
    return scope == RecordScope.BACKWARD_FUNCTION or (
        scope == RecordScope.FUNCTION and event.name.startswith("aten::"))
