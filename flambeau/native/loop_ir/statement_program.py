"""Kernels written step by step: variables, and data-dependent conditions and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from .expression_builder import Value
from .ir import (
    Affine, Buffer, Constant, If, Load, Statement, Store, Type, While,
)


class Variable:
    """A mutable number in a kernel."""

    def __init__(self, code: StatementProgram, name: str, type: Type = Type.I64) -> None:
        self.code, self.buffer = code, Buffer(type, name, 1)

    @property
    def now(self) -> Value:
        return Value(Load(self.buffer, Affine(0)))

    def put(self, value: Value | float) -> None:
        """Assign a value."""
        operand = value if isinstance(value, Value) else Value(Constant(self.buffer.type, value))
        self.code.write(Store(self.buffer, Affine(0), operand.expression))


class StatementProgram:
    """Emits statements in the order in which its methods are called."""

    def __init__(self) -> None:
        self.body: list[Statement] = []

    def write(self, statement: Statement) -> None:
        self.body.append(statement)

    @contextmanager
    def _open_body(self, make_statement: Callable[[list[Statement]], Statement]) -> Iterator[None]:
        before, self.body = self.body, []
        yield
        inner, self.body = self.body, before
        self.write(make_statement(inner))

    def while_(self, condition: Value) -> AbstractContextManager[None]:
        """Context manager for the body of a While."""
        return self._open_body(lambda body: While(condition.expression, body))

    def where(self, condition: Value) -> AbstractContextManager[None]:
        """Context manager for the body of an If."""
        return self._open_body(lambda body: If(condition.expression, body))

    def integer(self, name: str, value: Value | int) -> Variable:
        """Return an I64 variable with an initial value."""
        variable = Variable(self, name)
        variable.put(value)
        return variable

    def real(self, name: str, value: Value | float) -> Variable:
        """Return an F64 variable with an initial value."""
        variable = Variable(self, name, Type.F64)
        variable.put(value)
        return variable
