"""Recorder: run a program on real tensors and build the graph of the operators it calls."""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from .._higher_order_ops.active_export import (
    active_expansions, kept_operators, read_observer, recording,
)
from .._higher_order_ops.gradient_regions import MODE_META
from .._higher_order_ops.recorded_modes import ModeRecorder
from .._higher_order_ops.transform_watch import TransformWatch
from ..fx import traceback as fx_traceback
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import RANDOM_OPERATORS, Node
from ..fx.qualified_names import qualified_name
from ..fx.trace_errors import explain
from ..native.foundation.user_frames import find_user_frame
from ..ops.core.aten import aten
from ..ops.core.operator import PUBLIC
from ..ops.interception import torch_function
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from ..tensor.windows.batch import find_innermost_batch
from ..utils import _pytree as pytree
from .aten_calls import StepResult, decompose_call, decompose_getitem, decompose_setitem
from .control_flow import Subgraph, choose, map_over
from .loops import combine_over, loop_while, scan_over
from .symbolic.conditions import SymbolicBool
from .symbolic.expressions import Expression, SymbolTable
from .symbolic.read_numbers import (
    is_counted, lift_constant, read_number, read_numbers, recount, refuse,
)
from .symbolic.sizes import (
    SpecializationError, SymbolicFloat, SymbolicSize, get_first_value, get_second_value,
)

__all__ = ["Recorder"]

# Functions that turn tensor values into Python values, which a graph cannot compute.
_VALUES = frozenset(("__bool__", "__int__", "__float__", "__index__", "numpy",
                     "__complex__", "equal", "allclose", "is_nonzero"))
# Metadata queries, such as dtype and layout: run unrecorded.
_METADATA = frozenset(("dim", "ndimension", "is_floating_point", "is_complex", "is_contiguous",
                    "stride", "element_size", "storage_offset", "data_ptr", "is_tensor",
                    "is_same_size", "get_device", "is_signed", "__len__", "is_inference",
                    "is_conj", "is_neg", "result_type", "__repr__", "__format__", "has_names",
                    "_has_torch_function", "is_set_to", "is_pinned"))
_SIZES = frozenset(("size", "numel", "nelement"))
# Functions that make tensors from numbers.
_CONSTANTS = frozenset(("tensor", "as_tensor", "from_numpy"))
# Functions of nn.functional that are recorded as the operators they call.
_COMPOSITES = frozenset(("multi_head_attention_forward", "normalize",
                         "triplet_margin_with_distance_loss", "linear_cross_entropy",
                         "scaled_dot_product_attention_"))


class Entry(NamedTuple):
    """A registered tensor, the node that computes it, and its counterpart in the second run."""

    tensor: Tensor
    node: Node
    second: Any


class Recorder(ModeRecorder):
    """Records calls on registered tensors.

    `lift_input`: returns the node of a tensor from outside. `twins`: whether to run a second input
    of different sizes alongside, which reveals dynamic sizes. `offset`: the difference between the
    two inputs' values of a number read from a tensor; None forbids reading numbers.
    """

    def __init__(self, graph: Graph, lift_input: Callable[[Tensor], Node], twins: bool,
                 offset: int | None = None) -> None:
        self.graph, self.lift_input, self.twins, self.offset = graph, lift_input, twins, offset
        self.table = SymbolTable()
        self.table.note = self.note
        self.numbers: dict[int, tuple[Any, Node]] = {}  # a subgraph's symbolic inputs, by id
        self.subgraph_of: Subgraph | None = None  # the one being recorded, if any
        self.subgraphs: dict[str, GraphModule] = {}
        self.unbacked: set[Node] = set()  # nodes whose sizes depend on a tensor's values
        self.calls: dict[str, int] = {}  # call count by function name
        self.entries: dict[int, Entry] = {}  # by id of the tensor, which its entry keeps alive
        self.stack: dict[str, tuple[str, Any]] = {}
        self.fixed: set[Node] = set()  # nodes that depend on no input
        self.find_expansion, self.is_closed = active_expansions(), False
        self.whole_operators = kept_operators()
        self.watch = TransformWatch()
        names = torch_function.list_properties()
        self.properties = {p.__get__: name for name, p in names.items()}

    # ---------------------------------------------------------------- values and nodes

    def register(self, tensor: Tensor, node: Node, other: Any = None) -> None:
        """Register the node that computes a tensor, and the second input's counterpart."""
        other = tensor if other is None else other
        node.meta.update(val=tensor, other_sizes=other._array.shape)
        self.entries[id(tensor)] = Entry(tensor, node, other)

    def node_of(self, value: Any) -> Any:
        """Return a value's node, or the value if it is a constant."""
        if isinstance(value, Tensor):
            entry = self.entries.get(id(value))
            if entry is None and self.is_closed:
                raise NotImplementedError("torch.export: an expansion that computes unrecorded")
            if entry is None and self.subgraph_of is not None:
                return self.subgraph_of.take(value)
            if entry is None:
                self.watch.refuse_newer(value)
                node = self.lift_input(value)
                self.fixed.add(node)
                self.entries[id(value)] = entry = Entry(value, node, value)
            return entry.node
        symbolic = isinstance(value, (SymbolicSize, SymbolicFloat, SymbolicBool))
        if symbolic and self.subgraph_of is not None and value.node.graph is not self.graph:
            known = self.numbers.get(id(value))
            return self.subgraph_of.take(value) if known is None else known[1]
        return value.node if symbolic else value

    def entry_of(self, tensor: Tensor) -> Entry | None:
        """Return a tensor's entry or None. In a subgraph, take outer tensors as inputs."""
        part, key = self.subgraph_of, id(tensor)
        if key not in self.entries and part is not None and part.outer.entry_of(tensor):
            part.take(tensor)
        return self.entries.get(key)

    def second_input(self, value: Any) -> Any:
        """Return the second input's counterpart of a value."""
        if isinstance(value, Tensor):
            entry = self.entry_of(value)
            return value if entry is None else entry.second
        return get_second_value(value)

    def shape_of(self, tensor: Tensor) -> Any:
        """Return the tensor's shape, with symbolic sizes for dynamic lengths."""
        entry = self.entry_of(tensor)
        if entry is None or not self.twins or entry.second is tensor:
            return tensor.shape
        return tuple.__new__(Size, [
            a if a == b else _create_length(self, entry.node, i, a, b)
            for i, (a, b) in enumerate(zip(tensor.shape, entry.second.shape, strict=True))
        ])

    # ---------------------------------------------------------------- subgraphs

    def subgraph_recorder(self, graph: Graph, subgraph: Subgraph) -> Recorder:
        """Return the recorder of a subgraph, which takes outer tensors as inputs."""
        inner = type(self)(graph, subgraph.take, self.twins, self.offset)
        inner.table, inner.stack, inner.subgraph_of = self.table, self.stack, subgraph
        inner.has_modes, inner.watch = self.has_modes, self.watch
        return inner

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record the calls made in this context."""
        with recording(self), self.watch.active(), self:
            yield

    choose, map_over, loop_while, scan_over = choose, map_over, loop_while, scan_over
    combine_over = combine_over  # methods that are defined with the subgraphs they record

    # ---------------------------------------------------------------- calls

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record a call, answer a metadata query, or refuse it."""
        attribute = self.properties.get(func)
        if attribute is not None:
            return self.read_attribute(attribute, func, args)
        args, kwargs = _unpack_shapes(args, kwargs)
        name = getattr(func, "__name__", "")
        if name in _METADATA or name in _SIZES:
            return self.read_metadata(name, func, args, kwargs)
        if name in _VALUES or name in ("item", "tolist"):
            entry = self.entry_of(args[0])
            if entry is None or entry.node in self.fixed:
                return func(*args, **kwargs)
            note_read = read_observer()
            if note_read is not None and name in _VALUES:  # a constant of the trace
                note_read(name)
                return func(*args, **kwargs)
            if name in _VALUES or self.offset is None:
                refuse(name)
            return (read_number if name == "item" else read_numbers)(self, args[0])
        if find_innermost_batch(pytree.tree_leaves((args, kwargs))):
            return _run_inside(self, func, args, kwargs)
        if name in _COMPOSITES:
            return _run_composite(self, func, args, kwargs)
        return self.record(func, args, kwargs)

    def read_attribute(self, name: str, getter: Any, args: Any) -> Any:
        """Read an attribute of a tensor; record it if its value is a tensor."""
        tensor = args[0]
        if name == "shape":
            return self.shape_of(tensor)
        value = getter(tensor)
        if not isinstance(value, Tensor) or name == "grad":
            return value
        return _record_attribute(self, name, tensor)

    def read_metadata(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Return a size, symbolic if dynamic, or unrecorded metadata."""
        if name not in _SIZES:
            return func(*args, **kwargs)
        shape = self.shape_of(args[0])
        if name == "size":
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            return shape if dim is None else shape[dim]
        count: Any = 1
        for length in shape:
            count = length * count
        return count

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a call and add the nodes that compute it."""
        name = getattr(func, "__name__", "")
        if name in _CONSTANTS and self.offset is not None and _is_constant((args, kwargs)):
            return lift_constant(self, func, args, kwargs)
        if name == "__setitem__":
            return _record_write(self, func, args)
        if name == "__getitem__":
            steps = decompose_getitem(args[0], args[1])
            steps = steps or [(operator.getitem, list(args), {})]
        elif any(func is whole for whole in self.whole_operators):
            steps = [(func, list(args), kwargs)]
        else:
            steps = decompose_call(func, args, kwargs)
        expansion = _find_expansion(self, func, args, kwargs, steps)
        if expansion is not None:
            return _expand(self, expansion, (args, kwargs))
        value: Any = None
        for target, step_args, step_kwargs in steps:
            step_args = [value if a is ... else a for a in step_args]
            if len(steps) == 1 and name != "__getitem__":  # run what the program called
                value, other = self.run(func, args, kwargs)
            else:
                value, other = self.run(target, step_args, step_kwargs)
            node = self.add(target, step_args, step_kwargs, value)
            if self.offset is not None and is_counted(name, target, step_args):
                other = recount(self, value, other, kwargs)
                self.unbacked.add(node)
            node.meta["torch_fn"] = _find_origin(func, self.calls)
            value = self.register_results(value, other, node)
        return value

    def run(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Run a call on both inputs and return both results."""
        value = func(*pytree.tree_map(get_first_value, args),
                     **pytree.tree_map(get_first_value, kwargs))
        if not self.twins:
            return value, None
        others = pytree.tree_map(self.second_input, (list(args), kwargs))
        if all(a is b for a, b in zip(pytree.tree_leaves((list(args), kwargs)),
                                      pytree.tree_leaves(others), strict=True)):
            return value, value
        try:
            return value, func(*others[0], **others[1])
        except Exception as cause:
            error = SpecializationError(
                "Constraints violated! The program fails for other lengths of its dynamic "
                f"dimensions than the example's: {cause}"
            )
            explain(error, "Take dimensions out of `dynamic_shapes`, or relate them: "
                           "Dim('x') and Dim('x') + 1.")
            raise error from cause

    def add(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        """Add a node and note the module and source line it comes from."""
        result = tuple(pytree.tree_map(self.node_of, list(args)))
        words = pytree.tree_map(self.node_of, dict(kwargs))
        name = getattr(target, "overloadpacket", None)
        node = self.graph.create_node("call_function", target, result, words,
                                      None if name is None else name.__name__)
        node.meta["val"] = value
        if not self.unbacked.isdisjoint(node.all_input_nodes):
            self.unbacked.add(node)
        if self.fixed.issuperset(node.all_input_nodes) and \
                getattr(target, "__name__", "").partition(".")[0] not in RANDOM_OPERATORS:
            self.fixed.add(node)
        self.note(node)
        return node

    def note(self, node: Node) -> None:
        """Store a node's module stack and source line in its meta."""
        node.meta["nn_module_stack"] = dict(self.stack)
        self.note_mode(node)
        if fx_traceback.has_preserved_node_meta():  # the program is an fx graph
            before = fx_traceback.get_current_meta()
            node.meta |= {k: before[k] for k in ("nn_module_stack", "stack_trace") if k in before}
            return
        frame = find_user_frame()
        if frame is not None:
            node.meta["stack_trace"] = _format_frame(frame)

    def register_results(self, value: Any, other: Any, node: Node) -> Any:
        """Register the nodes that compute the parts of a result."""
        if isinstance(value, Tensor):
            self.register(value, node, other)
            return value
        if isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                if isinstance(part, (Tensor, tuple, list)):
                    item = self.graph.call_function(operator.getitem, (node, i))
                    item.meta.update(_copy_origin(node), val=part)
                    for group in (self.fixed, self.unbacked):
                        if node in group:
                            group.add(item)
                    self.register_results(part, None if other is None else other[i], item)
        return value


def _record_write(recorder: Recorder, func: Any, args: Any) -> None:
    """Record `x[i] = y` as views of x and a write to the last, where aten has them."""
    steps = decompose_setitem(*args)
    if steps is None:
        recorder.run(func, args, {})
        recorder.add(operator.setitem, list(args), {}, None)
        return
    results: list[Any] = []
    for target, step_args, step_kwargs in steps:
        step_args = [results[a.number] if isinstance(a, StepResult) else a for a in step_args]
        value, other = recorder.run(target, step_args, step_kwargs)
        node = recorder.add(target, step_args, step_kwargs, value)
        node.meta["torch_fn"] = _find_origin(func, recorder.calls)
        results.append(recorder.register_results(value, other, node))


def _copy_origin(node: Node) -> dict[str, Any]:
    """Return what a node's meta says of where the program made its call."""
    names = ("nn_module_stack", "stack_trace", "torch_fn", MODE_META)
    return {name: node.meta[name] for name in names if name in node.meta}


def _create_length(recorder: Recorder, node: Node, dim: int, a: int, b: int) -> SymbolicSize:
    """Return a symbolic size for a length that differs between the two inputs."""
    expression = recorder.table.find(a, b)
    if expression is None:
        symbol = recorder.table.add("d", a, b, low=0, unbacked=node in recorder.unbacked)
        expression = Expression([(symbol, 1)])
    return SymbolicSize(a, b, lambda: recorder.graph.create_node(
        "call_function", aten.sym_size.int, (node, dim), {}, "sym_size_int"),
        expression, recorder.table)


def _find_expansion(recorder: Recorder, func: Any, args: Any, kwargs: Any, steps: Any) -> Any:
    """Return what to run in the place of a call, or None."""
    if recorder.find_expansion is None or len(steps) != 1 or steps[0][0] is operator.getitem:
        return None
    target, *aten_arguments = steps[0]
    name = getattr(target, "overloadpacket", target).__name__
    return recorder.find_expansion(func, name, (args, kwargs, *aten_arguments))


def _expand(recorder: Recorder, expansion: Callable[[], Any], arguments: Any) -> Any:
    """Record the calls of an expansion. Raises NotImplementedError if it computes without."""
    pytree.tree_map(recorder.node_of, arguments)  # other tensors are intermediate from here on
    before, recorder.is_closed = recorder.is_closed, True
    try:
        result = _call_with_mode(recorder, expansion, (), {})
        pytree.tree_map(recorder.node_of, result)
    finally:
        recorder.is_closed = before
    return result


def _call_with_mode(mode: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function with a mode re-enabled, which is off while it handles a call."""
    torch_function.STATE.modes.append(mode)
    try:
        return func(*args, **kwargs)
    finally:
        torch_function.STATE.modes.remove(mode)


def _run_composite(recorder: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Record the calls that a composite makes; NotImplementedError if it computes without."""
    torch_function.STATE.skipped = func
    try:
        return _expand(recorder, lambda: func(*args, **kwargs), (args, kwargs))
    finally:
        torch_function.STATE.skipped = None


def _run_inside(mode: Recorder, func: Any, args: Any, kwargs: Any) -> Any:
    """Run a call below a vmap, recording the calls that it makes."""
    torch_function.STATE.skipped = func
    try:
        return _call_with_mode(mode, func, args, kwargs)
    finally:
        torch_function.STATE.skipped = None


def _record_attribute(recorder: Recorder, name: str, tensor: Tensor) -> Any:
    """Record the call that computes a tensor's attribute."""
    if name == "data":
        return recorder.record(Tensor.detach, (tensor,), {})
    if name in ("real", "imag"):
        return recorder.record(PUBLIC["torch"][name], (tensor,), {})
    if name in ("T", "mT", "H", "mH"):
        order = _order_transposed_axes(tensor.ndim, is_batch=name.startswith("m"))
        y = recorder.record(Tensor.permute, (tensor, order), {})
        conjugates = name.endswith("H") and tensor.is_complex()
        return recorder.record(Tensor.conj, (y,), {}) if conjugates else y
    return recorder.record(name, (tensor,), {})


def _order_transposed_axes(ndim: int, is_batch: bool) -> list[int]:
    """Return the order of the axes of T, or of mT for a batch of matrices."""
    order = list(range(ndim))
    return [*order[:-2], *order[:-3:-1]] if is_batch else order[::-1]


def _format_frame(frame: FrameType) -> str:
    """Return a frame's location and source line, as in a traceback."""
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n    {line}'


def _find_origin(func: Any, counts: dict[str, int]) -> tuple[str, str]:
    """Return the public call that a node comes from. `counts`: calls so far, by name."""
    path = func if isinstance(func, str) else qualified_name(func)
    name = path.rpartition(".")[2].strip("_")
    if func is getattr(Tensor, f"__{name}__", None) or path.startswith("torch.Tensor."):
        kind = "method_descriptor"
    elif path.startswith(("torch.nn.functional.", "torch.functional.")):
        kind = "function"
    else:
        kind = "builtin_function_or_method"
    counts[name] = counts.get(name, 0) + 1
    return f"{name}_{counts[name]}", f"{kind}.{name}"


def _unpack_shapes(args: Any, kwargs: Any) -> tuple[tuple, dict[str, Any]]:
    """Turn shapes, which count as leaves, into tuples, whose lengths may be symbolic."""
    return (tuple([tuple(a) if type(a) is Size else a for a in args]),
            {k: tuple(a) if type(a) is Size else a for k, a in kwargs.items()})


def _is_constant(values: Any) -> bool:
    """Return whether a call's arguments contain no tensors and no symbolic values."""
    return not any(isinstance(v, (Tensor, SymbolicSize, SymbolicFloat, SymbolicBool))
                   for v in pytree.tree_leaves(values))
