"""Functionalization: turn a trace into a graph. Memory becomes values, written back at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.layout import find_owner
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..ir.axis_order import order_axes
from ..ir.errors import Unfit
from ..ir.graph import Graph, Node, Op, Source, SourceKind
from ..lowering.numpy.node_builders import cast, type_of
from ..lowering.registry import Required, Untraceable
from ..trace import bindings as bind
from ..trace.carried_values import list_bound_grads
from ..trace.number_inputs import NumberInput
from ..trace.trace import (
    OPERATOR, Event, Role, Trace, Value, address, collect_values, count_updates,
)
from .complex_pairs import as_pairs, permute_window, view_as_pairs_window
from .event_nodes import HANDLERS
from .graph_inputs import (
    allocate_gradient, bind_arguments, list_gradients_read_before, make_memory_getter,
)
from .index_checks import IndexBound, check_all, check_indices, find_unread_calls, iterate_indexing
from .memory_regions import Region, compute_byte_strides, partition
from .partial_backward import select_cotangents
from .returned_values import ReturnedValues


def trace_to_graph(trace: Trace, leaves: list[Any]) -> tuple[Graph, bind.Bindings]:
    """Return the graph of a trace and its bindings; `leaves`: the call's flattened arguments.

    Raises Unfit.
    """
    return Functionalization(trace, leaves).build()


class Functionalization:
    """A trace being turned into a graph."""

    def __init__(self, trace: Trace, leaves: list[Any]) -> None:
        self.trace, self.leaves = trace, leaves
        self.sources: list[Source] = []
        self.inputs: list[Node] = []
        self.bindings = bind.Bindings()
        self.regions: dict[int, list[Region]] = {}
        self.slots: dict[int, int] = {}  # of external regions, by id
        self.keys: dict[Any, Node] = {}  # of counter-based draws, by generator
        self.outputs: list[Node] = []
        self.labels: list[IndexBound] = []
        self.indexing: list[Node] = []  # nodes that read or write at an index, used or not
        self.met: dict[int, Node] = {}  # nodes already searched for indexing
        self.numbers: dict[str, Node] = {}  # that each call computes anew, by source
        self.conditions: list[Node] = []  # bools that must hold
        self.eager_calls: list[Node] = []  # a node of each; they run even if nothing reads them
        self.started: Node | None = None  # the exchange started last
        self.calls_complex = self.has_kernels = False  # kinds of operators recorded so far
        self.arguments = bind_arguments(trace, leaves, self.bindings)  # the first leaf on each

    def build(self) -> tuple[Graph, bind.Bindings]:
        """Process the events, then collect what is returned and written."""
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
                if event.kind == OPERATOR:
                    results = map(self.read, collect_values(event.results))
                    self.indexing += iterate_indexing(results, self.met)
            line = ""
            if self.calls_complex and not self.has_kernels:
                raise Unfit("all its operators are complex, which a program would call eagerly")
            self.bindings.result = ReturnedValues(self).bind_value(self.trace.result)
            self.bindings.effects = self.trace.effects
            self.bindings.callbacks = self._list_host_calls()
            written = self._grads() + self._written()
            graph = Graph(self.sources, self.inputs, self.outputs, written)
            if backward is not None:
                from .partition import partition_joint_graph

                # Only the forward pass is checked.
                required = self.conditions.copy(), self.labels.copy(), self.eager_calls.copy()
                self.bindings.backward = partition_joint_graph(self, graph, backward)
                self.conditions, self.labels, self.eager_calls = required
            graph = self._check_values(graph)
        except Untraceable as error:
            raise Unfit(str(error), line) from None
        return graph, self.bindings

    def _list_host_calls(self) -> list[Callable[[], Any]]:
        """Return the calls to make after the run: schedulers, after their optimizers."""
        for call in self.trace.host_calls:
            if call.updates < count_updates(self.trace, call.optimizer):
                raise Unfit("a scheduler steps before its optimizer", call.line)
        return [call.function for call in self.trace.host_calls]

    def _check_values(self, graph: Graph) -> Graph:
        """Add the checks of a call: before the run if possible, else during it."""
        bindings = self.bindings
        graph, bindings.checks, conditions = check_indices(
            graph, self.labels, bindings.slots, self.indexing
        )
        conditions += self.conditions
        unread = find_unread_calls(graph, self.eager_calls)
        if conditions or unread:
            graph.outputs.append(check_all(conditions, unread))
        bindings.has_conditions = bool(conditions or bindings.calls)  # calls may raise
        second = bindings.backward
        if second is not None:  # its indices are those of the forward program
            second.graph, more, _ = check_indices(second.graph, [], second.slots)
            bindings.checks += more
            second.usual = select_cotangents(second, second.usual_outputs)
        return graph

    def require(self, required: Required) -> None:
        """Add what an operator's lowering requires of values."""
        self.conditions += required.conditions
        self.labels += [IndexBound(node, size, wraps=wraps)
                        for node, size, wraps in required.positions]

    def handle(self, event: Event) -> None:
        """Process one event."""
        HANDLERS[event.kind](self, event)

    # --------------------------------------------------------------------------- memory

    def _lay_out(self) -> None:
        windows: dict[int, list[Value]] = {}
        for event in self.trace.events:
            for value in collect_values((event.results, event.args, event.kwargs, event.written)):
                windows.setdefault(value.storage, []).append(view_as_pairs_window(value))
        for value in self._list_final_windows():
            windows.setdefault(value.storage, []).append(view_as_pairs_window(value))
        for place, result in windows.items():
            storage = self.trace.storages[place]
            self.regions[place] = partition(result, view_as_pairs_window(storage.whole))
            if storage.external and storage.role is not Role.COTANGENT:
                for region in self.regions[place]:
                    self._add_external_region(region)

    def _list_final_windows(self) -> list[Value]:
        grads = [g.tensor._grad for g in self.trace.grads.values() if g.tensor._grad is not None]
        result = [self.trace.value_of(t._array) for t in grads]
        result += [entry.window for entry in self.trace.returned]
        if self.trace.backward is not None:  # they may be windows on the cotangents
            result += self.trace.backward.grads
            # Each cotangent is one input, even if derivatives only read parts of it (cat's do).
            result += map(self.trace.value_of, self.trace.backward.cotangents)
        return [value for value in result if value is not None]

    def region(self, window: Value) -> Region:
        """Return the region that contains a window; complex windows must be given as pairs."""
        low, high = window.span
        for region in self.regions[window.storage]:
            start = region.offset
            end = start + sum((n - 1) * s for n, s in region.axes) + region.dtype.itemsize
            if start <= low and high <= end:
                return region
        raise Untraceable("a view reaches beyond known memory")

    def read(self, window: Value) -> Node:
        """Return the current value of a window; complex numbers as pairs."""
        window = view_as_pairs_window(window)
        return self.region(window).read(window)

    def write(self, window: Value, node: Node) -> None:
        """Set the value of a window; complex numbers as pairs."""
        window = view_as_pairs_window(window)
        self.region(window).write(window, node)

    def source(self, kind: SourceKind, shape: tuple, dtype: np.dtype, slot: Any, name: str,
               recorded: Any, strides: tuple | None = None) -> Node:
        """Add a source and return its INPUT node."""
        element = type_of(dtype)
        at = len(self.sources)
        self.sources.append(Source(kind, shape, element, make_memory_getter(slot), name, strides))
        self.bindings.slots.append(slot)
        self.bindings.recorded.append(recorded)
        node = Node(Op.INPUT, (), shape, element, {"slot": at}, origin=name)
        self.inputs.append(node)
        return node

    def read_number(self, x: NumberInput, dtype: np.dtype) -> Node:
        """Return a number that each call computes anew, as an element of this dtype."""
        node = self.numbers.get(x.source)
        if node is None:
            node = self.numbers[x.source] = self.source(
                SourceKind.NUMBER, (), np.dtype(np.float64), bind.ComputedNumber(x.source),
                "number", x.value)
        return cast(node, type_of(dtype))

    def _add_external_region(self, region: Region) -> None:
        storage = self.trace.storages[region.storage]
        shape = region.shape
        strides = tuple(s for _, s in region.axes)
        window = Value(region.storage, region.offset, shape, strides, region.dtype)
        item = region.dtype.itemsize
        is_plain = strides == compute_byte_strides(shape, item) or any(s % item for s in strides)
        packed = None if is_plain else tuple(s // item for s in strides)
        first = None if storage.initial is None else bind.view_bytes(storage.initial, window)
        leaf = self.arguments.get(region.storage)
        self.slots[id(region)] = len(self.sources)
        if leaf is None:
            slot: Any = bind.State(bind.view_storage(storage, window))
            region.node = self.source(SourceKind.STATE, shape, region.dtype, slot, storage.name,
                                      first, packed)
            return
        slot = self.bind_argument(leaf, window)
        region.node = self.source(SourceKind.ARGUMENT, shape, region.dtype, slot,
                                  f"argument {leaf}", first, packed)

    def bind_argument(self, leaf: int, window: Value) -> bind.Argument:
        """Bind a window of an argument's memory."""
        argument = self.leaves[leaf]
        array = argument._array if isinstance(argument, Tensor) else argument
        offset = window.offset - (address(array) - address(find_owner(array)))
        order = None
        if offset == 0 and array.dtype == window.dtype and array.size == window.size:
            nonunit = [i for i, n in enumerate(array.shape) if n != 1]
            sorted_axes = sorted(nonunit, key=lambda i: -array.strides[i])
            if tuple(array.shape[i] for i in sorted_axes) == window.shape:
                order = tuple(sorted_axes + [i for i in range(array.ndim) if i not in nonunit])
        return bind.Argument(leaf, offset, window.shape, window.strides, window.dtype, order)

    # ---------------------------------------------------------------------------- ends

    def _grads(self) -> list[tuple[int, Node]]:
        result = []
        self.bindings.incoming_grads = list_gradients_read_before(self.trace)
        for access in list_bound_grads(self.trace):
            leaf, grad = access.tensor, access.tensor._grad
            if grad is None:
                self.bindings.grads.append((leaf, None))
                continue
            if grad.requires_grad:
                raise Untraceable("a gradient requires grad")
            value = self.trace.value_of(grad._array)
            if value is None or self.trace.storages[value.storage].external:
                raise Untraceable("it sets a .grad to a tensor from outside the step")
            node = self.read(value)
            order = order_axes(value.strides)
            version = self.bindings.grad_versions[len(self.bindings.grads)] = get_version(grad)
            memory, grad_buffer = allocate_gradient(value, version)
            self.source(SourceKind.STATE, memory.shape, memory.dtype,
                        bind.State(memory, is_grad=True), "grad", memory)
            self.bindings.grads.append((leaf, grad_buffer))
            self.bindings.written.append(as_pairs(grad._array.transpose(order)))
            result.append((len(self.sources) - 1, permute_window(node, order)))
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
