"""Symbolic numbers: sizes that vary between calls. Arithmetic on them adds nodes to the graph.

A trace runs on two inputs of different lengths at once. A length that differs between the two is
dynamic: an int with the first input's value that also holds the second value and a graph node.
A number read from a tensor is *unbacked*: no input size determines it, so only facts stated with
torch._check can decide a branch on it.
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
from ...tensor.symbolic_length import SymBool, SymFloat, SymInt
from ..errors import GuardOnDataDependentSymNode, UserError, UserErrorType
from .expressions import INFINITE, Expression, SymbolTable

__all__ = ["SpecializationError", "SymbolicBool", "SymbolicFloat", "SymbolicSize",
           "get_first_value", "get_second_value"]

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NEGATIONS = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


class SpecializationError(UserError):
    """The program's control flow depends on the length of a dynamic dimension."""

    def __init__(self, msg: str) -> None:
        super().__init__(UserErrorType.CONSTRAINT_VIOLATION, msg)


class _Number:
    """A symbolic number: its value for each input, and its node."""

    other: Any
    table: SymbolTable
    unbacked: bool
    _make: Callable[[], Node]
    _node: Node | None

    @property
    def node(self) -> Node:
        """The node that computes it, added on first use."""
        if self._node is None:
            self._node = _note_value(self._make(), self, self.table)
        return self._node

    def __bool__(self) -> bool:
        return bool(operator.ne(self, 0))

    def computed(self, function: Callable[..., Any], args: tuple) -> Any:
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


class SymbolicBool(SymBool):
    """A condition on unbacked numbers. torch._check states it; `if` asks whether it holds."""

    def __init__(self, value: bool, make: Callable[[], Node], text: str, relation: str = "",
                 difference: Expression | None = None, table: SymbolTable | None = None) -> None:
        self.value, self._make, self.text = value, make, text
        self._node: Node | None = None
        self.relation, self.difference, self.table = relation, difference, table

    @property
    def node(self) -> Node:
        """The node that computes it, added on first use."""
        if self._node is None:
            self._node = _note_value(self._make(), self, self.table)
        return self._node

    def __repr__(self) -> str:
        return self.text

    def computed(self, function: Callable[..., Any], args: tuple) -> Any:
        """Return the negation for torch.sym_not; raise NotImplementedError otherwise."""
        if function.__name__ != "sym_not":
            raise NotImplementedError(f"torch.export: {function.__name__} of a condition")

        def make() -> Node:
            return self.node.graph.call_function(function, (self.node,))

        return SymbolicBool(not self.value, make, f"not ({self.text})",
                            _NEGATIONS.get(self.relation, ""), self.difference, self.table)

    def known(self) -> bool | None:
        """Return whether the condition holds, or None if unknown."""
        if self.difference is None or self.table is None:
            return None
        return self.table.answer(self.relation, self.difference)

    def __bool__(self) -> bool:
        answer = self.known()
        if answer is None:
            raise build_undecided_error(self.text)
        return answer

    def state(self, message: Any = None) -> None:
        """Add a runtime assertion to the graph; the rest of the trace may rely on it."""
        answer = self.known()
        if answer:
            return
        if answer is False or not self.value:
            raise RuntimeError(str(message()) if callable(message) else
                               f"Expected cond to be True, but got False: {self.text}")
        from ...ops.core.aten import aten

        node = self.node
        text = f"Runtime assertion failed for expression {self.text} on node '{node.name}'"
        call = node.graph.create_node("call_function", aten._assert_scalar.default, (node, text),
                                      {}, "_assert_scalar")
        _note_value(call, None, self.table)
        if self.difference is not None and self.table is not None:
            self.table.state(self.relation, self.difference)


def _note_value(node: Node, value: Any, table: SymbolTable | None) -> Node:
    node.meta.setdefault("val", value)
    if table is not None:
        table.note(node)
    return node


def build_undecided_error(text: str) -> GuardOnDataDependentSymNode:
    """Return the error for a branch on a number read from a tensor."""
    error = GuardOnDataDependentSymNode(
        f"Could not guard on data-dependent expression {text} (unhinted: {text})"
    )
    explain(error, "State what holds by torch._check, or compute with tensors: torch.where for a "
                   "branch, torch.cond for two ways.")
    return error


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


def _combine_expressions(
    name: str, args: tuple, value: int, other: int, table: SymbolTable
) -> Expression:
    """Return the expression of a computed size: linear in symbols, or one new symbol."""
    a, b = (_find_expression(x) for x in args) if len(args) == 2 else (Expression(()),
                                                                      _find_expression(*args))
    if name in ("add", "sub", "neg"):
        return a.plus(b, 1 if name == "add" else -1)
    if name == "mul" and not (a.terms and b.terms):
        return a.scaled(b.constant) if a.terms else b.scaled(a.constant)
    sign = {"mul": "*", "floordiv": "//", "mod": "%", "pow": "**"}.get(name, name)
    low, high = -INFINITE, INFINITE
    if not b.terms and b.constant > 0:
        bounds = a.range
        if name == "mod":
            low, high = 0, b.constant - 1
        elif name == "floordiv":
            low, high = (n if abs(n) >= INFINITE else n // b.constant for n in bounds)
    elif a.range.lower >= 0 and b.range.lower >= 0:
        low = 0
    left, right = (f"({x})" if " " in repr(x) else repr(x) for x in (a, b))
    symbol = table.named(f"({left}{sign}{right})", value, other, low, high,
                         a.unbacked or b.unbacked)
    return Expression([(symbol, 1)])


def _unwrap_node(value: Any) -> Any:
    return value.node if isinstance(value, (SymbolicSize, SymbolicFloat, SymbolicBool)) else value


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
            expression = _combine_expressions(name, args, value, other, own.table)
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
    function: Any = getattr(operator, name)

    def method(self: Any, operand: Any) -> Any:
        if not isinstance(operand, (int, float)):
            return NotImplemented
        sizes = isinstance(self, SymbolicSize) and isinstance(operand, int)
        difference = _find_expression(self).plus(_find_expression(operand), -1) if sizes else None
        value = function(get_first_value(self), get_first_value(operand))
        text = f"{self!r} {_SIGNS[name]} {operand!r}"
        if self.unbacked or getattr(operand, "unbacked", False):
            def make() -> Node:
                return _add_call(function, (self, operand))

            return SymbolicBool(value, make, text, name, difference, self.table)
        if value != function(get_second_value(self), get_second_value(operand)):
            error = SpecializationError(
                f"Constraints violated: the program decides by a dynamic size "
                f"({get_first_value(self)} here) {name} {get_first_value(operand)}, which not "
                "all its sizes answer alike"
            )
            explain(error, "Take the dimension out of `dynamic_shapes`, or write the program "
                           "without this decision.")
            raise error
        if difference is not None:
            _guard(name, difference, value, text)
        return value

    return method


def _guard(name: str, difference: Expression, value: bool, text: str) -> None:
    """Record a guard: the condition on a symbol that this branch decision implies."""
    if len(difference.terms) != 1:
        return
    (symbol, n), = difference.terms
    relation = name if value else _NEGATIONS[name]
    frame, location = find_user_frame(), text
    if frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        location = f"{path}:{line}: {linecache.getline(path, line).strip()}"
    symbol.guards.append((relation, n, difference.constant, location))


for _cls in (SymbolicSize, SymbolicFloat):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        setattr(_cls, f"__{_name}__", _create_arithmetic(_name, False))
        setattr(_cls, f"__r{_name}__", _create_arithmetic(_name, True))
    _cls.__neg__ = _create_arithmetic("neg", False)
    for _name in _SIGNS:
        setattr(_cls, f"__{_name}__", _create_comparison(_name))
