"""MemoryProfile: the categories of a profile's tensors, and the timeline of their memory.

Modules and optimizers show parameters, gradients and state; AccumulateGrad shows gradients; the
rest follows from the flow of data.
"""

from __future__ import annotations

import enum
from typing import Any

from ...autograd.traces.event_fields import _EventType
from ...autograd.traces.recorder import RecordScope
from .categories import Category, CategoryDict
from .data_flow import DataFlowGraph, DataFlowNode, OpTree, SizeMap
from .tensor_keys import TensorKey, extract_gradients, extract_parameters, get_scopes

__all__ = ["Action", "MemoryProfile", "TensorAndID"]

TensorAndID = tuple[TensorKey, int]  # a tensor and its version


class Action(enum.Enum):
    """What happens to a tensor's memory, with PyTorch's numbers."""

    PREEXISTING, CREATE, INCREMENT_VERSION, DESTROY = range(1, 5)


def _is_backward(node: DataFlowNode) -> bool:
    return RecordScope.BACKWARD_FUNCTION in get_scopes(node._event)


def _list_versions(node: DataFlowNode) -> list[TensorAndID]:
    """Return the versions of tensors that a node reads."""
    return [(key, version) for key, (_, version) in node.inputs.items()]


class MemoryProfile:
    """What `profile._memory_profile()` returns."""

    def __init__(self, result: Any) -> None:
        self._op_tree = OpTree(result)
        self._data_flow_graph = DataFlowGraph(self._op_tree)
        self._size_map = SizeMap(self._op_tree)
        self._categories = CategoryDict()
        self._set_gradients_and_temporaries()
        self._set_parameters_using_python_tracer()
        self._leading_to_gradients = self._find_versions_leading_to_gradients()
        self._set_parameters_using_data_flow()
        self._set_inputs()
        self._set_activations()
        self._set_optimizer_state()
        self._set_autograd_detail()

    def _list_categories(self, versions: list[TensorAndID]) -> list[Category | None]:
        return [self._categories.get(*version) for version in versions]

    def _set_gradients_and_temporaries(self) -> None:
        for event in self._op_tree.dfs():
            for _, gradient in extract_gradients(event):
                self._categories.set_by_id(gradient, Category.GRADIENT)
        for node in self._data_flow_graph.flow_nodes:
            for key in node.intermediates:
                self._categories.setdefault_by_id(key, Category.TEMPORARY)

    def _set_parameters_using_python_tracer(self) -> None:
        for event in self._op_tree.dfs():
            for parameter in extract_parameters(event):
                self._categories.set_by_id(parameter, Category.PARAMETER)

    def _find_versions_leading_to_gradients(self) -> set[TensorAndID]:
        """Return what gradients or uses of parameters depend on, and what these use beside it."""
        leading: set[TensorAndID] = set()
        for node in reversed(self._data_flow_graph.flow_nodes):
            versions = [*_list_versions(node), *node.outputs.items()]
            categories = self._list_categories(versions)
            if Category.GRADIENT in categories or Category.PARAMETER in categories \
                    or not leading.isdisjoint(versions):
                leading.update(versions)
        return leading

    def _set_parameters_using_data_flow(self) -> None:
        """A parameter is used on the way to a gradient, and changed by a gradient afterwards."""
        used: set[TensorKey] = set()
        for node in self._data_flow_graph.flow_nodes:
            if _is_backward(node):
                continue
            versions = _list_versions(node)
            if Category.GRADIENT in self._list_categories(versions):
                written = (key for key, (is_written, _) in node.inputs.items() if is_written)
                for key in used.intersection(written):
                    self._categories.setdefault_by_id(key, Category.PARAMETER)
            else:
                used.update(key for key, version in versions
                            if (key, version) in self._leading_to_gradients)

    def _find_ids_depending_on_parameters(self) -> set[int]:
        """Return the ids of tensors computed from parameters or gradients."""
        ids: set[int] = set()
        count = -1
        while len(ids) > count:
            count = len(ids)
            for node in self._data_flow_graph.flow_nodes:
                versions = _list_versions(node)
                categories = self._list_categories(versions)
                if Category.PARAMETER in categories or Category.GRADIENT in categories \
                        or any(key.id in ids for key, _ in versions):
                    ids.update(key.id for key in node.outputs)
        return ids

    def _set_inputs(self) -> None:
        """An input leads to gradients and depends on no parameter."""
        candidates = set(self._leading_to_gradients)
        for node in self._data_flow_graph.flow_nodes:
            if _is_backward(node):
                candidates.difference_update(node.outputs.items())
        dependent = self._find_ids_depending_on_parameters()
        for key, version in candidates:
            if key.id not in dependent:
                self._categories.setdefault_by_version(key, version, Category.INPUT)

    def _set_activations(self) -> None:
        """An activation is computed from inputs or activations, and from nothing but these,
        parameters and temporaries."""
        needed = {Category.INPUT, Category.ACTIVATION}
        allowed = needed | {Category.PARAMETER, Category.TEMPORARY}
        for node in self._data_flow_graph.flow_nodes:
            categories = set(self._list_categories(_list_versions(node)))
            if categories & needed and categories <= allowed and not _is_backward(node):
                for key, version in node.outputs.items():
                    self._categories.setdefault_by_version(key, version, Category.ACTIVATION)

    def _set_optimizer_state(self) -> None:
        for event in self._op_tree.dfs():
            if event.tag != _EventType.PyCall or event.extra_fields.optimizer is None:
                continue
            for _, _, state in event.extra_fields.optimizer.parameters:
                for key in filter(None, (TensorKey.from_tensor(value) for _, value in state)):
                    self._categories.setdefault_by_id(key, Category.OPTIMIZER_STATE)

    def _set_autograd_detail(self) -> None:
        for node in filter(_is_backward, self._data_flow_graph.flow_nodes):
            for key, version in node.outputs.items():
                self._categories.setdefault_by_version(key, version, Category.AUTOGRAD_DETAIL)

    def _category_snapshot(self) -> dict[TensorAndID, Category | None]:
        """Return the categories of all versions of all tensors."""
        versions = dict.fromkeys((key, 0) for key in self._size_map)
        for node in self._data_flow_graph.flow_nodes:
            versions.update(dict.fromkeys(_list_versions(node)))
            versions.update(dict.fromkeys((key, 0) for key in node.intermediates))
            versions.update(dict.fromkeys(node.outputs.items()))
        return {version: self._categories.get(*version) for version in versions}

    @property
    def timeline(self) -> tuple[tuple[int, Action, TensorAndID, int], ...]:
        """(time, action, (tensor, version), bytes) by time; -1 is before the profile."""
        times: dict[tuple[TensorKey, bool], int] = {}
        for event in self._op_tree.dfs():
            if event.tag == _EventType.Allocation:
                key = TensorKey.from_allocation(event.extra_fields)
                if key is not None:
                    times[key, event.extra_fields.alloc_size > 0] = event.start_time_ns
        entries = [(-1, Action.PREEXISTING, (key, 0)) for key in self._size_map
                   if (key, True) not in times]
        entries += [(time, Action.CREATE, (key, 0)) for (key, is_new), time in times.items()
                    if is_new]
        last: dict[TensorKey, int] = {}
        for node in self._data_flow_graph.flow_nodes:
            for key, (is_written, version) in node.inputs.items():
                if is_written:
                    entries.append((node.start_time, Action.INCREMENT_VERSION, (key, version)))
                    last[key] = version + 1
        entries += [(time, Action.DESTROY, (key, last.get(key, 0)))
                    for (key, is_new), time in times.items() if not is_new]
        entries.sort(key=lambda entry: entry[0])
        return tuple((time, action, version, self._size_map[version[0]])
                     for time, action, version in entries)
