"""A kernel as pseudo-code, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, Given,
    If, Index, Kernel, Load, Loop, Position, Prefetch, Scalar, Size, Statement, Store, Update,
    While, expressions, operands,
)

SIGNS = {
    Scalar.ADD: "+", Scalar.SUB: "-", Scalar.MUL: "*", Scalar.DIV: "/", Scalar.REM: "%",
    Scalar.EQ: "==", Scalar.NE: "!=", Scalar.LT: "<", Scalar.LE: "<=", Scalar.GT: ">",
    Scalar.GE: ">=", Scalar.AND: "&", Scalar.OR: "|", Scalar.XOR: "^", Scalar.SHL: "<<",
    Scalar.SHR: ">>",
}  # fmt: skip


def show(kernel: Kernel) -> str:
    """The text of a kernel: its arguments, then its loops; shared values have names of their own.

    >>> print(show(kernel))  # doctest: +SKIP
    add(x: float32, y: float32, z: float32)
      parallel i < 1000
        z[i] = x[i] + y[i]
    """
    return "\n".join(_Printer(kernel).lines())


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[object, str] = {}
        self.taken: Counter[str] = Counter()

    def name(self, one: Buffer | Index | Size | Accumulator) -> str:
        """Its own name, with a number where another thing has it too."""
        found = self.names.get(one)
        if found is None:
            self.taken[one.name] += 1
            count = self.taken[one.name]
            found = self.names[one] = one.name if count == 1 else f"{one.name}.{count}"
        return found

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

    def statement(self, one: Statement, indent: str) -> Iterator[str]:
        if isinstance(one, Loop):
            kind = one.kind.name.lower() if one.kind.name != "SERIAL" else "for"
            stop = one.extent
            many = self.affine(stop) if isinstance(stop, Affine) else self.extent(stop)
            yield f"{indent}{kind} {self.name(one.index)} < {many}"
            yield from self.body(one.body, indent + "  ")
            return
        if isinstance(one, Contract):
            yield from self.contract(one, indent)
            return
        shared = _shared(one)
        values: dict[Expression, str] = {}
        for number, each in enumerate(shared):
            yield f"{indent}v{number} = {self.value(each, values, top=True)}"
            values[each] = f"v{number}"
        if isinstance(one, While | If):
            word = type(one).__name__.lower()
            yield f"{indent}{word} {self.value(one.condition, values, top=True)}"
            yield from self.body(one.body, indent + "  ")
            return
        yield indent + self.simple(one, values)

    def simple(self, one: Statement, values: dict[Expression, str]) -> str:
        if isinstance(one, Begin):
            start = "" if one.start is None else f" at {self.value(one.start, values, top=True)}"
            kind = f"{one.accumulator.fold.name.lower()}, {one.accumulator.type.value}"
            return f"begin {self.name(one.accumulator)} ({kind}){start}"
        if isinstance(one, Update):
            at = "" if one.position is None else f" at {self.value(one.position, values, top=True)}"
            return f"{self.name(one.accumulator)} <- {self.value(one.value, values, top=True)}{at}"
        if isinstance(one, Prefetch):
            return f"prefetch {self.name(one.buffer)}[{self.affine(one.at)}]"
        assert isinstance(one, Store)
        sign = "+=" if one.add else "="
        mask = "" if one.mask is None else f" if {self.value(one.mask, values, top=True)}"
        return f"{self.place(one, values)} {sign} {self.value(one.value, values, top=True)}{mask}"

    def contract(self, one: Contract, indent: str) -> Iterator[str]:
        def axes(some: Sequence[Axis]) -> str:
            return ", ".join(f"{self.name(a.index)} < {self.extent(a.extent)}" for a in some)

        product = f"{self.value(one.a, {})} * {self.value(one.b, {})}"
        yield f"{indent}contract {axes((*one.rows, one.column))}"
        hint = "" if one.precision == 3 else f" to {8 * one.precision} bits"
        hint += ", all near," if one.near else ""
        yield f"{indent}  {self.name(one.sum)} = sum of {product}{hint} over {axes(one.depth)}"
        yield from self.body(one.body, indent + "  ")

    def extent(self, one: Extent) -> str:
        return str(one) if isinstance(one, int) else self.name(one)

    def affine(self, at: Affine) -> str:
        parts = [
            self.name(i) if s == 1 else f"{self.name(i)} * {self.extent(s)}" for i, s in at.terms
        ]
        if at.base or not parts:
            parts.append(str(at.base))
        return " + ".join(parts).replace("+ -", "- ")

    def place(self, one: Load | Store, values: dict[Expression, str]) -> str:
        plain = one.at.terms or one.at.base or not one.indirect
        parts = [self.affine(one.at)] if plain else []
        for each, stride in one.indirect:
            text = self.value(each, values)
            parts.append(text if stride == 1 else f"{text} * {self.extent(stride)}")
        return f"{self.name(one.buffer)}[{' + '.join(parts)}]"

    def value(self, one: Expression, values: dict[Expression, str], top: bool = False) -> str:
        if one in values:
            return values[one]
        if isinstance(one, Constant):
            return str(one.value)
        if isinstance(one, Accumulator):
            return self.name(one)
        if isinstance(one, Position):
            text = self.affine(one.value)
            return text if top or " " not in text else f"({text})"
        if isinstance(one, Given):
            return self.extent(one.size)
        if isinstance(one, Load):
            text = self.place(one, values)
            if one.mask is None:
                return text
            return f"({text} if {self.value(one.mask, values, top=True)} else 0)"
        assert isinstance(one, Apply)
        sign = SIGNS.get(one.operation)
        if sign is not None and len(one.operands) == 2:
            text = f" {sign} ".join(self.value(each, values) for each in one.operands)
            return text if top else f"({text})"
        inside = ", ".join(self.value(each, values, top=True) for each in one.operands)
        if one.operation in (Scalar.CAST, Scalar.BITCAST):
            name = one.type.value if one.operation is Scalar.CAST else f"bits_{one.type.value}"
            return f"{name}({inside})"
        return f"{one.operation.name.lower()}({inside})"


def _shared(statement: Statement) -> list[Expression]:
    """Operations that occur more than once in a statement, what they need before them."""
    uses: Counter[Expression] = Counter()
    order: list[Expression] = []
    done: set[Expression] = set()
    stack = [(one, False) for one in expressions(statement)]
    while stack:
        one, ready = stack.pop()
        if ready:
            order.append(one)
            continue
        uses[one] += 1
        if one not in done:
            done.add(one)
            stack.append((one, True))
            stack.extend((each, False) for each in operands(one))
    return [one for one in order if uses[one] > 1 and isinstance(one, Apply | Load)]
