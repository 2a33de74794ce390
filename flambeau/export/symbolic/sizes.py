"""Symbolic numbers: sizes that vary between calls. Arithmetic on them adds nodes to the graph.

A trace runs on two inputs of different lengths at once. A length that differs between the two is
dynamic: an int with the first input's value that also holds the second value and a graph node.
"""

from __future__ import annotations

import linecache
import operator
from collections.abc import Callable
from typing import Any

from ..._higher_order_ops.active_export import active_recorder
from ...fx.node import Node
from ...fx.trace_errors import explain
from ...native.foundation.user_frames import find_user_frame
from ...tensor.symbolic_length import SymFloat, SymInt
from ..errors import UserError, UserErrorType
from .arithmetic import combine
from .conditions import NEGATIONS, SymbolicBool, SymbolicValue, build_undecided_error
from .expressions import Expression, Guard, SymbolTable

__all__ = ["SpecializationError", "SymbolicFloat", "SymbolicSize", "get_first_value",
           "get_second_value"]

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class SpecializationError(UserError):
    """The program's control flow depends on the length of a dynamic dimension."""

    def __init__(self, msg: str) -> None:
        super().__init__(UserErrorType.CONSTRAINT_VIOLATION, msg)


class _Number(SymbolicValue):
    """A symbolic number: its value for each input, and its node."""

    table: SymbolTable
    other: Any
    unbacked: bool

    def __bool__(self) -> bool:
        return bool(operator.ne(self, 0))

    def apply_function(self, function: Callable[..., Any], args: tuple) -> Any:
        """Apply a function to numbers that include this one."""
        return compute(function, function.__name__, args)


@SymInt.register
class SymbolicSize(_Number, int):
    """A symbolic int.

    `other`: its value for the trace's second input. `expression`: its linear form in symbols.
    """

    expression: Expression

    def __new__(cls, value: int, other: int, make: Callable[[], Node], expression: Expression,
                table: SymbolTable) -> SymbolicSize:
        size = int.__new__(cls, value)
        size.other, size._make, size._node = other, make, None
        size.expression, size.table = expression, table
        size.unbacked = expression.unbacked
        return size

    __hash__ = int.__hash__

    def __int__(self) -> int:
        return self

    __index__ = __int__

    def __repr__(self) -> str:
        return repr(self.expression)

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return int, (get_first_value(self),)

    def __deepcopy__(self, memo: Any) -> SymbolicSize:
        return self


class SymbolicFloat(_Number, float, SymFloat):
    """A symbolic float."""

    def __new__(cls, value: float, other: float, make: Callable[[], Node], unbacked: bool,
                table: SymbolTable) -> SymbolicFloat:
        result = float.__new__(cls, value)
        result.other, result._make, result._node = other, make, None
        result.unbacked, result.table = unbacked, table
        return result

    __hash__ = float.__hash__

    def __reduce__(self) -> Any:
        return float, (get_first_value(self),)

    def __deepcopy__(self, memo: Any) -> SymbolicFloat:
        return self

    def __int__(self) -> int:
        if self.unbacked:
            raise build_undecided_error("int of a number that a tensor holds")
        return int(get_first_value(self))


def get_first_value(value: Any) -> Any:
    """Return the value for the first input."""
    if isinstance(value, SymbolicSize):
        return int.__add__(value, 0)
    if isinstance(value, SymbolicFloat):
        return float.__add__(value, 0.0)
    return value.value if isinstance(value, SymbolicBool) else value


def get_second_value(value: Any) -> Any:
    """Return the value for the second input."""
    if isinstance(value, (SymbolicSize, SymbolicFloat)):
        return value.other
    return value.value if isinstance(value, SymbolicBool) else value


# ---------------------------------------------------------------------------------- arithmetic


def _find_expression(value: Any) -> Expression:
    return value.expression if isinstance(value, SymbolicSize) else Expression((), int(value))


def _unwrap_node(value: Any) -> Any:
    return value.node if isinstance(value, SymbolicValue) else value


def _add_call(function: Callable[..., Any], args: tuple) -> Node:
    """Add a node to its arguments' graph, or to the active recorder's if these differ."""
    nodes = [_unwrap_node(a) for a in args]
    graphs = {n.graph for n in nodes if isinstance(n, Node)}
    if len(graphs) > 1:
        recorder = active_recorder()
        nodes, graphs = [recorder.node_of(a) for a in args], {recorder.graph}
    return graphs.pop().call_function(function, tuple(nodes))


def compute(function: Callable[..., Any], name: str, args: tuple) -> Any:
    """Apply a function to numbers of which at least one is symbolic."""
    own = next(a for a in args if isinstance(a, (SymbolicSize, SymbolicFloat)))
    value, other = function(*map(get_first_value, args)), function(*map(get_second_value, args))
    unbacked = any(getattr(a, "unbacked", False) for a in args)
    if value == other and not unbacked and name not in ("neg", "floordiv"):  # 4 // 2 is 5 // 2
        return value

    def make() -> Node:
        return _add_call(function, args)

    if isinstance(value, int):
        if any(isinstance(a, float) for a in args):
            symbol = own.table.add("i", value, other, unbacked=unbacked)
            expression = Expression([(symbol, 1)])
        else:
            expression = combine(
                name, [_find_expression(a) for a in args], value, other, own.table
            )
        return SymbolicSize(value, other, make, expression, own.table)
    return SymbolicFloat(value, other, make, unbacked, own.table)


def _create_arithmetic(name: str, reflected: bool) -> Callable[..., Any]:
    function: Any = getattr(operator, name)

    def method(self: Any, *others: Any) -> Any:
        args = (*others, self) if reflected else (self, *others)
        if not all(isinstance(a, (int, float)) for a in args):
            return NotImplemented
        return compute(function, name, args)

    return method


def _create_comparison(name: str) -> Callable[..., Any]:
    def method(self: Any, operand: Any) -> Any:
        return compare(name, self, operand) if isinstance(operand, (int, float)) else NotImplemented

    return method


def compare(name: str, a: Any, b: Any) -> bool | SymbolicBool:
    """Compare a symbolic number with a number.

    The answer is a condition if it depends on values in tensors. Else it must be the same for both
    inputs, and becomes a guard of the program.
    """
    function: Any = getattr(operator, name)
    are_sizes = isinstance(a, SymbolicSize) and isinstance(b, int)
    difference = _find_expression(a).add(_find_expression(b), -1) if are_sizes else None
    answer: bool = function(get_first_value(a), get_first_value(b))
    text = f"{a!r} {_SIGNS[name]} {b!r}"
    if a.unbacked or getattr(b, "unbacked", False):
        return SymbolicBool(answer, lambda: _add_call(function, (a, b)), text, name, difference,
                            a.table)
    if answer != function(get_second_value(a), get_second_value(b)):
        raise _build_specialization_error(name, a, b)
    if difference is not None:
        _add_guard(name if answer else NEGATIONS[name], difference, text)
    return answer


def _build_specialization_error(name: str, a: Any, b: Any) -> SpecializationError:
    error = SpecializationError(
        f"Constraints violated: the program decides by a dynamic size ({get_first_value(a)} here) "
        f"{name} {get_first_value(b)}, which not all its sizes answer alike"
    )
    explain(error, "Take the dimension out of `dynamic_shapes`, or write the program without this "
                   "decision.")
    return error


def _add_guard(relation: str, difference: Expression, text: str) -> None:
    """Add to a symbol the guard that a decision implies; `text` stands for a missing line."""
    if len(difference.terms) != 1:
        return
    (symbol, factor), = difference.terms
    frame, location = find_user_frame(), text
    if frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        location = f"{path}:{line}: {linecache.getline(path, line).strip()}"
    symbol.guards.append(Guard(relation, factor, difference.constant, location))


for _cls in (SymbolicSize, SymbolicFloat):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_cls, f"__{_name}__", _create_arithmetic(_name, False))
        setattr(_cls, f"__r{_name}__", _create_arithmetic(_name, True))
    _cls.__neg__ = _create_arithmetic("neg", False)
    for _name in _SIGNS:
        setattr(_cls, f"__{_name}__", _create_comparison(_name))
