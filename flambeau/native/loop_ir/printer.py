"""Prints a kernel as readable pseudo-code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
    return "\n".join(_Printer(kernel).lines())


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

    def lines(self) -> Iterator[str]:
        arguments = [
            f"{self.name(b)}: {b.type.value}" + (" in parts" if b.parts else "")
            for b in self.kernel.buffers
        ]
        arguments += [self.name(size) for size in self.kernel.sizes]
        yield f"{self.kernel.name}({', '.join(arguments)})"
        yield from self.body(self.kernel.body, "  ")

    def body(self, body: Sequence[Statement], indent: str) -> Iterator[str]:
        for statement in body:
            yield from self.statement(statement, indent)

    def statement(self, statement: Statement, indent: str) -> Iterator[str]:
        if isinstance(statement, Loop):
            kind = statement.kind.name.lower() if statement.kind.name != "SERIAL" else "for"
            stop = statement.extent
            count = self.affine(stop) if isinstance(stop, Affine) else self.extent(stop)
            yield f"{indent}{kind} {self.name(statement.index)} < {count}"
            yield from self.body(statement.body, indent + "  ")
            return
        if isinstance(statement, Contract):
            yield from self.contract(statement, indent)
            return
        shared = _find_shared(statement)
        values: dict[Expression, str] = {}
        for number, expression in enumerate(shared):
            yield f"{indent}v{number} = {self.value(expression, values, top=True)}"
            values[expression] = f"v{number}"
        if isinstance(statement, While | If):
            word = type(statement).__name__.lower()
            yield f"{indent}{word} {self.value(statement.condition, values, top=True)}"
            yield from self.body(statement.body, indent + "  ")
            return
        yield indent + self.simple(statement, values)

    def simple(self, statement: Statement, values: dict[Expression, str]) -> str:
        if isinstance(statement, Begin):
            start = ""
            if statement.start is not None:
                start = f" at {self.value(statement.start, values, top=True)}"
            kind = f"{statement.accumulator.fold.name.lower()}, {statement.accumulator.type.value}"
            return f"begin {self.name(statement.accumulator)} ({kind}){start}"
        if isinstance(statement, Update):
            value = self.value(statement.value, values, top=True)
            if statement.position is not None:
                value += f" at {self.value(statement.position, values, top=True)}"
            return f"{self.name(statement.accumulator)} <- {value}"
        if isinstance(statement, Prefetch):
            return f"prefetch {self.name(statement.buffer)}[{self.affine(statement.at)}]"
        assert isinstance(statement, Store)
        sign = "+=" if statement.add else "="
        text = f"{self.place(statement, values)} {sign} "
        text += self.value(statement.value, values, top=True)
        if statement.mask is not None:
            text += f" if {self.value(statement.mask, values, top=True)}"
        return text

    def contract(self, contract: Contract, indent: str) -> Iterator[str]:
        def axes(items: Sequence[Axis]) -> str:
            return ", ".join(f"{self.name(a.index)} < {self.extent(a.extent)}" for a in items)

        product = f"{self.value(contract.a, {})} * {self.value(contract.b, {})}"
        yield f"{indent}contract {axes((*contract.rows, contract.column))}"
        hint = "" if contract.precision == 3 else f" to {8 * contract.precision} bits"
        hint += ", all near," if contract.near else ""
        depth = axes(contract.depth)
        yield f"{indent}  {self.name(contract.sum)} = sum of {product}{hint} over {depth}"
        yield from self.body(contract.body, indent + "  ")

    def extent(self, extent: Extent) -> str:
        return str(extent) if isinstance(extent, int) else self.name(extent)

    def affine(self, affine: Affine) -> str:
        parts = [
            self.name(i) if s == 1 else f"{self.name(i)} * {self.extent(s)}" for i,
            s in affine.terms
        ]
        if affine.base or not parts:
            parts.append(str(affine.base))
        return " + ".join(parts).replace("+ -", "- ")

    def place(self, access: Load | Store, values: dict[Expression, str]) -> str:
        plain = access.at.terms or access.at.base or not access.indirect
        parts = [self.affine(access.at)] if plain else []
        for index, stride in access.indirect:
            text = self.value(index, values)
            parts.append(text if stride == 1 else f"{text} * {self.extent(stride)}")
        return f"{self.name(access.buffer)}[{' + '.join(parts)}]"

    def value(
        self, expression: Expression, values: dict[Expression, str], top: bool = False
    ) -> str:
        if expression in values:
            return values[expression]
        if isinstance(expression, Constant):
            return str(expression.value)
        if isinstance(expression, Accumulator):
            return self.name(expression)
        if isinstance(expression, IndexValue):
            text = self.affine(expression.value)
            return text if top or " " not in text else f"({text})"
        if isinstance(expression, SizeValue):
            return self.extent(expression.size)
        if isinstance(expression, Load):
            text = self.place(expression, values)
            if expression.mask is None:
                return text
            return f"({text} if {self.value(expression.mask, values, top=True)} else 0)"
        assert isinstance(expression, Apply)
        sign = OPERATOR_SYMBOLS.get(expression.operation)
        if sign is not None and len(expression.operands) == 2:
            text = f" {sign} ".join(self.value(operand, values) for operand in expression.operands)
            return text if top else f"({text})"
        inside = ", ".join(self.value(operand, values, top=True) for operand in expression.operands)
        if expression.operation in (Scalar.CAST, Scalar.BITCAST):
            name = (
                expression.type.value
                if expression.operation is Scalar.CAST
                else f"bits_{expression.type.value}"
            )
            return f"{name}({inside})"
        return f"{expression.operation.name.lower()}({inside})"


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
