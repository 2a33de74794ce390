"""Canonical text of a kernel: equal for kernels that differ only in names.

Kernels with equal text compile to the same machine code, so its hash is their function's name and
cache key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, If,
    IndexValue, Kernel, Load, Loop, Prefetch, Scalar, SizeValue, Statement, Store, Type, Update,
    While, iterate_postorder,
)


def canonical_text(kernel: Kernel) -> str:
    """Return a kernel's canonical text; buffers, sizes and indices are numbered in order of use."""
    return _Writer(kernel).write()


def fingerprint(kernel: Kernel) -> str:
    """Return a short hash of a kernel's structure."""
    return hashlib.sha256(canonical_text(kernel).encode()).hexdigest()[:24]


def canonical_body(body: Sequence[Statement]) -> tuple[str, list[Buffer]]:
    """Return the canonical text of statements, and their buffers in order of numbering."""
    writer = _Writer(Kernel("", [], [*body]))
    return writer.write(), [item for item in writer.numbers if isinstance(item, Buffer)]


class _Writer:
    """Numbers objects in order of first use; expressions with equal text share a number."""

    def __init__(self, kernel: Kernel) -> None:
        self.lines: list[str] = []
        self.numbers: dict[object, str] = {}
        self.values: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.kernel = kernel

    def write(self) -> str:
        if self.kernel.exact:
            self.add_line("exact")
        for buffer in self.kernel.buffers:
            self.add_line(f"argument {self.write_buffer(buffer)}")
        for size in self.kernel.sizes:
            bound = "" if size.most is None else f" <= {size.most}"
            self.add_line(f"size {self.number(size, 'n')}{bound}")
        self.write_body(self.kernel.body)
        return "\n".join(self.lines)

    def add_line(self, text: str) -> None:
        self.lines.append(text)

    def number(self, key: object, letter: str) -> str:
        name = self.numbers.get(key)
        if name is None:
            number = self.counts.get(letter, 0)
            self.counts[letter] = number + 1
            name = self.numbers[key] = f"{letter}{number}"
        return name

    def write_buffer(self, buffer: Buffer) -> str:
        if buffer in self.numbers:
            return self.numbers[buffer]
        name = self.number(buffer, "b")
        kind = "" if buffer.local is None else f" local {buffer.local}"
        kind += "" if buffer.parts is None else f" parts {buffer.parts}"
        self.add_line(f"{name}: {buffer.type.value}{kind}{' aliased' if buffer.aliased else ''}")
        return name

    def write_accumulator(self, accumulator: Accumulator) -> str:
        if accumulator in self.numbers:
            return self.numbers[accumulator]
        name = self.number(accumulator, "a")
        self.add_line(f"{name}: {accumulator.fold.name} {accumulator.type.value}")
        return name

    def write_extent(self, extent: Extent) -> str:
        return str(extent) if isinstance(extent, int) else self.number(extent, "n")

    def write_affine(self, affine: Affine) -> str:
        terms = sorted((self.number(i, "i"), self.write_extent(s)) for i, s in affine.terms)
        return "+".join([str(affine.base), *(f"{i}*{s}" for i, s in terms)])

    def write_indirect(self, parts: Sequence[tuple[Expression, Extent]]) -> str:
        return ",".join(f"{self.numbers[e]}*{self.write_extent(s)}" for e, s in parts)

    # Statements.

    def write_body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.write_statement(statement)

    def write_statement(self, statement: Statement) -> None:
        _STATEMENTS[type(statement)](self, statement)

    def write_loop(self, loop: Loop) -> None:
        index, stop = self.number(loop.index, "i"), loop.extent
        count = self.write_affine(stop) if isinstance(stop, Affine) else self.write_extent(stop)
        self.add_line(f"for {index} < {count} {loop.kind.name}")
        self.write_body(loop.body)
        self.add_line("end")

    def write_begin(self, begin: Begin) -> None:
        start = "" if begin.start is None else self.write_value(begin.start)
        self.add_line(f"begin {self.write_accumulator(begin.accumulator)} {start}")

    def write_update(self, update: Update) -> None:
        parts = [self.write_accumulator(update.accumulator), self.write_value(update.value)]
        if update.position is not None:
            parts.append(self.write_value(update.position))
        self.add_line(f"update {' '.join(parts)}")

    def write_prefetch(self, prefetch: Prefetch) -> None:
        self.add_line(
            f"prefetch {self.write_buffer(prefetch.buffer)}[{self.write_affine(prefetch.at)}]"
        )

    def write_branch(self, branch: While | If) -> None:
        self.add_line(f"{type(branch).__name__.lower()} {self.write_value(branch.condition)}")
        self.write_body(branch.body)
        self.add_line("end")

    def write_store(self, store: Store) -> None:
        value = self.write_value(store.value)
        for index, _ in store.indirect:
            self.write_value(index)
        mask = "" if store.mask is None else self.write_value(store.mask)
        buffer, offset = self.write_buffer(store.buffer), self.write_affine(store.at)
        place = f"{buffer}[{offset};{self.write_indirect(store.indirect)}]"
        self.add_line(f"{place} {'+' if store.add else ''}= {value} if {mask}")

    def write_contract(self, contract: Contract) -> None:
        axes = " | ".join(map(self.write_axes, (contract.rows, [contract.column], contract.depth)))
        a, b = self.write_value(contract.a), self.write_value(contract.b)
        hints = f"{contract.precision} {contract.near} {contract.shares}"
        hints += "" if contract.product is Scalar.MUL else f" {contract.product.name}"
        self.add_line(f"contract {axes} {self.write_accumulator(contract.sum)} {a} {b} {hints}")
        self.write_body(contract.body)
        self.add_line("end")

    def write_axes(self, axes: Sequence[Axis]) -> str:
        return " ".join(f"{self.number(a.index, 'i')}<{self.write_extent(a.extent)}" for a in axes)

    # Expressions.

    def write_value(self, expression: Expression) -> str:
        for current in iterate_postorder([expression], self.numbers):
            if isinstance(current, Accumulator):
                self.write_accumulator(current)
                continue
            text = _EXPRESSIONS[type(current)](self, current)
            if text not in self.values:
                self.values[text] = f"v{len(self.values)}"
                self.add_line(f"{self.values[text]} = {text}")
            self.numbers[current] = self.values[text]
        return self.numbers[expression]

    def write_constant(self, constant: Constant) -> str:
        return f"{constant.type.value} {exact_literal(constant)}"

    def write_index(self, index: IndexValue) -> str:
        return f"position {self.write_affine(index.value)}"

    def write_size(self, size: SizeValue) -> str:
        return f"given {self.write_extent(size.size)}"

    def write_load(self, load: Load) -> str:
        mask = "" if load.mask is None else self.numbers[load.mask]
        place = f"{self.write_affine(load.at)};{self.write_indirect(load.indirect)}"
        return f"{self.write_buffer(load.buffer)}[{place}] if {mask}"

    def write_apply(self, apply: Apply) -> str:
        operands = " ".join(self.numbers[operand] for operand in apply.operands)
        return f"{apply.operation.name} {apply.type.value} {operands}"


_STATEMENTS: dict[type, Callable[[_Writer, Any], None]] = {
    Loop: _Writer.write_loop, Begin: _Writer.write_begin, Update: _Writer.write_update,
    Store: _Writer.write_store, Prefetch: _Writer.write_prefetch, While: _Writer.write_branch,
    If: _Writer.write_branch, Contract: _Writer.write_contract,
}
_EXPRESSIONS: dict[type, Callable[[_Writer, Any], str]] = {
    Constant: _Writer.write_constant, IndexValue: _Writer.write_index,
    SizeValue: _Writer.write_size, Load: _Writer.write_load, Apply: _Writer.write_apply,
}


def exact_literal(constant: Constant) -> str:
    """Return a constant's value, exact to the last bit."""
    if constant.type.floating:
        return struct.pack(">d", float(constant.value)).hex()
    return str(bool(constant.value) if constant.type is Type.BOOL else int(constant.value))
