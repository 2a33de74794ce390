"""Prints a kernel as readable pseudo-code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, If,
    Index, IndexValue, Kernel, Load, Loop, Prefetch, Scalar, Size, SizeValue, Statement, Store,
    Update, While, get_operands, iterate_expressions,
)

OPERATOR_SYMBOLS = {
    Scalar.ADD: "+", Scalar.SUB: "-", Scalar.MUL: "*", Scalar.DIV: "/", Scalar.REM: "%",
    Scalar.EQ: "==", Scalar.NE: "!=", Scalar.LT: "<", Scalar.LE: "<=", Scalar.GT: ">",
    Scalar.GE: ">=", Scalar.AND: "&", Scalar.OR: "|", Scalar.XOR: "^", Scalar.SHL: "<<",
    Scalar.SHR: ">>",
}


def format_kernel(kernel: Kernel) -> str:
    """Pseudo-code of a kernel: its arguments, then its loops. Shared values get names.

    >>> print(format_kernel(kernel))  # doctest: +SKIP
    add(x: float32, y: float32, z: float32)
      parallel i < 1000
        z[i] = x[i] + y[i]
    """
    return "\n".join(_Printer(kernel).print_kernel())


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[object, str] = {}
        self.name_counts: Counter[str] = Counter()

    def name(self, item: Buffer | Index | Size | Accumulator) -> str:
        """Return the object's name, numbered if another object has the same one."""
        name = self.names.get(item)
        if name is None:
            self.name_counts[item.name] += 1
            count = self.name_counts[item.name]
            name = self.names[item] = item.name if count == 1 else f"{item.name}.{count}"
        return name

    def print_kernel(self) -> Iterator[str]:
        arguments = [
            f"{self.name(b)}: {b.type.value}" + (" in parts" if b.parts else "")
            for b in self.kernel.buffers
        ]
        arguments += [self.name(size) for size in self.kernel.sizes]
        yield f"{self.kernel.name}({', '.join(arguments)})"
        yield from self.print_body(self.kernel.body, "  ")

    def print_body(self, body: Sequence[Statement], indent: str) -> Iterator[str]:
        for statement in body:
            yield from self.print_statement(statement, indent)

    def print_statement(self, statement: Statement, indent: str) -> Iterator[str]:
        if isinstance(statement, Loop):
            yield from self.print_loop(statement, indent)
            return
        if isinstance(statement, Contract):
            yield from self.print_contract(statement, indent)
            return
        values: dict[Expression, str] = {}
        for number, expression in enumerate(_find_shared(statement)):
            yield f"{indent}v{number} = {self.print_value(expression, values, top=True)}"
            values[expression] = f"v{number}"
        yield indent + _STATEMENTS[type(statement)](self, statement, values)
        if isinstance(statement, While | If):
            yield from self.print_body(statement.body, indent + "  ")

    def print_loop(self, loop: Loop, indent: str) -> Iterator[str]:
        kind, stop = loop.kind.name.lower(), loop.extent
        count = self.print_affine(stop) if isinstance(stop, Affine) else self.print_extent(stop)
        word = "for" if kind == "serial" else kind
        yield f"{indent}{word} {self.name(loop.index)} < {count}"
        yield from self.print_body(loop.body, indent + "  ")

    def print_contract(self, contract: Contract, indent: str) -> Iterator[str]:
        product = f"{self.print_value(contract.a, {})} * {self.print_value(contract.b, {})}"
        yield f"{indent}contract {self.print_axes((*contract.rows, contract.column))}"
        hint = "" if contract.precision == 3 else f" to {8 * contract.precision} bits"
        hint += ", all near," if contract.near else ""
        depth = self.print_axes(contract.depth)
        yield f"{indent}  {self.name(contract.sum)} = sum of {product}{hint} over {depth}"
        yield from self.print_body(contract.body, indent + "  ")

    def print_axes(self, axes: Sequence[Axis]) -> str:
        return ", ".join(f"{self.name(a.index)} < {self.print_extent(a.extent)}" for a in axes)

    # Statements of one line. `values`: the names of shared expressions.

    def print_branch(self, branch: While | If, values: dict[Expression, str]) -> str:
        condition = self.print_value(branch.condition, values, top=True)
        return f"{type(branch).__name__.lower()} {condition}"

    def print_begin(self, begin: Begin, values: dict[Expression, str]) -> str:
        accumulator, start = begin.accumulator, ""
        if begin.start is not None:
            start = f" at {self.print_value(begin.start, values, top=True)}"
        kind = f"{accumulator.fold.name.lower()}, {accumulator.type.value}"
        return f"begin {self.name(accumulator)} ({kind}){start}"

    def print_update(self, update: Update, values: dict[Expression, str]) -> str:
        value = self.print_value(update.value, values, top=True)
        if update.position is not None:
            value += f" at {self.print_value(update.position, values, top=True)}"
        return f"{self.name(update.accumulator)} <- {value}"

    def print_prefetch(self, prefetch: Prefetch, values: dict[Expression, str]) -> str:
        return f"prefetch {self.name(prefetch.buffer)}[{self.print_affine(prefetch.at)}]"

    def print_store(self, store: Store, values: dict[Expression, str]) -> str:
        sign = "+=" if store.add else "="
        value = self.print_value(store.value, values, top=True)
        text = f"{self.print_place(store, values)} {sign} {value}"
        if store.mask is not None:
            text += f" if {self.print_value(store.mask, values, top=True)}"
        return text

    # Expressions. `top`: no parentheses around operations.

    def print_extent(self, extent: Extent) -> str:
        return str(extent) if isinstance(extent, int) else self.name(extent)

    def print_affine(self, affine: Affine) -> str:
        parts = [
            self.name(i) if s == 1 else f"{self.name(i)} * {self.print_extent(s)}"
            for i, s in affine.terms
        ]
        if affine.base or not parts:
            parts.append(str(affine.base))
        return " + ".join(parts).replace("+ -", "- ")

    def print_place(self, access: Load | Store, values: dict[Expression, str]) -> str:
        plain = access.at.terms or access.at.base or not access.indirect
        parts = [self.print_affine(access.at)] if plain else []
        for index, stride in access.indirect:
            text = self.print_value(index, values)
            parts.append(text if stride == 1 else f"{text} * {self.print_extent(stride)}")
        return f"{self.name(access.buffer)}[{' + '.join(parts)}]"

    def print_value(
        self, expression: Expression, values: dict[Expression, str], top: bool = False
    ) -> str:
        if expression in values:
            return values[expression]
        return _EXPRESSIONS[type(expression)](self, expression, values, top)

    def print_constant(self, constant: Constant, values: dict[Expression, str], top: bool) -> str:
        return str(constant.value)

    def print_accumulator(
        self, accumulator: Accumulator, values: dict[Expression, str], top: bool
    ) -> str:
        return self.name(accumulator)

    def print_index(self, index: IndexValue, values: dict[Expression, str], top: bool) -> str:
        text = self.print_affine(index.value)
        return text if top or " " not in text else f"({text})"

    def print_size(self, size: SizeValue, values: dict[Expression, str], top: bool) -> str:
        return self.print_extent(size.size)

    def print_load(self, load: Load, values: dict[Expression, str], top: bool) -> str:
        text = self.print_place(load, values)
        if load.mask is None:
            return text
        return f"({text} if {self.print_value(load.mask, values, top=True)} else 0)"

    def print_apply(self, apply: Apply, values: dict[Expression, str], top: bool) -> str:
        operation, operands = apply.operation, apply.operands
        sign = OPERATOR_SYMBOLS.get(operation)
        if sign is not None and len(operands) == 2:
            text = f" {sign} ".join(self.print_value(operand, values) for operand in operands)
            return text if top else f"({text})"
        name = operation.name.lower()
        if operation is Scalar.CAST:
            name = apply.type.value
        elif operation is Scalar.BITCAST:
            name = f"bits_{apply.type.value}"
        inside = ", ".join(self.print_value(operand, values, top=True) for operand in operands)
        return f"{name}({inside})"


_STATEMENTS: dict[type, Callable[[_Printer, Any, dict[Expression, str]], str]] = {
    Begin: _Printer.print_begin, Update: _Printer.print_update, Store: _Printer.print_store,
    Prefetch: _Printer.print_prefetch, While: _Printer.print_branch, If: _Printer.print_branch,
}
_EXPRESSIONS: dict[type, Callable[[_Printer, Any, dict[Expression, str], bool], str]] = {
    Constant: _Printer.print_constant, Accumulator: _Printer.print_accumulator,
    IndexValue: _Printer.print_index, SizeValue: _Printer.print_size, Load: _Printer.print_load,
    Apply: _Printer.print_apply,
}


def _find_shared(statement: Statement) -> list[Expression]:
    """Return operations that occur more than once in a statement, in order of dependence."""
    uses: Counter[Expression] = Counter()
    order: list[Expression] = []
    done: set[Expression] = set()
    stack = [(expression, False) for expression in iterate_expressions(statement)]
    while stack:
        expression, ready = stack.pop()
        if ready:
            order.append(expression)
            continue
        uses[expression] += 1
        if expression not in done:
            done.add(expression)
            stack.append((expression, True))
            stack.extend((operand, False) for operand in get_operands(expression))
    return [
        expression
        for expression in order
        if uses[expression] > 1 and isinstance(expression, Apply | Load)
    ]
