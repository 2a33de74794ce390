"""Functional: a trace becomes a graph. Memory becomes values, with writes back at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ops.core.registry import Operator
from ...tensor.storage import _as_bytes, owner_of
from ...tensor.tensor import Tensor, wrap
from ..trace import bindings as bind
from .index_checks import IndexBound, check_indices, label_bound
from ..trace.counter_rng import CounterDraw
from ..lowering.operators.optimizer_update import copy_update, trace_update
from .exchange_nodes import add_exchange
from ..ir.axis_order import inverse_permutation, memory_order
from ..ir.graph import Graph, Node, Op, Source, permute, reshape
from ..ir.graph import strided_slice as part_of
from ..ir.strided_view import row_major_strides
from ..lowering import NotLowered, lower, writes
from ..lowering.numpy.node_builders import broadcast_to, literal, number, reshape_node, type_of
from ..lowering.registry import Untraceable
from ..trace.operands import as_arrays, unbind
from ..capture.host_reads import Old, Read
from ..capture.returned_tensors import ReturnedTensor
from .memory_regions import Region, partition
from .graph_inputs import (
    bind_arguments, make_draw, make_key_draw, gradients_read_before, allocate_gradient,
    memory_getter,
)
from ..trace.trace import (
    CALL, CONSTANT, DRAW, EMPTY, EXCHANGE, OPERATOR, UPDATE, WINDOW, WRITE, Event, Trace, Value,
    address, map_values, count_updates, values_in,
)
from ..ir.errors import Unfit


def trace_to_graph(trace: Trace, leaves: list[Any]) -> tuple[Graph, bind.Bindings]:
    """The graph of a trace and what binds it; `leaves`: the call's arguments, flat.

    Raises Unfit.
    """
    return Functionalization(trace, leaves).build()


class Functionalization:
    """A trace on its way to a graph."""

    def __init__(self, trace: Trace, leaves: list[Any]) -> None:
        self.trace, self.leaves = trace, leaves
        self.sources: list[Source] = []
        self.inputs: list[Node] = []
        self.bindings = bind.Bindings()
        self.regions: dict[int, list[Region]] = {}
        self.slots: dict[int, int] = {}  # of external regions, by id
        self.keys: dict[Any, Node] = {}  # of counted draws, by generator
        self.outputs: list[Node] = []
        self.returned: dict[int, Any] = {}  # bindings of returned tensors, by position
        self.crowds: dict[int, int] = {}  # outputs that several tensors are parts of, by region
        self.labels: list[IndexBound] = []
        self.started: Node | None = None  # the exchange that was started last
        self.arguments = bind_arguments(trace, leaves, self.bindings)  # the first leaf on each

    def build(self) -> tuple[Graph, bind.Bindings]:
        """Runs through the events, then gathers what is returned and written."""
        for problem in self.trace.problems:
            raise Unfit(*problem)
        line = ""
        try:
            self._lay_out()
            backward = self.trace.backward
            mark = len(self.trace.events) if backward is None else backward.mark
            for event in self.trace.events[:mark]:
                line = event.line
                self.handle(event)
            line = ""
            self._find_crowds()
            self.bindings.result = self._returned(self.trace.result)
            self.bindings.effects = self.trace.effects
            self.bindings.callbacks = self._host_calls()
            written = self._grads() + self._written()
            graph = Graph(self.sources, self.inputs, self.outputs, written)
            if backward is not None:
                from .partition import partition_joint_graph

                self.bindings.backward = partition_joint_graph(self, graph, backward)
            graph = self._check_bounds(graph)
        except Untraceable as error:
            raise Unfit(str(error), line) from None
        return graph, self.bindings

    def _host_calls(self) -> list[Callable[[], Any]]:
        """What is called after the run: schedulers, whose optimisers are done by then."""
        for call in self.trace.host_calls:
            if call.updates < count_updates(self.trace, call.optimiser):
                raise Unfit("a scheduler steps before its optimiser does", call.line)
        return [call.function for call in self.trace.host_calls]

    def _check_bounds(self, graph: Graph) -> Graph:
        graph, self.bindings.checks, self.bindings.depends_on_state_values = check_indices(
            graph, self.labels, self.bindings.slots
        )
        second = self.bindings.backward
        if second is not None:
            second.graph, more, _ = check_indices(second.graph, [], second.slots)
            self.bindings.checks += more
        return graph

    def handle(self, event: Event) -> None:
        """Runs through one event."""
        HANDLERS[event.kind](self, event)

    # --------------------------------------------------------------------------- memory

    def _lay_out(self) -> None:
        windows: dict[int, list[Value]] = {}
        for event in self.trace.events:
            for value in values_in((event.results, event.args, event.kwargs, event.written)):
                windows.setdefault(value.storage, []).append(value)
        for value in self._final_windows():
            windows.setdefault(value.storage, []).append(value)
        for place, result in windows.items():
            storage = self.trace.storages[place]
            self.regions[place] = partition(result, storage.whole)
            if storage.external and "cotangent" not in storage.name:
                for region in self.regions[place]:
                    self._external(region)

    def _final_windows(self) -> list[Value]:
        grads = [g.tensor._grad for g in self.trace.grads.values() if g.tensor._grad is not None]
        result = [self.trace.value_of(t._array) for t in grads]
        result += [entry.window for entry in self.trace.returned]
        if self.trace.backward is not None:  # which may be windows on the cotangents themselves
            result += self.trace.backward.grads
        return [value for value in result if value is not None]

    def region(self, window: Value) -> Region:
        """The region that a window lies in."""
        low, high = window.span
        for region in self.regions[window.storage]:
            start = region.offset
            end = start + sum((n - 1) * s for n, s in region.axes) + region.dtype.itemsize
            if start <= low and high <= end:
                return region
        raise Untraceable("a window lies outside of the memory that is known")

    def read(self, window: Value) -> Node:
        """What a window sees now."""
        return self.region(window).read(window)

    def write(self, window: Value, node: Node) -> None:
        """Makes a window see a value."""
        self.region(window).write(window, node)

    def source(self, kind: str, shape: tuple, dtype: np.dtype, slot: Any, name: str,
               recorded: Any, strides: tuple | None = None) -> Node:
        """A new source and its INPUT."""
        element = type_of(dtype)
        at = len(self.sources)
        self.sources.append(Source(kind, shape, element, memory_getter(slot), name, strides))
        self.bindings.slots.append(slot)
        self.bindings.recorded.append(recorded)
        node = Node(Op.INPUT, (), shape, element, {"slot": at}, origin=name)
        self.inputs.append(node)
        return node

    def _external(self, region: Region) -> None:
        storage = self.trace.storages[region.storage]
        shape = region.shape
        strides = tuple(s for _, s in region.axes)
        window = Value(region.storage, region.offset, shape, strides, region.dtype)
        item = region.dtype.itemsize
        is_plain = strides == _row_major_byte_strides(shape, item) or any(s % item for s in strides)
        packed = None if is_plain else tuple(s // item for s in strides)
        first = None if storage.initial is None else bind.window_on_bytes(storage.initial, window)
        leaf = self.arguments.get(region.storage)
        self.slots[id(region)] = len(self.sources)
        if leaf is None:
            slot: Any = bind.State(bind.window_on_storage(storage, window))
            region.node = self.source("state", shape, region.dtype, slot, storage.name, first,
                                      packed)
            return
        slot = self._argument(leaf, window)
        region.node = self.source("argument", shape, region.dtype, slot, f"argument {leaf}",
                                  first, packed)

    def _argument(self, leaf: int, window: Value) -> bind.Argument:
        supplied = self.leaves[leaf]
        array = supplied._array if isinstance(supplied, Tensor) else supplied
        offset = window.offset - (address(array) - address(owner_of(array)))
        order = None
        if offset == 0 and array.dtype == window.dtype and array.size == window.size:
            wide = [i for i, n in enumerate(array.shape) if n != 1]
            sorted_axes = sorted(wide, key=lambda i: -array.strides[i])
            if tuple(array.shape[i] for i in sorted_axes) == window.shape:
                order = tuple(sorted_axes + [i for i in range(array.ndim) if i not in wide])
        return bind.Argument(leaf, offset, window.shape, window.strides, window.dtype, order)

    # --------------------------------------------------------------------------- events

    def constant(self, event: Event) -> None:
        """Numbers made from nothing."""
        assert event.array is not None
        self.write(event.results[0], literal(event.array))

    def copy(self, event: Event) -> None:
        """A value written over a window."""
        self.write(event.args[0], self.read(event.args[1]))

    def draw(self, event: Event) -> None:
        """Random numbers, drawn anew before each call."""
        window = event.args[0]
        order = memory_order(window.strides)
        if isinstance(event.function, CounterDraw):
            shape = tuple(window.shape[i] for i in order)
            new = event.function.node(shape, window.dtype, self._key(event))
            self.write(window, permute(new, inverse_permutation(order)))
            return
        slot = make_draw(event)
        result = None
        if event.array is not None:
            result = np.ascontiguousarray(event.array.transpose(order))
        node = self.source("drawn", slot.view.shape, window.dtype, slot, event.name, result)
        self.write(window, permute(node, inverse_permutation(order)))

    def _key(self, event: Event) -> Node:
        """The key of a run's counted draws, drawn where the first of them is."""
        generator = event.args[2]
        if generator not in self.keys:
            assert event.array is not None
            slot = make_key_draw(generator)
            node = self.source("drawn", (1,), slot.view.dtype, slot, "key", event.array)
            self.keys[generator] = reshape(node, ())
        return self.keys[generator]

    def update(self, event: Event) -> None:
        """An optimiser's formula on each of its parameters."""
        supplied = event.kwargs
        assert event.array is not None
        at = len(self.bindings.updates)
        self.bindings.updates.append(bind.Update(
            supplied["optimiser"], supplied["group"], supplied["positions"], supplied["names"],
            supplied["flags"], event,
        ))
        optimiser = supplied["optimiser"]
        fields = type(optimiser)._flambeau_scalars._fields
        numbers = [
            self.source("number", (), np.dtype(np.float64), bind.Scalar(at, i), name,
                        float(event.array[i]))
            for i, name in enumerate(fields)
        ]
        known: dict[tuple, tuple[list[Node], list[Node]]] = {}
        for param, grad, states in event.args:
            windows = (param, grad, *states)
            before = [self.read(w) for w in windows]
            kinds = tuple((item.op, item.shape, item.type) for item in before)
            after = copy_update(*known[kinds], before, numbers) if kinds in known else None
            if after is None:
                kind = type(optimiser)
                after = trace_update(
                    kind._flambeau_formula,
                    supplied["flags"],
                    kind._flambeau_scalars,
                    numbers,
                    before,
                )
                known[kinds] = after, before
            for window, old, new in zip(windows, before, after, strict=True):
                if new is not old:
                    self.write(window, _set_origin(new, event))

    def operator(self, event: Event) -> None:
        """An operator, by its lowering; called as it is where it has none."""
        operator = event.operator
        bound = label_bound(event, self.read)
        if bound is not None:
            self.labels.append(bound)
        changed = writes(operator)
        targets = [event.args[i] for i in changed]
        args = map_values(event.args, self.read)
        try:
            result: Any = lower(operator, args, {})
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(event.results) + len(targets):
                raise NotLowered(operator, "lowered to another number of results")
            for value, node in zip((*event.results, *targets), result, strict=True):
                _check(operator, value, node)
        except NotLowered as error:
            self.bindings.calls.append(f"{error} ({event.line})")
            result = self._call_whole(event, targets)
        self._put(
            event, [None if node is None else _set_origin(node, event) for node in result], targets
        )

    def _call_whole(self, event: Event, targets: list[Value]) -> tuple[Node, ...]:
        function = event.operator.function if event.operator is not None else event.function
        supplied = values_in((event.args, event.kwargs))
        results = [v for v in event.results if v is not None]
        call = _Call(function, event, targets)
        group = object()
        inputs = tuple(self.read(v) for v in supplied)
        nodes: Iterator[Node] = iter([
            Node(Op.CALL, inputs, v.shape, type_of(v.dtype),
                 {"function": call, "output": i, "group": group}, origin=event.origin)
            for i, v in enumerate((*results, *(t for t in targets if t is not None)))
        ])
        outputs = (*event.results, *targets)
        return tuple(next(nodes) if v is not None else None for v in outputs)  # type: ignore[misc]

    def call(self, event: Event) -> None:
        """A function that is no operator, called as it is."""
        self.bindings.calls.append(f"{event.name} ({event.line})")
        targets = list(event.written)
        self._put(event, self._call_whole(event, targets), targets)

    def _put(self, event: Event, nodes: Sequence[Node | None], targets: list[Value]) -> None:
        """Writes results, and what was written in place. A result may be one that NumPy stretched,
        in which an element of memory is seen many times: it is written once."""
        for i, (value, node) in enumerate(zip((*event.results, *targets), nodes, strict=True)):
            if value is None or node is None:
                continue
            if i < len(event.results) and value.shape == node.shape:
                shape = tuple(n and 1 if s == 0 else n
                              for n, s in zip(value.shape, value.strides, strict=True))
                zeros, ones = (0,) * len(shape), (1,) * len(shape)
                node, value = part_of(node, zeros, ones, shape), replace(value, shape=shape)
            self.write(value, node)

    def window(self, event: Event) -> None:
        """Autograd's maps between a base's cotangent and a window's."""
        g, (base_dtype, base_shape, base_strides, dtype, offset, shape, strides) = event.args
        base = Value(0, 0, base_shape, base_strides, base_dtype)
        inner = Value(0, offset, shape, strides, dtype)
        region = partition([base, inner])[0]
        name = event.function.__name__
        try:
            if name == "spread_into":
                region.write(inner, self.read(g))
                result = region.read(base)
            else:
                region.write(base, self.read(g))
                if name == "outside_of":
                    region.write(inner, broadcast_to(number(0, type_of(dtype)), shape))
                result = region.read(inner if name == "window_of" else base)
        except Untraceable:
            self.call(event)
            return
        self.write(event.results[0], result)

    # ---------------------------------------------------------------------------- ends

    def _returned(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self._returned_tensor(self.trace.positions[id(x)])
        if x.__class__ is Read:
            return bind.HostScalar(
                *(item if item.__class__ is str else self._returned(item) for item in x)
            )
        if x.__class__ is Old:
            return x
        if x.__class__ in (tuple, list):
            return x.__class__(self._returned(item) for item in x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*(self._returned(item) for item in x))
        if x.__class__ is dict:
            return {key: self._returned(single) for key, single in x.items()}
        if x is None or isinstance(x, (bool, int, float, str)):
            return bind.ReturnedConstant(x)
        raise Untraceable(f"it returns an object of class {type(x).__name__}")

    def _returned_tensor(self, position: int) -> Any:
        """The binding of a returned tensor or of its base, the same one at each use."""
        if position not in self.returned:
            self.returned[position] = self._bound(position, self.trace.returned[position])
        return self.returned[position]

    def _bound(self, position: int, entry: ReturnedTensor) -> Any:
        if entry.leaf is not None:
            return bind.ReturnedArgument(entry.leaf)
        if not entry.is_new:
            return bind.ReturnedConstant(entry.outside)
        window = entry.window
        if window is None:
            raise Untraceable("it returns a tensor on memory that no operator made")
        source = None if entry.source is None else self._returned_tensor(entry.source)
        if not self.trace.storages[window.storage].external:
            memory: Any = self._output(position, window)
        elif entry.requires_grad and not entry.is_leaf:
            raise Untraceable("it returns a view that is part of the graph")
        else:
            memory = self._outside_memory(position, window)
        backward = self.trace.backward
        live = None if backward is None else backward.positions.get(position)
        return bind.NewTensor(memory, source, entry.is_view, entry.is_whole, entry.version,
                              entry.requires_grad, entry.is_leaf, live)

    def _outside_memory(self, position: int, window: Value) -> bind.Argument | bind.State:
        """Memory of an argument or from outside that a new tensor lies on."""
        array = self.trace.returned_arrays[position]
        if window.storage not in self.arguments:
            return bind.State(array)
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor) and leaf._array is array:
                order = tuple(range(array.ndim))
                return bind.Argument(i, 0, array.shape, array.strides, array.dtype, order)
        return replace(self._argument(self.arguments[window.storage], window), order=None)

    def _output(self, position: int, value: Value) -> bind.Output:
        if value.storage in self._grad_storages():
            raise Untraceable("it returns the .grad of a parameter")
        array = self.trace.returned_arrays[position]
        region = self.region(value)
        if id(region) not in self.crowds and array.base is None and array.flags.c_contiguous:
            self.bindings.expected.append(array.copy())
            self.outputs.append(self.read(value))
            return bind.Output(len(self.outputs) - 1, array.shape, tuple(range(array.ndim)))
        order = memory_order(array.strides)
        back = inverse_permutation(order)
        packed = _row_major_byte_strides(tuple(array.shape[i] for i in order), array.itemsize)
        if id(region) not in self.crowds and tuple(packed[i] for i in back) != array.strides:
            self.crowds[id(region)] = -1
        if id(region) in self.crowds:
            return self._crowd(region, array, value)
        node = self.read(value)
        self.bindings.expected.append(array.transpose(order).copy())
        self.outputs.append(permute(node, order))
        return bind.Output(len(self.outputs) - 1, array.shape, back)

    def _grad_storages(self) -> set[int]:
        """The memories of grads that the call set."""
        values = [self.trace.value_of(access.tensor._grad._array)
                  for access in self.trace.grads.values()
                  if access.tensor._grad is not None
                  and access.tensor._grad is not access.before]
        return {value.storage for value in values if value is not None}

    def _find_crowds(self) -> None:
        """The regions on which several of the tensors returned lie: these stay on one memory."""
        met: set[int] = set()
        for entry in self.trace.returned:
            window = entry.window
            if window is None or self.trace.storages[window.storage].external:
                continue
            key = id(self.region(window))
            if key in met:
                self.crowds[key] = -1
            met.add(key)

    def _crowd(self, region: Region, array: np.ndarray, value: Value) -> bind.Output:
        """Where a tensor lies on the output that is a whole region."""
        strides = tuple(s for _, s in region.axes)
        if 0 not in region.shape and strides != _row_major_byte_strides(
            region.shape, region.dtype.itemsize
        ):
            raise Untraceable("it returns views of one memory that leave gaps")
        owned = array.base is None and array.flags.c_contiguous and array.size == math.prod(
            region.shape)
        if self.crowds[id(region)] < 0:
            shape = array.shape if owned else region.shape
            whole = Value(value.storage, region.offset, region.shape, strides, region.dtype)
            memory = _as_bytes(owner_of(array))
            self.bindings.expected.append(bind.window_on_bytes(memory, whole).copy().reshape(shape))
            self.outputs.append(reshape_node(region.value, shape))
            self.crowds[id(region)] = len(self.outputs) - 1
        number = self.crowds[id(region)]
        if owned and self.outputs[number].shape == array.shape:
            return bind.Output(number, array.shape, tuple(range(array.ndim)))
        where = value.offset - region.offset, value.strides, value.dtype
        return bind.Output(number, value.shape, (), where)

    def _grads(self) -> list[tuple[int, Node]]:
        result = []
        self.bindings.incoming_grads = gradients_read_before(self.trace)
        for access in self.trace.grads.values():
            leaf, grad = access.tensor, access.tensor._grad
            if grad is access.before:
                continue
            if grad is None:
                self.bindings.grads.append((leaf, None))
                continue
            if grad.requires_grad:
                raise Untraceable("a gradient is itself part of a graph")
            value = self.trace.value_of(grad._array)
            if value is None or self.trace.storages[value.storage].external:
                raise Untraceable("a .grad is set to a tensor from outside")
            node = self.read(value)
            order = memory_order(value.strides)
            memory, retained = allocate_gradient(value)
            self.source("state", memory.shape, value.dtype, bind.State(memory), "grad", memory)
            self.bindings.grads.append((leaf, retained))
            self.bindings.written.append(grad._array.transpose(order))
            result.append((len(self.sources) - 1, permute(node, order)))
        return result

    def _written(self) -> list[tuple[int, Node]]:
        result = []
        for place, regions in self.regions.items():
            for region in regions:
                if not self.trace.storages[place].external or not region.written:
                    continue
                self.bindings.written.append(None)
                result.append((self.slots[id(region)], region.value))
        return result


HANDLERS: dict[str, Callable[[Functionalization, Event], None]] = {
    CONSTANT: Functionalization.constant, EMPTY: lambda self, event: None,
    WRITE: Functionalization.copy, DRAW: Functionalization.draw, UPDATE: Functionalization.update,
    OPERATOR: Functionalization.operator, CALL: Functionalization.call,
    EXCHANGE: add_exchange, WINDOW: Functionalization.window,
}


class _Call:
    """An eager function on whole arrays: a CALL node's `function`."""

    def __init__(self, function: Callable, event: Event, targets: list[Value]) -> None:
        self.function, self.args, self.kwargs = function, event.args, event.kwargs
        self.operator: Operator | None = event.operator
        self.results = event.results
        supplied = values_in((event.args, event.kwargs))
        self.targets = [supplied.index(t) for t in targets if t is not None]
        self.__name__ = event.name

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The results, and then the new values of what the function writes."""
        from ...autograd import no_grad

        result = [wrap(a.copy() if i in self.targets else a) for i, a in enumerate(arrays)]
        supplied = iter(result)
        args = map_values(self.args, lambda _: next(supplied))
        kwargs = map_values(self.kwargs, lambda _: next(supplied))
        if self.operator is not None:
            at = self.operator.tensor_positions
            args = tuple(x if i in at else as_arrays(x) for i, x in enumerate(args))
            args, kwargs = unbind(self.operator, args)
        with no_grad():
            new = self.function(*args, **kwargs)
        new = new if isinstance(new, (tuple, list)) else (new,)
        outputs = [y._array for y, v in zip(new, self.results, strict=False) if v is not None]
        return outputs + [result[i]._array for i in self.targets]


def _set_origin(node: Node, event: Event) -> Node:
    """Tells a node where it comes from, and those that its operator made on the way."""
    node.origin = event.origin
    name = getattr(event.operator, "name", None)
    stack = [node]
    while stack:
        for operand in stack.pop().inputs:
            if operand.origin == name:
                operand.origin = event.origin
                stack.append(operand)
    return node


def _check(operator: Operator, value: Value | None, node: Node | None) -> None:
    if value is None or node is None:
        return
    if tuple(node.shape) != value.shape or node.type is not type_of(value.dtype):
        raise NotLowered(operator, f"lowered to {node.type.value}{list(node.shape)} where it "
                         f"gives {value.dtype}{list(value.shape)}")


def _row_major_byte_strides(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    return tuple(item * stride for stride in row_major_strides(shape))
