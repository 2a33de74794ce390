"""Which functions a capture swaps, and what records each: operators, and all others of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...ops.core.dispatch import _stub as _unwritten
from ...ops.core import inplace as in_place
from ...ops.core.dispatch import written
from ...ops.core.registry import OPERATORS, PUBLIC, Kind, Operator
from ...tensor.tensor import Tensor
from .recorder import Recorder
from .code_patching import Swap, clone



class LateSwap(Swap):
    """An operator whose function is not written yet: it is when the capture calls it."""

    __slots__ = ("made", "operator")

    def __init__(self, function: Any, recorder: Callable, operator: Operator) -> None:
        self.operator, self.made = operator, None
        super().__init__(function, lambda _, args, kwargs: recorder(self.call, args, kwargs))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator's own function, writing it first."""
        if self.made is None:
            self.operator.source, self.made = written(self.operator)
            self.function.__globals__.update(self.made.__globals__)
            self.code, self.defaults = self.made.__code__, self.made.__defaults__
            self.kwdefaults = self.made.__kwdefaults__
        return self.made(*args, **kwargs)


def _functions(recorder: Recorder) -> list[tuple[Any, Callable, Operator | None]]:
    """Every function to swap, with its recorder."""
    from .record_writes import bypasses

    found: dict[int, tuple[Any, Callable, Operator | None]] = {}
    for function, record in bypasses(recorder):
        found[id(function)] = (function, record, None)
    for operator in OPERATORS.values():
        if operator.kind is not Kind.COMPOSITE:
            entry = (operator.function, recorder.operator(operator), operator)
            found.setdefault(id(operator.function), entry)
            twin = getattr(operator, "twin", None)
            if twin is not None:
                found.setdefault(id(twin), (twin, _through(twin), None))
    for function in vars(Tensor).values():
        if _is_function(function) and id(function) not in found:
            free = function.__code__.co_freevars
            if "operator" in free and "body" in free:  # the closures of Python's own operators
                operator = function.__closure__[free.index("operator")].cell_contents
                record = recorder.operator(operator, swapped="forward" in free)
                found[id(function)] = (function, record, operator)
    for names in PUBLIC.values():
        for name, function in names.items():
            if _is_function(function) and id(function) not in found:
                found[id(function)] = (function, recorder.checked(name), None)
    return list(found.values())


def _is_function(x: Any) -> bool:
    return type(x) is type(_is_function)


def _through(twin: Any) -> Callable:
    """The recorder of an in-place twin: it runs without its short cut, so that its parts show."""
    free = twin.__code__.co_freevars
    cells = list(twin.__closure__)
    cells[free.index("direct")] = type(cells[0])(None)
    longer = clone(twin, tuple(cells), _WITHOUT_KERNELS)
    return lambda original, args, kwargs: longer(*args, **kwargs)


# What a twin's code sees: kernels that write over its operand would show nothing.
_WITHOUT_KERNELS = {**vars(in_place), "_by_kernel": lambda *_: False}


_swaps: list[Swap] = []  # of the capture that is on; what Ctrl-C left of an earlier one


def swap_all(recorder: Recorder) -> None:
    """Swaps every function that is to be recorded."""
    restore_all()
    for function, record, operator in _functions(recorder):
        if operator is not None and function.__code__ is _unwritten.__code__:
            swap: Swap = LateSwap(function, record, operator)
        else:
            swap = Swap(function, record)
        _swaps.append(swap)
        swap.start()


def restore_all() -> None:
    """Puts all functions back. Ctrl-C meanwhile is raised when they are: half of them would stay
    swapped."""
    late = None
    while _swaps:
        try:
            while _swaps:
                _swaps[-1].restore()
                _swaps.pop()
        except KeyboardInterrupt as error:
            late = error
    if late is not None:
        raise late


def swap_of(function: Any, recorder: Callable) -> Swap:
    """The swap of one public function, whose code may have to be written yet."""
    if function.__code__ is _unwritten.__code__:
        return LateSwap(function, recorder, function.operator)
    return Swap(function, recorder)


def swaps_of(operators: Iterable[Operator], recorder: Callable) -> list[Swap]:
    """Swaps the functions of some operators, and Python's own operators that are made of them.

    `recorder` gives what records an operator's calls.
    """
    wanted = {operator.name: operator for operator in operators}
    swaps: list[Swap] = []
    for operator in wanted.values():
        swaps.append(swap_of(operator.function, recorder(operator)))
    for function in set(filter(_is_function, vars(Tensor).values())):
        free = function.__code__.co_freevars
        if "operator" in free and "body" in free:
            operator = function.__closure__[free.index("operator")].cell_contents
            if wanted.get(operator.name) is operator:
                swaps.append(Swap(function, recorder(operator)))
    for swap in swaps:
        swap.start()
    return swaps
