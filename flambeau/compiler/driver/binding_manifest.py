"""Manifests: how a signature's program is bound to a call, as plain data, so that a matching call
can skip building the graph and its bindings.

A manifest records what the graph and bindings depend on besides the events, which are compared
anyway: the returned tensors, the gradients, and the memory of each argument.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Type
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.layout import find_owner
from ...tensor.storage import get_version
from ..capture.returned_tensors import ReturnedTensor
from ..functionalization.graph_inputs import (
    bind_arguments, get_array, list_draws, list_gradients_read_before, allocate_gradient,
    make_memory_getter,
)
from ..functionalization.index_checks import IndexBound, IndexCheck
from ..ir.graph import Graph, Node, Op, Source, SourceKind
from ..ir.serialization import serialize_graph, deserialize_graph
from ..trace import bindings as bind
from ..trace.trace import OPERATOR, UPDATE, Trace, Value

_PLAIN = (type(None), bool, int, float, str)
# Their sources are part of a signature's key.
_LIBRARY_MODULES = ("flambeau.ops.", "flambeau.optim.")
_KINDS = {str(item): item for item in FROM_NUMPY}


class _Inexpressible(Exception):
    """Raised if bindings contain something that a manifest cannot express."""


def write_manifest(
    trace: Trace, leaves: list[Any], graph: Graph, bindings: bind.Bindings
) -> list | None:
    """Return the manifest of a program, or None if it cannot be expressed.

    Call before the trace is stripped. Manifests consist of plain lists, numbers and text, because
    they are stored on disk.
    """
    if bindings.backward or bindings.calls or bindings.effects or bindings.callbacks:
        return None
    if not _is_library_code(trace):
        return None
    try:
        slots = [_write_slot(slot, trace) for slot in bindings.slots]
        words: list[list] = []
        form = _write_result(bindings.result, {}, words, trace)
        return [
            _write_circumstances(trace, leaves),
            [[s.kind.value, s.name, s.shape, s.type.value, s.strides] for s in graph.sources],
            slots, words, form, _write_gradients(trace, graph, bindings),
            [_write_check(check, bindings.slots) for check in bindings.checks],
            [[node.shape, node.type.value] for node in graph.outputs],
            [slot for slot, _ in graph.writes], bindings.has_conditions,
        ]
    except _Inexpressible:
        return None


def read_manifest(
    manifest: list, trace: Trace, leaves: list[Any]
) -> tuple[Graph, bind.Bindings] | None:
    """Return a program's boundary graph (inputs, outputs and writes only) and its bindings, or None
    if the manifest does not fit this call."""
    circumstances, sources, slots, words, form, gradients, checks, outputs, writes, \
        has_conditions = manifest
    try:
        if _write_circumstances(trace, leaves) != circumstances:
            return None
    except _Inexpressible:
        return None
    bindings = bind.Bindings(has_conditions=has_conditions)
    bind_arguments(trace, leaves, bindings)
    _bind_updates(trace, bindings)
    grad_arrays: dict[int, np.ndarray] = {}
    accesses = list(trace.grads.values())
    for access, slot in gradients:
        leaf, tensor = accesses[access].tensor, None
        if slot is not None:
            value = trace.value_of(leaf._grad._array)
            assert value is not None
            version = bindings.grad_versions[len(bindings.grads)] = get_version(leaf._grad)
            grad_arrays[slot], tensor = allocate_gradient(value, version)
        bindings.grads.append((leaf, tensor))
    bindings.incoming_grads = list_gradients_read_before(trace)
    drawn = list_draws(trace)
    for slot_number, record in enumerate(slots):
        grad = grad_arrays.get(slot_number)
        bindings.slots.append(_read_slot(record, trace, drawn) if grad is None
                              else bind.State(grad, is_grad=True))
    bindings.recorded = [None] * len(slots)
    bindings.result = _read_result(form, _read_new_tensors(words, trace))
    output_specs = [_create_placeholder(shape, kind) for shape, kind in outputs]
    input_sources = [
        Source(SourceKind(kind), tuple(shape), Type(type), make_memory_getter(slot), name,
               _tuple(strides))
        for (kind, name, shape, type, strides), slot in zip(sources, bindings.slots, strict=True)
    ]
    bindings.checks = [_read_check(check, bindings.slots, input_sources) for check in checks]
    edges = [(slot, _create_placeholder(sources[slot][2], sources[slot][3])) for slot in writes]
    return Graph(input_sources, [], output_specs, edges), bindings


def _is_library_code(trace: Trace) -> bool:
    """Whether all operators and optimizer formulas are defined in the library's own sources."""
    for event in trace.events:
        if event.kind == OPERATOR:
            place = getattr(event.operator.body, "__module__", "")
        elif event.kind == UPDATE:
            formula = type(event.kwargs["optimizer"])._flambeau_formula
            place = getattr(formula, "__module__", "")
        else:
            continue
        if not place.startswith(_LIBRARY_MODULES):
            return False
    return True


# ------------------------------------------------------------------------- circumstances


def _write_circumstances(trace: Trace, leaves: list[Any]) -> list:
    """Describe what a graph and its bindings depend on besides events and external memory."""
    result: list[Any] = []
    for leaf in leaves:
        array = get_array(leaf)
        result.append(None if array is None else trace.storage_numbers.get(id(find_owner(array))))
    bindings = bind.Bindings()
    bind_arguments(trace, leaves, bindings)
    return [
        result,
        [list(item) for item in bindings.overlapping_leaves],
        [list(item) for item in bindings.disjoint_leaves],
        [[i, j, list(kind)] for i, j, kind in bindings.aliasing],
        [
            str((storage.whole.shape, storage.whole.strides, storage.whole.dtype))
            for storage in trace.storages
        ],
        [_write_returned(entry, trace) for entry in trace.returned],
        _write_layout(trace.layout),
        [repr(value) for value in trace.plain],
        [
            [
                _write_window(g.tensor._array, trace),
                g.read,
                _write_grad(g.before, None, trace),
                _write_grad(g.tensor._grad, g.before, trace),
            ]
            for g in trace.grads.values()
        ],
    ]


def _write_returned(entry: ReturnedTensor, trace: Trace) -> list:
    """Describe a returned tensor in a form that is valid in other processes."""
    if entry.outside is not None:
        raise _Inexpressible(entry)
    return [entry.leaf, None if entry.window is None else _write_value(entry.window, trace),
            *entry[3:]]


def _write_layout(x: Any) -> Any:
    """Describe the structure of a result."""
    if isinstance(x, tuple):
        kind, keys, parts = x
        return [kind.__qualname__, repr(keys), [_write_layout(part) for part in parts]]
    return x if isinstance(x, (int, str)) else x.__qualname__


def _write_grad(x: Any, before: Any, trace: Trace) -> str:
    """Describe a leaf's grad: "none", "same" as before, or its flag and window."""
    if x is None or x is before:
        return "none" if x is None else "same"
    return f"{bool(x.requires_grad)} {_write_window(x._array, trace)}"


def _write_window(array: np.ndarray, trace: Trace) -> str:
    """Describe an array as a window on the trace's storages, or by layout if it is on none."""
    number = trace.storage_numbers.get(id(find_owner(array)))
    if number is None:
        return f"other {array.shape} {array.strides} {array.dtype}"
    value = trace.value_of(array)
    assert value is not None
    return _write_value(value, trace)


def _write_value(value: Value, trace: Trace) -> str:
    offset = value.offset - trace.storages[value.storage].argument_offset
    return f"{value.storage}+{offset} {value.shape} {value.strides} {value.dtype}"


# --------------------------------------------------------------------------------- parts


def _write_slot(slot: Any, trace: Trace) -> list:
    """Serialize a slot."""
    if isinstance(slot, bind.Argument):
        return ["argument", *_write_argument(slot)]
    if isinstance(slot, bind.Scalar):
        return ["scalar", slot.update, slot.place]
    if isinstance(slot, bind.RandomInput):
        return ["drawn"]
    if not isinstance(slot, bind.State):
        raise _Inexpressible(slot)
    if slot.is_grad:
        return ["grad"]
    return _write_state(slot, trace)


def _write_state(slot: bind.State, trace: Trace) -> list:
    owner = find_owner(slot.array)
    number = trace.storage_numbers.get(id(owner))
    if number is None or trace.storages[number].owner is not owner:
        raise _Inexpressible(slot)
    value = trace.value_of(slot.array)
    assert value is not None
    return ["state", number, value.offset, value.shape, value.strides, str(value.dtype)]


def _read_slot(record: list, trace: Trace, drawn: Iterator[bind.RandomInput]) -> Any:
    """Deserialize a slot."""
    kind, *rest = record
    if kind == "argument":
        return _read_argument(*rest)
    if kind == "scalar":
        return bind.Scalar(*rest)
    if kind == "drawn":
        return next(drawn)
    return _read_state(rest, trace)


def _read_state(record: list, trace: Trace) -> bind.State:
    number, offset, shape, strides, dtype = record
    value = Value(number, offset, tuple(shape), tuple(strides), _parse_dtype(dtype))
    return bind.State(bind.view_storage(trace.storages[number], value))


def _write_argument(slot: bind.Argument) -> list:
    return [slot.leaf, slot.offset, slot.shape, slot.strides, str(slot.dtype), slot.order]


def _read_argument(
    leaf: int, offset: int, shape: list, strides: list, dtype: str, order: list | None
) -> bind.Argument:
    return bind.Argument(
        leaf, offset, tuple(shape), tuple(strides), _parse_dtype(dtype), _tuple(order)
    )


def _bind_updates(trace: Trace, bindings: bind.Bindings) -> None:
    for event in trace.events:
        if event.kind == UPDATE:
            bindings.updates.append(bind.Update(**event.kwargs, event=event))


def _write_result(x: Any, positions: dict[int, int], tensors: list[list], trace: Trace) -> list:
    """Serialize a result. Appends new tensors to `tensors`, and their indices to `positions`."""
    if isinstance(x, bind.NewTensor):
        if id(x) not in positions:
            entry = _write_new_tensor(x, positions, tensors, trace)
            positions[id(x)] = len(tensors)
            tensors.append(entry)
        return ["new", positions[id(x)]]
    if isinstance(x, bind.ReturnedArgument):
        return ["leaf", x.number]
    if isinstance(x, bind.ReturnedConstant) and x.value.__class__ in _PLAIN:
        return ["same", x.value]
    if x.__class__ in (tuple, list):
        parts = [_write_result(part, positions, tensors, trace) for part in x]
        return [x.__class__.__name__, *parts]
    if x.__class__ is dict and all(key.__class__ is str for key in x):
        pairs = [[key, _write_result(part, positions, tensors, trace)] for key, part in x.items()]
        return ["dict", *pairs]
    raise _Inexpressible(x)


def _write_new_tensor(x: bind.NewTensor, positions: dict[int, int], tensors: list[list],
                      trace: Trace) -> list:
    source = None if x.source is None else _write_result(x.source, positions, tensors, trace)
    if x.live is not None:
        raise _Inexpressible(x)
    memory: list = []
    if isinstance(x.memory, bind.Argument):
        memory = ["argument", *_write_argument(x.memory)]
    elif isinstance(x.memory, bind.State):
        memory = _write_state(x.memory, trace)
    else:
        window = x.memory.window
        part = None if window is None else [window[0], window[1], str(window[2])]
        memory = ["output", x.memory.number, x.memory.shape, x.memory.order, part]
    return [memory, source, x.is_view, x.is_whole, x.version, x.requires_grad, x.is_leaf,
            x.node_name, x.is_inference]


def _read_result(record: list, tensors: list[bind.NewTensor]) -> Any:
    """Deserialize a result's structure."""
    kind, *rest = record
    if kind == "new":
        return tensors[rest[0]]
    if kind in ("leaf", "same"):
        return bind.ReturnedArgument(*rest) if kind == "leaf" else bind.ReturnedConstant(*rest)
    if kind == "dict":
        return {key: _read_result(part, tensors) for key, part in rest}
    parts = [_read_result(part, tensors) for part in rest]
    return tuple(parts) if kind == "tuple" else parts


def _read_new_tensors(records: list[list], trace: Trace) -> list[bind.NewTensor]:
    """Deserialize the new tensors of a result."""
    tensors: list[bind.NewTensor] = []
    for (kind, *rest), source, *flags in records:
        memory: Any
        if kind == "argument":
            memory = _read_argument(*rest)
        elif kind == "state":
            memory = _read_state(rest, trace)
        else:
            number, shape, order, part = rest
            window = None if part is None else (part[0], tuple(part[1]), _parse_dtype(part[2]))
            memory = bind.Output(number, tuple(shape), tuple(order), window)
        shared = None if source is None else _read_result(source, tensors)
        tensors.append(bind.NewTensor(memory, shared, *flags))
    return tensors


def _write_gradients(trace: Trace, graph: Graph, bindings: bind.Bindings) -> list:
    """Serialize which grad accesses set a grad, and the slots of their memory."""
    numbers = {id(item.tensor): i for i, item in enumerate(trace.grads.values())}
    slots = {id(slot.array): i for i, slot in enumerate(bindings.slots)
             if isinstance(slot, bind.State) and slot.is_grad}
    return [[numbers[id(leaf)], None if grad is None else slots[id(find_owner(grad._array))]]
            for leaf, grad in bindings.grads]


def _write_check(check: IndexCheck, slots: list[Any]) -> list:
    """Serialize a check of the values of an argument or of a small graph."""
    node, graph = check.bound.node, ""
    if check.graph is not None:
        graph = base64.b64encode(serialize_graph(check.graph)).decode()
    if check.leaf is None and not graph:
        raise _Inexpressible(check)
    numbers = {id(slot): i for i, slot in enumerate(slots)}
    return [
        node.shape,
        node.type.value,
        check.bound.size,
        check.bound.ignored,
        check.bound.wraps,
        check.leaf,
        graph,
        [numbers[id(slot)] for slot in check.slots],
    ]


def _read_check(record: list, slots: list[Any], sources: list[Source]) -> IndexCheck:
    """Deserialize a check."""
    shape, kind, size, ignored, wraps, leaf, graph_text, slot_numbers = record
    bound = IndexBound(_create_placeholder(shape, kind), size, ignored, wraps)
    if leaf is not None:
        return IndexCheck(bound, leaf)
    graph = deserialize_graph(base64.b64decode(graph_text), [sources[i] for i in slot_numbers])
    return IndexCheck(bound, None, graph, tuple([slots[i] for i in slot_numbers]))


def _create_placeholder(shape: Any, kind: str) -> Node:
    """Return a node with a shape and type but no inputs."""
    return Node(Op.INPUT, (), tuple(shape), Type(kind))


def _parse_dtype(name: str) -> np.dtype:
    return _KINDS.get(name) or np.dtype(name)


def _tuple(x: Any) -> tuple | None:
    return None if x is None else tuple(x)
