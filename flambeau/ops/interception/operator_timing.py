"""Profiles: while one is on, operators, in-place writes, nodes and modules note their times.

Each wears a stub meanwhile. `TIMED` holds what layers above add: the calls of modules, optimisers'
steps, and the kernels of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import numpy as np

from ...autograd.node import Node
from ...autograd.profiler import Recorder, Recording, user_stack
from ...tensor.tensor import Tensor
from ..core.dispatch import pointwise_call
from ..core.registry import OPERATORS, PUBLIC
from .code_patching import Swap, swap_of

# Each gives (function, what makes a recorder for it, given the profile's).
TIMED: list[Callable[[Recorder], Iterable[tuple[Any, Callable]]]] = []
_swaps: list[Swap] = []
_FUNCTION, _BACKWARD = 0, 1  # scopes


def _turn(recorder: Recorder | None) -> None:
    while _swaps:
        _swaps.pop().restore()
    if recorder is None:
        return
    targets: dict[Any, Callable] = {}
    for function, name in _operators().items():
        targets[function] = time_operators(recorder, f"aten::{name}")
    targets[Node.apply] = time_as(recorder, lambda node, *_: node.name(), _BACKWARD)
    for more in TIMED:
        targets.update(more(recorder))
    _swaps.extend([swap_of(f, record) for f, record in targets.items()])
    for swap in _swaps:
        swap.start()


def _operators() -> dict[Any, str]:
    """The functions of operators, with the names that events have."""
    result: dict[Any, str] = {}
    for space in ("torch", "Tensor", "nn.functional", "linalg", "special", "fft"):
        prefix = f"{space}_" if space in ("linalg", "special", "fft") else ""
        for name, function in PUBLIC[space].items():
            operator = getattr(function, "operator", None)
            if not isinstance(function, FunctionType) or operator is None:
                continue
            own = operator.name.strip("_")
            if function not in result or (
                name.strip("_") == own and result[function].strip("_") != own
            ):
                result[function] = prefix + name
    for operator in OPERATORS.values():
        if isinstance(operator.function, FunctionType):
            result.setdefault(operator.function, operator.name)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            result.setdefault(twin, operator.name + "_")
    for function in vars(Tensor).values():
        if (made_of := pointwise_call(function)) is not None:
            result.setdefault(function, made_of.operator.name.strip("_"))
    for name in ("__matmul__", "__getitem__", "__setitem__", "view", "item", "copy_", "detach"):
        function = vars(Tensor).get(name)
        if isinstance(function, FunctionType):
            result.setdefault(function, _SHORT_CUTS.get(name, name))
    return result


_SHORT_CUTS = {"__matmul__": "matmul", "__getitem__": "index", "__setitem__": "index_put_"}


def time_operators(recorder: Recorder, name: str) -> Callable:
    """What a function does while the profile is on: the same, noting when."""
    note, clock, thread = recorder.events.append, perf_counter_ns, get_ident

    def plain(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        begin = clock()
        try:
            return original(*args, **kwargs)
        finally:
            note((name, begin, clock(), thread(), None, None, 0, _FUNCTION))

    def detailed(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        shapes = [_shape(a) for a in args] if recorder.shapes else None
        stack = user_stack(2) if recorder.stack else None
        size, begin = 0, clock()
        try:
            y = original(*args, **kwargs)
            end = clock()
            if recorder.memory:
                size = _made(y, args)
            return y
        finally:
            note((name, begin, locals().get("end") or clock(), thread(), shapes, stack, size,
                  _FUNCTION))

    return detailed if recorder.shapes or recorder.stack or recorder.memory else plain


def time_as(
    recorder: Recorder, name: Callable[..., str], scope: int = _FUNCTION
) -> Callable:
    """A recorder for calls whose event is named after their arguments."""

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        stack = user_stack(2) if recorder.stack else None
        begin = perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            recorder.events.append((
                name(*args), begin, perf_counter_ns(), get_ident(), None, stack, 0, scope,
            ))

    return record


def _shape(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value._array.shape)
    if value.__class__ in (list, tuple) and value and isinstance(value[0], Tensor):
        return [_shape(v) for v in value]
    return []


def _made(y: Any, args: tuple) -> int:
    """Bytes of the results that lie in memory of their own, not an argument's."""
    if isinstance(y, Tensor):
        array = y._array
        if any(y is a for a in args) or array.__class__ is not np.ndarray:
            return 0
        return 0 if array.base is not None and isinstance(array.base, np.ndarray) else array.nbytes
    if isinstance(y, (list, tuple)):
        return sum(_made(v, args) for v in y)
    return 0


Recording.turn = staticmethod(_turn)
