"""Profiles: records the times of operators, in-place writes, nodes and modules while one is on.

Each has a stub during a profile. `TIMED` holds additions from the layers above: module calls,
optimizer steps, and the kernels of compiled programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from threading import get_ident
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import numpy as np

from ...autograd import engine
from ...autograd.backward import create_ones
from ...autograd.node import Node
from ...autograd.traces.chrome_trace import TraceSwitches
from ...autograd.traces.flops import count_flops
from ...autograd.traces.inner_calls import TimedCall, parse, place, read_argument
from ...autograd.traces.recorder import (
    Details, Event, Recorder, Recording, RecordScope, collect_user_stack, read_event,
)
from ...autograd.traces.tensor_records import find_owner, wrap_number
from ...native.foundation.method_patches import library_attributes
from ...tensor.layout import get_strides
from ...tensor.storage import TypedStorage, UntypedStorage
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..core.dispatch import find_pointwise_operator
from ..core.operator import OPERATORS, PUBLIC
from ..registration.aten_schemas import find_overload, get_schemas
from ..registration.composites import COMPOSITES, STAND_INS, WRAPPED
from .code_patching import Swap, swap_of
from .operator_arguments import complete_arguments, list_arguments
from .torch_function import PYTHON_OPERATORS

# Each yields (function, its timing observer) pairs, whole the profile's recorder.
TIMED: list[Callable[[Recorder], Iterable[tuple[Any, Callable]]]] = []
_swaps: list[Swap] = []
# Scopes as plain integers: the garbage collector stops tracking tuples of plain values.
_EVALUATION = "autograd::engine::evaluate_function: "
_FUNCTION, _NODE = int(RecordScope.FUNCTION), int(RecordScope.BACKWARD_FUNCTION)


def _turn(recorder: Recorder | None) -> None:
    while _swaps:
        _swaps.pop().restore()
    engine.set_observers_of_leaves(0)
    if recorder is None:
        return
    targets: dict[Any, Callable] = {}
    for function, name in _list_operators().items():
        if name.startswith("_") and (public := _find_public_name(name)) is not None:
            recorder.own_names[f"aten::{name}"] = f"aten::{public}"
        targets[function] = time_operators(recorder, f"aten::{name}")
    targets[create_ones] = time_operators(recorder, "aten::ones_like")
    targets[Node.apply] = _time_nodes(recorder)
    targets[engine.add_to_grad] = _time_leaves(recorder)
    engine.set_observers_of_leaves(1)
    for more in TIMED:
        targets.update(more(recorder))
    _swaps.extend([swap_of(f, record) for f, record in targets.items()])
    for swap in _swaps:
        swap.start()


def _list_operators() -> dict[Any, str]:
    """Return the functions of operators, with the names of their events."""
    result: dict[Any, str] = {}
    for space in ("torch", "Tensor", "nn.functional", "linalg", "special", "fft"):
        prefix = f"{space}_" if space in ("linalg", "special", "fft") else ""
        for name, function in PUBLIC[space].items():
            operator = getattr(function, "operator", None)
            if not isinstance(function, FunctionType) or operator is None:
                continue
            operator_name = operator.name.strip("_")
            if function not in result or (
                name.strip("_") == operator_name and result[function].strip("_") != operator_name
            ):
                result[function] = prefix + name
    for operator in OPERATORS.values():
        if isinstance(operator.function, FunctionType):
            result.setdefault(operator.function, operator.name)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            result.setdefault(twin, operator.name + "_")
    for function in library_attributes(Tensor).values():
        if (pointwise := find_pointwise_operator(function)) is not None:
            result.setdefault(function, pointwise.operator.name.strip("_"))
    from ...tensor.sparse import SparseTensor  # the class needs all of Tensor's attributes

    for name, function in vars(SparseTensor).items():
        bare = PYTHON_OPERATORS.get(name, name)
        if isinstance(function, FunctionType) and get_schemas(bare):
            result.setdefault(function, bare)
    for name in _FACTORIES:
        function = PUBLIC["torch"].get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, name)
    for name in ("__matmul__", "__getitem__", "__setitem__", "view", "item", "copy_", "fill_",
                 "zero_", "detach", "set_", "resize_", "to"):
        function = library_attributes(Tensor).get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, _SHORT_CUTS.get(name, name))
    return result


@functools.cache
def _find_public_name(name: str) -> str | None:
    """Return the name of the operator of PyTorch that an operator of flambeau's own is part of."""
    if get_schemas(name) or name.startswith("__"):
        return None
    if name in STAND_INS:
        return STAND_INS[name]
    public = name.lstrip("_")
    while public and not get_schemas(public.rstrip("_")) and public not in PUBLIC["nn.functional"]:
        public = public.rpartition("_")[0]
    return public or None


# Factories take no tensors, so they are not operators here.
_FACTORIES = (
    "empty zeros ones full eye arange linspace logspace rand randn randint randperm empty_like "
    "zeros_like ones_like full_like rand_like randn_like randint_like empty_strided").split()
_SHORT_CUTS = {"__matmul__": "matmul"}


def _classify_index(index: Any) -> str:
    """Return the operator that an index calls: a view operator, or `index`."""
    kinds = {item.__class__ for item in (index if index.__class__ is tuple else (index,))}
    if not kinds <= {int, slice, type(None), type(Ellipsis)}:
        return "aten::index"
    views = ((int, "aten::select"), (slice, "aten::slice"), (type(None), "aten::unsqueeze"))
    return next((name for kind, name in views if kind in kinds), "aten::alias")


def _read(event: Event, args: tuple) -> tuple[Event, ...]:
    return (event._replace(name=_classify_index(args[1])),)


def _write(event: Event, args: tuple) -> tuple[Event, ...]:
    """Return the event of taking the view, with zero duration, and the write."""
    kind = _classify_index(args[1])
    if kind == "aten::index":
        return (event._replace(name="aten::index_put_"),)
    before_ns = event.begin_ns - 1
    view = Event(kind, before_ns, before_ns, event.thread, event.shapes, event.stack, event.scope)
    name = "aten::copy_" if isinstance(args[2], Tensor) else "aten::fill_"
    return view, event._replace(name=name)


# Calls whose event depends on the index.
_EXPANDED: dict[str, Callable] = {"__getitem__": _read, "__setitem__": _write}


def _choose_inner_calls(name: str) -> Callable[[tuple, Any], str] | None:
    """Return the function that declares an operator's inner calls, given arguments and result."""
    declared = COMPOSITES.get(name)
    return (lambda args, y: declared) if isinstance(declared, str) else declared


def time_operators(recorder: Recorder, name: str) -> Callable:
    """Return an observer that runs a function and records its times."""
    bare = name.removeprefix("aten::")
    public = recorder.own_names.get(name, name).removeprefix("aten::")
    expand, choose = _EXPANDED.get(bare), _choose_inner_calls(public)
    is_detailed = recorder.shapes or recorder.stack or recorder.memory or recorder.flops
    if is_detailed or recorder.observer is not None:
        return _time_in_detail(recorder, name, expand, choose)
    note, clock, thread = recorder.events.append, perf_counter_ns, get_ident

    def plain(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        begin = clock()
        try:
            y = original(*args, **kwargs)
        except BaseException:
            note((name, begin, clock(), thread(), None, None, _FUNCTION))
            raise
        end, node = clock(), getattr(y, "_node", None)
        event: tuple[Any, ...] = (name, begin, end, thread(), None, None, _FUNCTION)
        if node is not None or choose is not None:
            event = (*event, -1 if node is None else _find_sequence_number(node))
        if choose is not None:
            values = list_arguments(bare, original, args, kwargs) if kwargs else args
            event = (*event, choose(values, y))
        if expand is None:
            note(event)
        else:
            recorder.events.extend(expand(read_event(event), args))
        return y

    return plain


def _time_in_detail(
    recorder: Recorder, name: str, expand: Callable | None, choose: Callable | None
) -> Callable:
    """`time_operators` for a recorder that wants more than times."""
    note, clock, python = recorder.events.append, perf_counter_ns, recorder.python
    observer, bare = recorder.observer, name.removeprefix("aten::")
    wants_all = recorder.shapes or observer is not None or choose is not None

    def detailed(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        paused = python is not None and python.pause(_name_call(bare, original), 3)
        arguments = list_arguments(bare, original, args, kwargs) if wants_all else args
        inputs = None if observer is None else observer.describe(arguments, is_operator=True)
        shapes = [_read_shape(a) for a in arguments] if recorder.shapes else None
        values = _record_values(
            recorder, bare, complete_arguments(bare, "", arguments)) if recorder.shapes else ()
        stack = collect_user_stack(2) if recorder.stack else None
        before = getattr(args[0], "_array", None) if args and recorder.memory else None
        y, computed, memory, begin = None, 0, None, clock()
        try:
            y = original(*args, **kwargs)
            computed = clock()
            if recorder.memory:
                _watch(recorder, y, args, before)
                del before  # frees what the call has replaced
                memory = computed, clock()
            return y
        finally:
            end = clock()
            described = None if observer is None else (
                inputs, observer.describe(y if isinstance(y, tuple) else (y,)),
                str(find_overload(bare, args, kwargs) or ""))
            details = _collect_details(recorder, name, arguments, shapes, y)._replace(
                described=described, values=values)
            event = Event(name, begin, end, get_ident(), shapes, stack, _FUNCTION, details)
            if choose is not None and computed:
                calls = place(parse(choose(arguments, y)), begin, end, memory)
                event = event._replace(
                    inner=tuple(_create_inner_events(recorder, event, calls, arguments, y)))
            note(event) if expand is None else recorder.events.extend(expand(event, args))
            if paused and python is not None:
                python.resume()

    return detailed


def _name_call(bare: str, original: Callable) -> str:
    """Return the name under which the program calls an operator; Python's operators have dunders.
    """
    is_named = isinstance(original, FunctionType) and not bare.startswith("__")
    return original.__name__ if is_named else bare


def _create_inner_events(
    recorder: Recorder, event: Event, calls: Iterable[TimedCall], args: tuple, y: Any
) -> Iterable[Event]:
    """Yield the events of a composite's inner calls."""
    for call, begin_ns, end_ns in calls:
        name, _, overload = call.name.partition(".")
        shapes, details = None, Details()
        if recorder.shapes:
            arguments = complete_arguments(
                name, overload, [read_argument(text, args, y) for text in call.arguments])
            shapes = [_read_shape(a) for a in arguments]
            details = _collect_details(recorder, name, arguments, shapes, None)._replace(
                values=_record_values(recorder, name, arguments, y))
        if recorder.observer is not None:
            inputs = recorder.observer.describe(
                [read_argument(text, args, y) for text in call.arguments], is_operator=True)
            details = details._replace(described=(inputs, (), ""))
        yield Event(call.event_name, begin_ns, end_ns, event.thread, shapes, event.stack,
                    event.scope, details)


def _record_values(
    recorder: Recorder, name: str, arguments: Iterable[Any], y: Any = None
) -> tuple[Any, ...]:
    """Return the records of arguments; numbers that stand for tensors have records of such.

    `y`: the result that an inner call computes with, whose dtype a converted number has.
    """
    if name in WRAPPED or (y is not None and name in ("to", "_to_copy", "copy_")):
        arguments = [wrap_number(a) if i < 2 else a for i, a in enumerate(arguments)]
    return recorder.numbers.record_all(arguments)


def _find_sequence_number(node: Any) -> int:
    """Return the sequence number of a node, or of the node of an output."""
    number: int | None = getattr(node, "sequence", None)
    return getattr(node.shown(), "sequence", -1) if number is None else number


def _collect_details(
    recorder: Recorder, name: str, args: tuple, shapes: list[Any] | None, y: Any
) -> Details:
    node = getattr(y, "_node", None)
    sequence = -1 if node is None else _find_sequence_number(node)
    flops = 0
    if recorder.flops and isinstance(y, Tensor):
        flops = count_flops(name, shapes or [_read_shape(a) for a in args], _read_shape(y))
    if not recorder.shapes:
        return Details(sequence, flops=flops)
    dtypes = tuple(map(_read_dtypes, args))
    plain = tuple(None if kind is not None or not TraceSwitches.arguments or _holds_memory(a) else a
                  for a, kind in zip(args, dtypes, strict=True))
    return Details(sequence, plain, tuple(_read_strides(a) for a in args), flops, dtypes)


def _time_nodes(recorder: Recorder) -> Callable:
    """Return an observer of nodes; in detail it notes their cotangents, and results' memory."""
    note, clock, thread = recorder.events.append, perf_counter_ns, get_ident
    is_detailed = recorder.shapes or recorder.memory

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        node, evaluated = args[0], clock()
        stack = collect_user_stack(2) if recorder.stack else None
        saved, values = (map(recorder.numbers.record_all, _list_read_tensors(node, args[1:]))
                         if recorder.shapes else ((), ()))
        begin = clock()
        try:
            y = original(*args, **kwargs)
            if recorder.memory:
                _watch(recorder, y, args)
            return y
        finally:
            name, end = node.name(), clock()
            details = Details(node.sequence, values=values, saved=saved) if is_detailed \
                else node.sequence
            note((name, begin, end, thread(), None, stack, _NODE, details))
            note((_EVALUATION + name, evaluated, clock(), thread(), None, stack, _FUNCTION,
                  node.sequence))

    return record


def _list_read_tensors(node: Node, cotangents: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Return the saved tensors and the cotangents that a node reads."""
    saved = [v for v in node.saved or () if isinstance(v, Tensor)]
    return saved, collect_leaves(Tensor, cotangents)


def _time_leaves(recorder: Recorder) -> Callable:
    """Return an observer of gradients' accumulation: the event's argument is the cotangent."""
    name, clock = "torch::autograd::AccumulateGrad", perf_counter_ns

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        (leaf, g), evaluated = args[:2], clock()
        stack = collect_user_stack(2) if recorder.stack else None
        values = recorder.numbers.record_all([g]) if recorder.shapes else ()
        stored, memory, begin = leaf._grad, None, clock()
        del leaf, g  # the engine asks who else refers to the cotangent
        try:
            original(*args, **kwargs)
            computed = clock()
            grad = args[0]._grad
            if recorder.memory and grad is not None:
                _watch(recorder, grad, (grad,), args[1]._array if stored is None else grad._array)
                memory = computed, clock()
        finally:
            end = clock()
            event = Event(name, begin, end, get_ident(), None, stack, _NODE, Details(values=values))
            recorder.events.append(event)
            grad = args[0]._grad
            calls = place(parse(_choose_accumulation(stored, args[1], grad)), begin, end, memory)
            recorder.events.extend(_create_inner_events(
                recorder, event._replace(scope=_FUNCTION), calls, (grad, args[1]), grad))
            recorder.events.append((_EVALUATION + name, evaluated, clock(), get_ident(), None,
                                    stack, _FUNCTION))

    return record


def _choose_accumulation(stored: Tensor | None, g: Tensor, grad: Any) -> str:
    """Return the inner calls of accumulation: the gradient is the cotangent, its copy, or a sum."""
    if stored is not None:
        return "add_(0, 1)" if grad is stored else "add*(0, 1)"
    return "detach(1)[:detach(1)]" if grad is g else \
        "new_empty_strided*(1)[empty_strided*(size, stride)] copy_(0, 1)"


def time_as(
    recorder: Recorder, name: Callable[..., str], scope: int = _FUNCTION,
    sequence: Callable[..., int] | None = None, remarks: Callable[..., Details] | None = None,
) -> Callable:
    """Return an observer for calls whose event is named by their arguments.

    `sequence`: the number of the node that a call runs; `remarks`: the event's details, asked for
    before the call.
    """

    clock, note = perf_counter_ns, recorder.events.append

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        stack = collect_user_stack(2) if recorder.stack else None
        details = None if remarks is None else remarks(*args)
        if recorder.python is not None:
            known = details or Details(-1 if sequence is None else sequence(*args))
            details = Details(*known[:-1], recorder.python.find_running())  # `_replace` is Python
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            number = -1 if sequence is None else sequence(*args)
            note((name(*args), begin, clock(), get_ident(), None, stack, scope,
                  number if details is None else details))

    return record


def _holds_memory(value: Any) -> bool:
    """Return whether an event that keeps the value would keep memory alive: a storage or a list of
    tensors."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(v, (Tensor, UntypedStorage, TypedStorage)) for v in values)


def _read_shape(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value._array.shape)
    if value.__class__ in (list, tuple) and value and isinstance(value[0], Tensor):
        return [_read_shape(v) for v in value]
    return []


def _read_strides(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        array = value._array
        return list(get_strides(array)) if array.__class__ is np.ndarray else []
    if value.__class__ in (list, tuple) and value and isinstance(value[0], Tensor):
        return [_read_strides(v) for v in value]
    return []


def _read_dtypes(value: Any) -> Any:
    """Return a tensor's dtype, those of a list of tensors, or None."""
    if isinstance(value, Tensor):
        return value.dtype
    if value.__class__ in (list, tuple) and value and isinstance(value[0], Tensor):
        return tuple(getattr(v, "dtype", None) for v in value)
    return None


def _watch(recorder: Recorder, y: Any, args: tuple, before: Any = None) -> None:
    """Note the memory of results, and its allocation if it is not that of arguments.

    `before`: the array that the first argument had before the call, which may have replaced it.
    """
    numbers = recorder.numbers
    for result in collect_leaves(Tensor, y):
        array = result._array
        if array.__class__ is not np.ndarray:
            continue
        if any(result is a for a in args):
            is_new = result is args[0] and before.__class__ is np.ndarray \
                and find_owner(array) is not find_owner(before)
        else:
            is_new = not isinstance(array.base, np.ndarray)
        if is_new:
            recorder.watch(find_owner(array))
        if array.nbytes:
            recorder.holders.add((numbers.number(result), numbers.number_memory(array)[0]))


Recording.turn = staticmethod(_turn)
