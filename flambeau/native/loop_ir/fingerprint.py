"""A kernel's structure as text: the same for kernels that differ in names only.

Kernels of the same structure are the same machine code.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, Given,
    If, Kernel, Load, Loop, Position, Prefetch, Statement, Store, Type, Update, While,
    operands_first,
)


def structure(kernel: Kernel) -> str:
    """The canonical text of a kernel: buffers, sizes and indices have numbers for names."""
    return _Writer(kernel).text()


def digest(kernel: Kernel) -> str:
    """A short hash of a kernel's structure."""
    return hashlib.sha256(structure(kernel).encode()).hexdigest()[:24]


def outline(body: Sequence[Statement]) -> tuple[str, list[Buffer]]:
    """The canonical text of statements, and their buffers in the order of its numbers."""
    writer = _Writer(Kernel("", [], [*body]))
    return writer.text(), [one for one in writer.numbers if isinstance(one, Buffer)]


class _Writer:
    """Numbers what it meets; expressions of the same text share a number."""

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
            most = "" if size.most is None else f" <= {size.most}"
            self.line(f"size {self.name(size, 'n')}{most}")
        self.body(self.kernel.body)
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def name(self, what: object, letter: str) -> str:
        found = self.numbers.get(what)
        if found is None:
            number = self.counts.get(letter, 0)
            self.counts[letter] = number + 1
            found = self.numbers[what] = f"{letter}{number}"
        return found

    def buffer(self, one: Buffer) -> str:
        if one in self.numbers:
            return self.numbers[one]
        name = self.name(one, "b")
        kind = "" if one.local is None else f" local {one.local}"
        kind += "" if one.parts is None else f" parts {one.parts}"
        self.line(f"{name}: {one.type.value}{kind}{' aliased' if one.aliased else ''}")
        return name

    def accumulator(self, one: Accumulator) -> str:
        if one in self.numbers:
            return self.numbers[one]
        name = self.name(one, "a")
        self.line(f"{name}: {one.fold.name} {one.type.value}")
        return name

    def extent(self, one: Extent) -> str:
        return str(one) if isinstance(one, int) else self.name(one, "n")

    def affine(self, at: Affine) -> str:
        terms = sorted((self.name(i, "i"), self.extent(s)) for i, s in at.terms)
        return "+".join([str(at.base), *(f"{i}*{s}" for i, s in terms)])

    def indirect(self, parts: Sequence[tuple[Expression, Extent]]) -> str:
        return ",".join(f"{self.numbers[e]}*{self.extent(s)}" for e, s in parts)

    # Statements.

    def body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, one: Statement) -> None:
        if isinstance(one, Loop):
            index = self.name(one.index, "i")
            stop = one.extent
            many = self.affine(stop) if isinstance(stop, Affine) else self.extent(stop)
            self.line(f"for {index} < {many} {one.kind.name}")
            self.body(one.body)
            self.line("end")
        elif isinstance(one, Begin):
            start = "" if one.start is None else self.value(one.start)
            self.line(f"begin {self.accumulator(one.accumulator)} {start}")
        elif isinstance(one, Update):
            parts = [self.accumulator(one.accumulator), self.value(one.value)]
            if one.position is not None:
                parts.append(self.value(one.position))
            self.line(f"update {' '.join(parts)}")
        elif isinstance(one, Store):
            self.store(one)
        elif isinstance(one, Prefetch):
            self.line(f"prefetch {self.buffer(one.buffer)}[{self.affine(one.at)}]")
        elif isinstance(one, While | If):
            self.line(f"{type(one).__name__.lower()} {self.value(one.condition)}")
            self.body(one.body)
            self.line("end")
        elif isinstance(one, Contract):
            self.contract(one)
        else:
            raise TypeError(f"a statement of type {type(one).__name__}")

    def store(self, one: Store) -> None:
        value = self.value(one.value)
        for each, _ in one.indirect:
            self.value(each)
        mask = "" if one.mask is None else self.value(one.mask)
        place = f"{self.buffer(one.buffer)}[{self.affine(one.at)};{self.indirect(one.indirect)}]"
        self.line(f"{place} {'+' if one.add else ''}= {value} if {mask}")

    def contract(self, one: Contract) -> None:
        def axes(some: Sequence[Axis]) -> str:
            return " ".join(f"{self.name(a.index, 'i')}<{self.extent(a.extent)}" for a in some)

        text = f"{axes(one.rows)} | {axes([one.column])} | {axes(one.depth)}"
        a, b = self.value(one.a), self.value(one.b)
        hints = f"{one.precision} {one.near} {one.shares}"
        self.line(f"contract {text} {self.accumulator(one.sum)} {a} {b} {hints}")
        self.body(one.body)
        self.line("end")

    # Expressions.

    def value(self, expression: Expression) -> str:
        for one in operands_first([expression], self.numbers):
            if isinstance(one, Accumulator):
                self.accumulator(one)
                continue
            text = self.expression(one)
            if text not in self.values:
                self.values[text] = f"v{len(self.values)}"
                self.line(f"{self.values[text]} = {text}")
            self.numbers[one] = self.values[text]
        return self.numbers[expression]

    def expression(self, one: Expression) -> str:
        if isinstance(one, Constant):
            return f"{one.type.value} {number(one)}"
        if isinstance(one, Position):
            return f"position {self.affine(one.value)}"
        if isinstance(one, Given):
            return f"given {self.extent(one.size)}"
        if isinstance(one, Load):
            mask = "" if one.mask is None else self.numbers[one.mask]
            place = f"{self.affine(one.at)};{self.indirect(one.indirect)}"
            return f"{self.buffer(one.buffer)}[{place}] if {mask}"
        if isinstance(one, Apply):
            inside = " ".join(self.numbers[each] for each in one.operands)
            return f"{one.operation.name} {one.type.value} {inside}"
        raise TypeError(f"an expression of type {type(one).__name__}")


def number(one: Constant) -> str:
    """A constant's value to the last bit."""
    if one.type.floating:
        return struct.pack(">d", float(one.value)).hex()
    return str(bool(one.value) if one.type is Type.BOOL else int(one.value))
