"""Profiles: records the times of operators, in-place writes, nodes and modules while one is on.

Each has a stub during a profile. `TIMED` holds additions from the layers above: module calls,
optimizer steps, and the kernels of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import numpy as np

from ...autograd import engine
from ...autograd.node import Node
from ...autograd.traces.chrome_trace import TraceSwitches
from ...autograd.traces.flops import count_flops
from ...autograd.traces.recorder import (
    Details, Recorder, Recording, RecordScope, collect_user_stack, read_details,
)
from ...native.foundation.method_patches import library_attributes
from ...tensor.layout import get_strides
from ...tensor.tensor import Tensor
from ...tensor.tree import collect_leaves
from ..core.dispatch import find_pointwise_operator
from ..core.operator import OPERATORS, PUBLIC
from ..registration.aten_schemas import find_overload
from .code_patching import Swap, swap_of
from .operator_arguments import list_arguments

# Each yields (function, its timing observer) pairs, whole the profile's recorder.
TIMED: list[Callable[[Recorder], Iterable[tuple[Any, Callable]]]] = []
_swaps: list[Swap] = []
# Scopes as plain integers: the garbage collector stops tracking tuples of plain values.
_FUNCTION, _NODE = int(RecordScope.FUNCTION), int(RecordScope.BACKWARD_FUNCTION)


def _turn(recorder: Recorder | None) -> None:
    while _swaps:
        _swaps.pop().restore()
    engine.set_observers_of_leaves(0)
    if recorder is None:
        return
    targets: dict[Any, Callable] = {}
    for function, name in _list_operators().items():
        targets[function] = time_operators(recorder, f"aten::{name}", _EXPANDED.get(name))
    targets[Node.apply] = _time_nodes(recorder)
    if recorder.shapes or recorder.memory:
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
    for name in _FACTORIES:
        function = PUBLIC["torch"].get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, name)
    for name in ("__matmul__", "__getitem__", "__setitem__", "view", "item", "copy_", "fill_",
                 "zero_", "detach", "set_", "resize_"):
        function = library_attributes(Tensor).get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, _SHORT_CUTS.get(name, name))
    return result


# Factories take no tensors, so they are not operators here.
_FACTORIES = (
    "empty zeros ones full eye arange linspace logspace rand randn randint randperm empty_like "
    "zeros_like ones_like full_like rand_like randn_like randint_like empty_strided").split()
_SHORT_CUTS = {"__matmul__": "matmul"}


def _split_factory(event: tuple, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple]:
    """Return a factory's event, and at its end the `empty` that the memory is counted to."""
    return event, ("aten::empty", read_details(event).computed_ns or event[2], *event[2:4], None,
                   *event[5:7])


def _split_product(event: tuple, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple]:
    """Return a matmul event, and within it the product chosen by the operands' ranks."""
    a, b = (x.ndim if isinstance(x, Tensor) else 2 for x in (*args, None, None)[:2])
    kind = "dot" if a == b == 1 else "mv" if (a, b) == (2, 1) else "mm" if b <= 2 else "bmm"
    return event, _create_part(event, f"aten::{kind}")


def _split_linear(event: tuple, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple]:
    """Return a linear event, and within it the product."""
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    return event, _create_part(event, "aten::mm" if bias is None else "aten::addmm")


def _create_part(event: tuple, name: str) -> tuple:
    """Return an inner event of the same span; only the outer one counts operations."""
    if event[-1].__class__ is Details:
        event = (*event[:-1], event[-1]._replace(flops=0))
    return (name, *event[1:])


def _classify_index(index: Any) -> str:
    """Return the operator that an index calls: a view operator, or `index`."""
    kinds = {item.__class__ for item in (index if index.__class__ is tuple else (index,))}
    if not kinds <= {int, slice, type(None), type(Ellipsis)}:
        return "aten::index"
    views = ((int, "aten::select"), (slice, "aten::slice"), (type(None), "aten::unsqueeze"))
    return next((name for kind, name in views if kind in kinds), "aten::alias")


def _read(event: tuple, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple]:
    return ((_classify_index(args[1]), *event[1:]),)


def _write(event: tuple, args: tuple, kwargs: dict[str, Any]) -> Iterable[tuple]:
    """Return the event of taking the view, with zero duration, and the write."""
    kind = _classify_index(args[1])
    if kind == "aten::index":
        return (("aten::index_put_", *event[1:]),)
    before_ns = event[1] - 1
    name = "aten::copy_" if isinstance(args[2], Tensor) else "aten::fill_"
    return (kind, before_ns, before_ns, *event[3:7]), (name, *event[1:])


# Calls that are several events in PyTorch, or whose event depends on the index.
_EXPANDED: dict[str, Callable] = {
    "matmul": _split_product, "linear": _split_linear, "__getitem__": _read, "__setitem__": _write,
    **dict.fromkeys(("zeros", "ones", "full", "eye", "arange", "linspace", "logspace", "rand",
                     "randn", "randint", "randperm"), _split_factory)}


def time_operators(recorder: Recorder, name: str, expand: Callable | None = None) -> Callable:
    """Return an observer that runs a function and records its times.

    `expand(event, args, kwargs)`: the events to record in place of one.
    """
    is_detailed = recorder.shapes or recorder.stack or recorder.memory or recorder.flops
    if is_detailed or recorder.observer is not None:
        return _time_in_detail(recorder, name, expand)
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
        if node is not None:
            event = (*event, _find_sequence_number(node))
        if expand is None:
            note(event)
        else:
            recorder.events.extend(expand(event, args, kwargs))
        return y

    return plain


def _time_in_detail(recorder: Recorder, name: str, expand: Callable | None) -> Callable:
    """`time_operators` for a recorder that wants more than times."""
    note, clock, python = recorder.events.append, perf_counter_ns, recorder.python
    observer, bare = recorder.observer, name.removeprefix("aten::")

    def detailed(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        paused = python is not None and python.pause()
        wants_all = recorder.shapes or observer is not None
        arguments = list_arguments(bare, original, args, kwargs) if wants_all else args
        inputs = None if observer is None else observer.describe(arguments, is_operator=True)
        shapes = [_read_shape(a) for a in arguments] if recorder.shapes else None
        values = recorder.numbers.record_all(arguments) if recorder.shapes else ()
        stack = collect_user_stack(2) if recorder.stack else None
        before = getattr(args[0], "_array", None) if args else None
        y, computed, begin = None, 0, clock()
        try:
            y = original(*args, **kwargs)
            computed = clock()
            if recorder.memory:
                _watch(recorder, y, args, before)
            return y
        finally:
            end = clock()
            described = None if observer is None else (
                inputs, observer.describe(y if isinstance(y, tuple) else (y,)),
                str(find_overload(bare, args, kwargs) or ""))
            details = _collect_details(recorder, name, arguments, shapes, y)._replace(
                computed_ns=computed or end, described=described, values=values)
            event = (name, begin, end, get_ident(), shapes, stack, _FUNCTION, details)
            note(event) if expand is None else recorder.events.extend(expand(event, args, kwargs))
            if paused and python is not None:
                python.resume()

    return detailed


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
    plain = tuple(None if kind is not None or not TraceSwitches.arguments else a
                  for a, kind in zip(args, dtypes, strict=True))
    return Details(sequence, plain, tuple(_read_strides(a) for a in args), flops, dtypes)


def _time_nodes(recorder: Recorder) -> Callable:
    """Return an observer of nodes; in detail it notes their cotangents, and results' memory."""
    simple = time_as(recorder, lambda node, *_: node.name(), _NODE, lambda node, *_: node.sequence)
    if not recorder.shapes and not recorder.memory:
        return simple

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        node, stack = args[0], collect_user_stack(2) if recorder.stack else None
        values = recorder.numbers.record_all(_list_read_tensors(node, args[1:])) \
            if recorder.shapes else ()
        begin = perf_counter_ns()
        try:
            y = original(*args, **kwargs)
            if recorder.memory:
                _watch(recorder, y, args)
            return y
        finally:
            recorder.events.append((node.name(), begin, perf_counter_ns(), get_ident(), None, stack,
                                    _NODE, Details(node.sequence, values=values)))

    return record


def _list_read_tensors(node: Node, cotangents: Any) -> list[Tensor]:
    """Return the saved tensors and the cotangents that a node reads."""
    saved = [v for v in node.saved or () if isinstance(v, Tensor)]
    return [*saved, *collect_leaves(Tensor, cotangents)]


def _time_leaves(recorder: Recorder) -> Callable:
    """Return an observer of gradients' accumulation: the event's argument is the leaf's grad."""

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        begin, stack = perf_counter_ns(), collect_user_stack(2) if recorder.stack else None
        try:
            return original(*args, **kwargs)
        finally:
            grad = args[0]._grad
            if recorder.memory and grad is not None:
                _watch(recorder, grad, (grad,))
            recorder.events.append((
                "torch::autograd::AccumulateGrad", begin, perf_counter_ns(), get_ident(), None,
                stack, _NODE, Details(values=recorder.numbers.record_all([grad]))))

    return record


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
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            number = -1 if sequence is None else sequence(*args)
            note((name(*args), begin, clock(), get_ident(), None, stack, scope,
                  number if details is None else details))

    return record


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
    """Note the memory of results, and its allocation if they own it and are not arguments.

    `before`: the array that the first argument had before the call, which may have replaced it.
    """
    for result in collect_leaves(Tensor, y):
        array = result._array
        if array.__class__ is not np.ndarray:
            continue
        if any(result is a for a in args):
            is_new = array.base is None and result is args[0] and array is not before
        else:
            is_new = not isinstance(array.base, np.ndarray)
        if is_new:
            recorder.watch(array)
        numbers = recorder.numbers
        recorder.holders.add((numbers.number(result), numbers.number_memory(array)[0]))


Recording.turn = staticmethod(_turn)
