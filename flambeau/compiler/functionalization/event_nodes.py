"""Event nodes: build graph nodes for each kind of recorded event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.views import WindowMap
from ...ops.core.operator import Operator
from ..ir.axis_order import invert_permutation, order_axes
from ..ir.graph import Node, Op, SourceKind, permute, reshape
from ..ir.graph import strided_slice as part_of
from ..lowering import NotLowered, lower, writes
from ..lowering.numpy.node_builders import broadcast_to, literal, number, type_of
from ..lowering.numpy.symbolic_array import convert_to_node, wrap_node
from ..lowering.operators.optimizer_update import copy_update, trace_update
from ..lowering.registry import Untraceable, collect_required
from ..trace import bindings as bind
from ..trace.counter_rng import CounterDraw
from ..trace.number_inputs import NumberInput
from ..trace.trace import (
    CALL, CHECK, CONSTANT, DRAW, EMPTY, EXCHANGE, OPERATOR, UPDATE, WINDOW, WRITE, Event, Value,
    collect_values, map_values,
)
from .complex_operators import Parts, join_pairs, lower_on_parts, split_pairs
from .complex_pairs import as_pairs, convert, is_complex, permute_window, view_as_pairs_window
from .eager_function import EagerFunction
from .exchange_nodes import add_exchange
from .graph_inputs import make_draw, make_key_draw
from .index_checks import label_bound
from .memory_regions import partition

if TYPE_CHECKING:
    from .functionalize import Functionalization


def add_constant(graph: Functionalization, event: Event) -> None:
    """Add a constant created without inputs."""
    assert event.array is not None
    graph.write(event.results[0], literal(as_pairs(event.array)))


def add_copy(graph: Functionalization, event: Event) -> None:
    """Add a write of a value over a window."""
    target, source = event.args[:2]
    graph.write(target, convert(graph.read(source), source, target))


def add_draw(graph: Functionalization, event: Event) -> None:
    """Add random numbers, drawn before each call."""
    window = event.args[0]
    order = order_axes(window.strides)
    if isinstance(event.function, CounterDraw):
        shape = tuple(window.shape[i] for i in order)
        new = event.function.build_node(shape, window.dtype, _require_counted_key(graph, event))
        graph.write(window, permute(new, invert_permutation(order)))
        return
    slot = make_draw(event)
    result = None
    if event.array is not None:
        result = as_pairs(np.ascontiguousarray(event.array.transpose(order)))
    node = graph.source(SourceKind.DRAWN, slot.view.shape, slot.view.dtype, slot, event.name,
                        result)
    graph.write(window, permute_window(node, invert_permutation(order)))


def _require_counted_key(graph: Functionalization, event: Event) -> Node:
    """Return the key of a run's counter-based draws; created at the generator's first draw."""
    generator = event.args[2]
    if generator not in graph.keys:
        assert event.array is not None
        slot = make_key_draw(generator)
        node = graph.source(SourceKind.DRAWN, (1,), slot.view.dtype, slot, "key", event.array)
        graph.keys[generator] = reshape(node, ())
    return graph.keys[generator]


def add_update(graph: Functionalization, event: Event) -> None:
    """Add an optimizer's formula for each of its parameters."""
    graph.has_kernels = True
    call = event.kwargs
    assert event.array is not None
    number = len(graph.bindings.updates)
    graph.bindings.updates.append(bind.Update(
        call["optimizer"], call["group"], call["positions"], call["names"],
        call["flags"], event,
    ))
    optimizer = call["optimizer"]
    fields = type(optimizer)._flambeau_scalars._fields
    numbers = [
        graph.source(SourceKind.NUMBER, (), np.dtype(np.float64), bind.Scalar(number, i), name,
                     float(event.array[i]))
        for i, name in enumerate(fields)
    ]
    known: dict[tuple, tuple[list[Node], list[Node]]] = {}
    for param, grad, states in event.args:
        windows = (param, grad, *states)
        before = [graph.read(w) for w in windows]
        kinds = tuple((item.op, item.shape, item.type) for item in before)
        after = copy_update(*known[kinds], before, numbers) if kinds in known else None
        if after is None:
            kind = type(optimizer)
            after = trace_update(
                kind._flambeau_formula, call["flags"], kind._flambeau_scalars, numbers, before)
            known[kinds] = after, before
        for window, old, new in zip(windows, before, after, strict=True):
            if new is not old:
                graph.write(window, _set_origin(new, event))


def add_operator(graph: Functionalization, event: Event) -> None:
    """Add an operator by its lowering, or as an eager call if it has none."""
    operator = event.operator
    bound = label_bound(event, graph.read)
    if bound is not None:
        graph.labels.append(bound)
    changed = writes(operator)
    targets = [event.args[i] for i in changed]
    if any(map(is_complex, collect_values((event.args, event.kwargs, event.results)))):
        _write_results(graph, event, _add_complex_operator(graph, event, targets), targets)
        return
    graph.has_kernels = True
    args = _read_numbers(graph, event, map_values(event.args, graph.read))
    try:
        with collect_required() as required:
            result: Any = lower(operator, args, {})
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != len(event.results) + len(targets):
            raise NotLowered(operator, "lowered to a different number of results")
        for value, node in zip((*event.results, *targets), result, strict=True):
            _check(operator, value, node)
        graph.require(required)
    except NotLowered as error:
        graph.bindings.calls.append(f"{error} ({event.line})")
        result = _call_eagerly(graph, event, targets)
    nodes = [None if node is None else _set_origin(node, event) for node in result]
    _write_results(graph, event, nodes, targets)


def _read_numbers(graph: Functionalization, event: Event, args: tuple) -> tuple:
    """Replace numbers that each call computes anew by inputs of the tensors' dtype."""
    if not any(x.__class__ is NumberInput for x in args):
        return args
    dtype = next(x.dtype for x in event.args if x.__class__ is Value)
    return tuple([graph.read_number(x, dtype) if x.__class__ is NumberInput else x for x in args])


def _add_complex_operator(
    graph: Functionalization, event: Event, targets: list[Value]
) -> tuple[Node | None, ...]:
    """Return the results of an operator on complex numbers, computed on their parts if possible."""
    operator = event.operator
    try:
        if targets or len(event.results) != 1:
            raise NotLowered(operator, "writes complex numbers or has several results")
        args = map_values(event.args, lambda value: split_pairs(graph.read(value))
                          if is_complex(value) else graph.read(value))
        with collect_required() as required:
            result = lower_on_parts(operator, args)
        node = join_pairs(result, view_as_pairs_window(event.results[0])) \
            if isinstance(result, Parts) else result
        _check(operator, view_as_pairs_window(event.results[0]), node)
        graph.require(required)
    except NotLowered as error:
        graph.calls_complex = True
        graph.bindings.calls.append(f"{error} ({event.line})")
        return _call_eagerly(graph, event, targets)
    graph.has_kernels = True
    return (_set_origin(node, event),)


def _call_eagerly(
    graph: Functionalization, event: Event, targets: list[Value]
) -> tuple[Node | None, ...]:
    if any(x.__class__ is NumberInput for x in event.args):
        raise Untraceable(f"{event.name} is called eagerly with a number that varies")
    function = event.operator.function if event.operator is not None else event.function
    tensors = collect_values((event.args, event.kwargs))
    results = [v for v in event.results if v is not None]
    call = EagerFunction(function, event, targets)
    group = object()
    inputs = tuple(graph.read(v) for v in tensors)
    windows = [view_as_pairs_window(v) for v in (*results, *(t for t in targets if t is not None))]
    nodes = [
        Node(Op.CALL, inputs, v.shape, type_of(v.dtype),
             {"function": call, "output": i, "group": group}, origin=event.origin)
        for i, v in enumerate(windows)
    ]
    graph.eager_calls += nodes[:1]
    unplaced = iter(nodes)
    outputs = (*event.results, *targets)
    return tuple(next(unplaced) if v is not None else None for v in outputs)


def add_call(graph: Functionalization, event: Event) -> None:
    """Add an eager call of a function that is not an operator."""
    graph.bindings.calls.append(f"{event.name} ({event.line})")
    targets = list(event.written)
    _write_results(graph, event, _call_eagerly(graph, event, targets), targets)


def _write_results(graph: Functionalization, event: Event, nodes: Sequence[Node | None],
                   targets: list[Value]) -> None:
    """Write results and in-place changes. NumPy may have broadcast a result, so that several
    elements share memory: write those once."""
    for i, (value, node) in enumerate(zip((*event.results, *targets), nodes, strict=True)):
        if value is None or node is None:
            continue
        value = view_as_pairs_window(value)
        if i < len(event.results) and value.shape == node.shape:
            shape = tuple(n and 1 if s == 0 else n
                          for n, s in zip(value.shape, value.strides, strict=True))
            zeros, ones = (0,) * len(shape), (1,) * len(shape)
            node, value = part_of(node, zeros, ones, shape), replace(value, shape=shape)
        graph.write(value, node)


def add_check(graph: Functionalization, event: Event) -> None:
    """Add a condition on values; the call raises if it does not hold."""
    if is_complex(event.args[0]):
        raise Untraceable("complex numbers are checked")
    graph.conditions.append(convert_to_node(event.function(wrap_node(graph.read(event.args[0])))))


def add_window_map(graph: Functionalization, event: Event) -> None:
    """Add autograd's maps between a base's cotangent and a window's."""
    g, (base_dtype, base_shape, base_strides, bits, dtype, offset, shape, strides) = event.args
    if bits:  # of a lazy conjugate
        add_call(graph, event)
        return
    base = view_as_pairs_window(Value(0, 0, base_shape, base_strides, base_dtype))
    inner = view_as_pairs_window(Value(0, offset, shape, strides, dtype))
    region = partition([base, inner])[0]
    kind = event.function._flambeau_window_map
    try:
        region.write(inner if kind is WindowMap.SPREAD else base, graph.read(g))
        if kind is WindowMap.CLEAR:
            region.write(inner, broadcast_to(number(0, type_of(inner.dtype)), inner.shape))
        result = region.read(inner if kind is WindowMap.READ else base)
    except Untraceable:
        add_call(graph, event)
        return
    graph.write(event.results[0], result)


def _set_origin(node: Node, event: Event) -> Node:
    """Set the origin of a node, of the nodes that its operator created for it, and of views that
    no operator has read before.
    """
    node.origin = event.origin
    name = getattr(event.operator, "name", None)
    stack = [node]
    while stack:
        for operand in stack.pop().inputs:
            if operand.origin == name or not operand.origin and operand.op is not Op.INPUT:
                operand.origin = event.origin
                stack.append(operand)
    return node


def _check(operator: Operator, value: Value | None, node: Node | None) -> None:
    if value is None or node is None:
        return
    if tuple(node.shape) != value.shape or node.type is not type_of(value.dtype):
        raise NotLowered(operator, f"lowered to {node.type.value}{list(node.shape)} where it "
                         f"gives {value.dtype}{list(value.shape)}")


HANDLERS: dict[str, Callable[[Functionalization, Event], None]] = {
    CONSTANT: add_constant, EMPTY: lambda graph, event: None, WRITE: add_copy, DRAW: add_draw,
    UPDATE: add_update, OPERATOR: add_operator, CALL: add_call, EXCHANGE: add_exchange,
    WINDOW: add_window_map, CHECK: add_check,
}
