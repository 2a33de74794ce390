"""Numbers of a body as operands of its kernel.

Kernels have a body's numbers as constants, which costs least. A program that changes them from call
to call (a learning rate, a bound) would compile a kernel for each: after a few, the numbers become
operands, and one kernel serves all. Small whole numbers stay constants, because bodies have
shortcuts for some. Bodies that decide by an order of numbers cannot be traced so; NumPy computes
them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import isfinite
from types import CellType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...native.target.eager_costs import MAX_KERNELS_BY_NUMBERS

_constant_kernels: Counter[Hashable] = Counter()  # by a body's pattern
_SHORTCUTS = range(-16, 17)  # numbers for which a body may have a shortcut


def _varies(value: Any) -> bool:
    if value.__class__ is int:
        return abs(value) < sys.maxsize and value not in _SHORTCUTS
    return value.__class__ is float and isfinite(value) and value not in _SHORTCUTS


class Lifted(NamedTuple):
    """A body without its numbers."""

    pattern: Hashable  # the same for all numbers
    numbers: tuple[float, ...]  # or ints
    bind: Callable[[Sequence[Any]], Callable]  # the body with other numbers, or kernel Values


def lift_call(body: Any, operands: tuple, plain: tuple, named: dict[str, Any]) -> Lifted:
    """Lift the numbers of body(*operands, *plain, **named), a function of the arrays among the
    operands."""
    count = len(operands)
    values = (*operands, *plain, *named.values())

    def bind(numbers: Sequence[Any]) -> Callable:
        def formula(*arrays: Any) -> Any:
            next_array, next_number = iter(arrays), iter(numbers)
            full = [next(next_array) if v.__class__ is np.ndarray
                    else next(next_number) if _varies(v) else v for v in values]
            end = count + len(plain)
            return body(*full[:end], **dict(zip(named, full[end:], strict=True)))

        return formula

    pattern = [body, count, *named]
    for v in values:
        pattern += [v.__class__] if v.__class__ is np.ndarray or _varies(v) else [repr(v)]
    return Lifted(tuple(pattern), tuple(filter(_varies, values)), bind)


def lift_closure(body: Any) -> Lifted | None:
    """Lift the numbers that a function and the functions it refers to captured."""
    if body.__class__ is not FunctionType or body.__closure__ is None:
        return None
    numbers: list[float] = []
    pattern = _read_cells(body, numbers)
    return Lifted(pattern, tuple(numbers), lambda values: _replace_numbers(body, iter(values)))


def _read_cells(function: FunctionType, numbers: list[float]) -> Hashable:
    """Collect a function's numbers; return its code and what else it captured."""
    pattern: list[Hashable] = [function.__code__]
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        if _varies(value):
            numbers.append(value)
            pattern.append(value.__class__)
        elif value.__class__ is FunctionType and value.__closure__ is not None:
            pattern.append(_read_cells(value, numbers))
        else:
            pattern += [repr(value) if value.__class__ is float else value, value.__class__]
    return tuple(pattern)


def _replace_numbers(function: FunctionType, values: Iterator[Any]) -> FunctionType:
    """Return the function with other numbers, in the order in which `_read_cells` meets them."""
    cells = []
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        if _varies(value):
            cell = CellType(next(values))
        elif value.__class__ is FunctionType and value.__closure__ is not None:
            cell = CellType(_replace_numbers(value, values))
        cells.append(cell)
    copy = FunctionType(function.__code__, function.__globals__, function.__name__,
                        function.__defaults__, tuple(cells))
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def admits_constants(lifted: Lifted) -> bool:
    """Count a new choice of numbers; return whether it gets a kernel with them as constants."""
    _constant_kernels[lifted.pattern] += 1
    return _constant_kernels[lifted.pattern] <= MAX_KERNELS_BY_NUMBERS
