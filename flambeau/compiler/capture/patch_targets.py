"""Patch targets: the functions that a recording replaces, and the recorder of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...native.foundation.method_patches import library_attributes
from ...ops.core.dispatch import find_pointwise_operator
from ...ops.core.operator import OPERATORS, PUBLIC, Kind, Operator
from ...ops.interception import window_stubs, torch_dispatch, torch_function
from ...ops.interception.code_patching import (
    Swap, restore_stubs, swap_of,
)
from ...ops.interception.stub_set import STUB_SETS
from ...tensor.tensor import Tensor
from .recorder import Recorder, bypass_fast_path, make_composite_recorder, record_nothing


def _list_functions(recorder: Recorder) -> list[tuple[Any, Callable, Operator | None]]:
    """Return every function to patch, with its recorder."""
    from .record_writes import bypasses

    result: dict[int, tuple[Any, Callable, Operator | None]] = {}
    for function, record in bypasses(recorder):
        result[id(function)] = (function, record, None)
    for operator in OPERATORS.values():
        if operator.kind is not Kind.COMPOSITE:
            entry = (operator.function, recorder.operator(operator), operator)
            result.setdefault(id(operator.function), entry)
            twin = getattr(operator, "twin", None)
            if twin is not None:
                result.setdefault(id(twin), (twin, bypass_fast_path(twin), None))
    for function in library_attributes(Tensor).values():
        if (call := find_pointwise_operator(function)) is not None:
            record = recorder.operator(call.operator, swapped=call.swapped)
            result.setdefault(id(function), (function, record, call.operator))
    for names in PUBLIC.values():
        for name, function in names.items():
            if _is_function(function) and id(function) not in result:
                record = make_composite_recorder(recorder, name, function)
                result[id(function)] = (function, record, None)
    return list(result.values())


def _is_function(x: Any) -> bool:
    return type(x) is type(_is_function)


_swaps: list[Any] = []  # active swaps, including any that Ctrl-C left behind
_known_swaps: dict[int, Swap] = {}  # swaps of earlier captures, by function id, for reuse


def swap_all(recorder: Recorder) -> None:
    """Install the stubs of all recorded functions."""
    restore_all()
    restore_stubs()
    for stubs in STUB_SETS:
        _swaps.append(stubs)
        stubs.suspend()
    functions = _list_functions(recorder)
    recorded = {id(function) for function, *_ in functions}
    for function, record, _ in (*functions, *_find_unrecorded(recorded)):
        swap = _swap(function, torch_function.as_internal(function, record))
        checks = (torch_function.check_for(function, recorder.problem),
                  _create_wrapper_check(function, recorder.problem),
                  _create_sparse_check(function, recorder.problem))
        swap.check = _chain_checks([check for check in checks if check is not None])
        _swaps.append(swap)
        swap.start()


def _find_unrecorded(recorded: set[int]) -> list[tuple[Any, Callable, Operator | None]]:
    """Return the functions that only dispatch calls on tensors of some kind or overriding class:
    the stubs that do so outside of captures are suspended."""
    dispatching = {function for stubs in STUB_SETS if stubs.permanent for function in stubs.targets}
    return [(function, record_nothing, None) for function in dispatching | {*window_stubs.HANDLERS}
            if id(function) not in recorded]


def _chain_checks(checks: list[Callable]) -> Callable | None:
    """Return a check that returns the first answer of several, or None if there are none."""
    if len(checks) < 2:
        return checks[0] if checks else None

    def check(args: tuple, kwargs: dict[str, Any]) -> Callable | None:
        for single in checks:
            handler = single(args, kwargs)
            if handler is not None:
                return handler
        return None

    return check


def _swap(function: Any, record: Callable) -> Swap:
    """Reuse the last capture's swap, unless the function has been regenerated since."""
    swap = _known_swaps.get(id(function))
    if swap is None or swap.function is not function or swap.code is not function.__code__ \
            or swap.written is not None:
        swap = _known_swaps[id(function)] = swap_of(function, record)
    else:
        swap.rebind(record)
    return swap


def _create_wrapper_check(function: Any, problem: Callable[[str], None]) -> Callable | None:
    """Return a check that dispatches calls to wrapper subclasses, or None if there are none."""
    if not torch_dispatch.STUBS.permanent:
        return None

    def check(args: tuple, kwargs: dict[str, Any]) -> Callable | None:
        handler = torch_dispatch.find_handler(function, args, kwargs)
        if handler is not None:
            problem("a tensor's class has __torch_dispatch__")
        return handler

    return check


def _create_sparse_check(function: Any, problem: Callable[[str], None]) -> Callable | None:
    """Return a check that dispatches calls on sparse and quantized tensors, or None."""
    if function not in window_stubs.HANDLERS:
        return None

    def check(args: tuple, kwargs: dict[str, Any]) -> Callable | None:
        handler = window_stubs.find_handler(function, args, kwargs)
        if handler is None:
            return None
        problem(f"it uses {handler[0]} tensors")
        return handler[1]

    return check


def restore_all() -> None:
    """Restore all functions. An interrupt meanwhile is raised at the end."""
    failure = None
    while _swaps:
        try:
            while _swaps:
                last = _swaps[-1]
                last.restore()
                if isinstance(last, Swap):  # swaps outlive the recorder, which holds memory
                    last.rebind(record_nothing)
                    last.check = None
                _swaps.pop()
        except KeyboardInterrupt as error:
            failure = error
    if failure is not None:
        raise failure


def swaps_of(operators: Iterable[Operator], recorder: Callable) -> list[Swap]:
    """Swap the functions of some operators, and of the Python operators built from them.

    `recorder` returns the recorder of an operator's calls.
    """
    restore_stubs()
    by_name = {operator.name: operator for operator in operators}
    swaps: list[Swap] = []
    for operator in by_name.values():
        swaps.append(swap_of(operator.function, recorder(operator)))
    for function in set(filter(_is_function, library_attributes(Tensor).values())):
        call = find_pointwise_operator(function)
        if call is not None and by_name.get(call.operator.name) is call.operator:
            swaps.append(Swap(function, recorder(call.operator)))
    for swap in swaps:
        swap.start()
    return swaps
