"""Canonical text of a kernel: equal for kernels that differ only in names.

Kernels with equal text compile to the same machine code, so its hash is their function's name and
cache key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, If,
    IndexValue, Kernel, Load, Loop, Prefetch, Scalar, SizeValue, Statement, Store, Type, Update,
    While, iterate_postorder,
)


def canonical_text(kernel: Kernel) -> str:
    """Return a kernel's canonical text; buffers, sizes and indices are numbered in order of use."""
    return _Writer(kernel).text()


def fingerprint(kernel: Kernel) -> str:
    """Return a short hash of a kernel's structure."""
    return hashlib.sha256(canonical_text(kernel).encode()).hexdigest()[:24]


def canonical_body(body: Sequence[Statement]) -> tuple[str, list[Buffer]]:
    """Return the canonical text of statements, and their buffers in order of numbering."""
    writer = _Writer(Kernel("", [], [*body]))
    return writer.text(), [item for item in writer.numbers if isinstance(item, Buffer)]


class _Writer:
    """Numbers objects in order of first use; expressions with equal text share a number."""

    def __init__(self, kernel: Kernel) -> None:
        self.lines: list[str] = []
        self.numbers: dict[object, str] = {}
        self.values: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.kernel = kernel

    def text(self) -> str:
        if self.kernel.exact:
            self.line("exact")
        for buffer in self.kernel.buffers:
            self.line(f"argument {self.buffer(buffer)}")
        for size in self.kernel.sizes:
            bound = "" if size.most is None else f" <= {size.most}"
            self.line(f"size {self.name(size, 'n')}{bound}")
        self.body(self.kernel.body)
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def name(self, key: object, letter: str) -> str:
        name = self.numbers.get(key)
        if name is None:
            number = self.counts.get(letter, 0)
            self.counts[letter] = number + 1
            name = self.numbers[key] = f"{letter}{number}"
        return name

    def buffer(self, buffer: Buffer) -> str:
        if buffer in self.numbers:
            return self.numbers[buffer]
        name = self.name(buffer, "b")
        kind = "" if buffer.local is None else f" local {buffer.local}"
        kind += "" if buffer.parts is None else f" parts {buffer.parts}"
        self.line(f"{name}: {buffer.type.value}{kind}{' aliased' if buffer.aliased else ''}")
        return name

    def accumulator(self, accumulator: Accumulator) -> str:
        if accumulator in self.numbers:
            return self.numbers[accumulator]
        name = self.name(accumulator, "a")
        self.line(f"{name}: {accumulator.fold.name} {accumulator.type.value}")
        return name

    def extent(self, extent: Extent) -> str:
        return str(extent) if isinstance(extent, int) else self.name(extent, "n")

    def affine(self, affine: Affine) -> str:
        terms = sorted((self.name(i, "i"), self.extent(s)) for i, s in affine.terms)
        return "+".join([str(affine.base), *(f"{i}*{s}" for i, s in terms)])

    def indirect(self, parts: Sequence[tuple[Expression, Extent]]) -> str:
        return ",".join(f"{self.numbers[e]}*{self.extent(s)}" for e, s in parts)

    # Statements.

    def body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Loop):
            index = self.name(statement.index, "i")
            stop = statement.extent
            count = self.affine(stop) if isinstance(stop, Affine) else self.extent(stop)
            self.line(f"for {index} < {count} {statement.kind.name}")
            self.body(statement.body)
            self.line("end")
        elif isinstance(statement, Begin):
            start = "" if statement.start is None else self.value(statement.start)
            self.line(f"begin {self.accumulator(statement.accumulator)} {start}")
        elif isinstance(statement, Update):
            parts = [self.accumulator(statement.accumulator), self.value(statement.value)]
            if statement.position is not None:
                parts.append(self.value(statement.position))
            self.line(f"update {' '.join(parts)}")
        elif isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Prefetch):
            self.line(f"prefetch {self.buffer(statement.buffer)}[{self.affine(statement.at)}]")
        elif isinstance(statement, While | If):
            self.line(f"{type(statement).__name__.lower()} {self.value(statement.condition)}")
            self.body(statement.body)
            self.line("end")
        elif isinstance(statement, Contract):
            self.contract(statement)
        else:
            raise TypeError(f"a statement of type {type(statement).__name__}")

    def store(self, store: Store) -> None:
        value = self.value(store.value)
        for each, _ in store.indirect:
            self.value(each)
        mask = "" if store.mask is None else self.value(store.mask)
        place = (
            f"{self.buffer(store.buffer)}[{self.affine(store.at)};{self.indirect(store.indirect)}]"
        )
        self.line(f"{place} {'+' if store.add else ''}= {value} if {mask}")

    def contract(self, contract: Contract) -> None:
        def axes(items: Sequence[Axis]) -> str:
            return " ".join(f"{self.name(a.index, 'i')}<{self.extent(a.extent)}" for a in items)

        text = f"{axes(contract.rows)} | {axes([contract.column])} | {axes(contract.depth)}"
        a, b = self.value(contract.a), self.value(contract.b)
        hints = f"{contract.precision} {contract.near} {contract.shares}"
        hints += "" if contract.product is Scalar.MUL else f" {contract.product.name}"
        self.line(f"contract {text} {self.accumulator(contract.sum)} {a} {b} {hints}")
        self.body(contract.body)
        self.line("end")

    # Expressions.

    def value(self, expression: Expression) -> str:
        for current in iterate_postorder([expression], self.numbers):
            if isinstance(current, Accumulator):
                self.accumulator(current)
                continue
            text = self.expression(current)
            if text not in self.values:
                self.values[text] = f"v{len(self.values)}"
                self.line(f"{self.values[text]} = {text}")
            self.numbers[current] = self.values[text]
        return self.numbers[expression]

    def expression(self, expression: Expression) -> str:
        if isinstance(expression, Constant):
            return f"{expression.type.value} {exact_literal(expression)}"
        if isinstance(expression, IndexValue):
            return f"position {self.affine(expression.value)}"
        if isinstance(expression, SizeValue):
            return f"given {self.extent(expression.size)}"
        if isinstance(expression, Load):
            mask = "" if expression.mask is None else self.numbers[expression.mask]
            place = f"{self.affine(expression.at)};{self.indirect(expression.indirect)}"
            return f"{self.buffer(expression.buffer)}[{place}] if {mask}"
        if isinstance(expression, Apply):
            inside = " ".join(self.numbers[operand] for operand in expression.operands)
            return f"{expression.operation.name} {expression.type.value} {inside}"
        raise TypeError(f"an expression of type {type(expression).__name__}")


def exact_literal(constant: Constant) -> str:
    """Return a constant's value, exact to the last bit."""
    if constant.type.floating:
        return struct.pack(">d", float(constant.value)).hex()
    return str(bool(constant.value) if constant.type is Type.BOOL else int(constant.value))
