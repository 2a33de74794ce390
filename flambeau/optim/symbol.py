"""Symbol: one element of a tensor while an update formula is traced into LLVM IR.

It has the Tensor methods that update formulas use, under the same names. Each adds the lines of IR
that compute the same value with the same roundings; in-place methods rebind the symbol.
"""

from __future__ import annotations

import struct
from typing import Any


class Code:
    """The lines of IR of one loop body, in one element type (`float` or `double`)."""

    def __init__(self, element: str) -> None:
        self.element = element
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()

    def emit(self, text: str) -> str:
        """Adds a line that computes a new value; the value's name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def operand(self, value: Any) -> str:
        """A symbol's value, or a number as a constant rounded to the element type."""
        if isinstance(value, Symbol):
            return value.value
        if self.element == "float":
            (value,) = struct.unpack("f", struct.pack("f", value))
        return self.constant(value)

    @staticmethod
    def constant(value: float) -> str:
        """A number as LLVM writes it exactly."""
        return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"

    def narrowed(self, value: str) -> str:
        """A double rounded to the element type."""
        return self.emit(f"fptrunc double {value} to float") if self.element == "float" else value

    def binary(self, operation: str, a: Any, b: Any) -> str:
        """A two-operand instruction."""
        return self.emit(f"{operation} {self.element} {self.operand(a)}, {self.operand(b)}")

    def compare(self, condition: str, a: Any, b: Any) -> str:
        """An ordered comparison: false when either is NaN."""
        return self.binary(f"fcmp {condition}", a, b)

    def select(self, condition: str, a: Any, b: Any) -> str:
        """`a` where the condition holds, else `b`."""
        kind = self.element
        return self.emit(
            f"select i1 {condition}, {kind} {self.operand(a)}, {kind} {self.operand(b)}"
        )

    def call(self, name: str, *operands: Any) -> str:
        """An LLVM intrinsic of the element type."""
        kind = self.element
        function = f"@llvm.{name}.{'f32' if kind == 'float' else 'f64'}"
        self.intrinsics.add(f"declare {kind} {function}({', '.join(kind for _ in operands)})")
        listed = ", ".join(f"{kind} {self.operand(x)}" for x in operands)
        return self.emit(f"call {kind} {function}({listed})")


class Symbol:
    """A value of the loop body; see the module."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: str) -> None:
        self.code, self.value = code, value

    def _made(self, value: str) -> Symbol:
        return Symbol(self.code, value)

    def _set(self, value: str) -> Symbol:
        self.value = value
        return self

    def _scaled(self, value: Any, scale: Any) -> Any:
        return value if isinstance(scale, int) and scale == 1 else self.code.binary(
            "fmul", value, scale
        )  # fmt: skip

    def _sum(self, other: Any, alpha: Any) -> str:
        scaled = self._scaled(other, alpha)
        other = self._made(scaled) if isinstance(scaled, str) else scaled
        return self.code.binary("fadd", self, other)

    def _quotient(self, a: Any, b: Any, value: Any) -> str:
        scaled = self._scaled(a, value)
        a = self._made(scaled) if isinstance(scaled, str) else scaled
        part = self._made(self.code.binary("fdiv", a, b))
        return self.code.binary("fadd", self, part)

    def _product(self, a: Any, b: Any, value: Any) -> str:
        part = self._made(self.code.binary("fmul", a, b))
        scaled = self._scaled(part, value)
        part = self._made(scaled) if isinstance(scaled, str) else scaled
        return self.code.binary("fadd", self, part)

    def _lerp(self, end: Any, weight: Number) -> str:
        """From the nearer end, as PyTorch interpolates: exact at weights 0 and 1."""
        code = self.code
        gap = self._made(code.binary("fsub", end, self))
        near = code.emit(f"fcmp olt double {weight.wide}, {code.constant(0.5)}")
        rest = code.emit(f"fsub double {code.constant(1.0)}, {weight.wide}")
        rest = self._made(code.narrowed(rest))
        from_start = self._made(code.binary("fmul", gap, weight))
        from_end = self._made(code.binary("fmul", gap, rest))
        first = self._made(code.binary("fadd", self, from_start))
        second = self._made(code.binary("fsub", end, from_end))
        return code.select(near, first, second)

    def __neg__(self) -> Symbol:
        return self._made(self.code.emit(f"fneg {self.code.element} {self.value}"))

    def add(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._made(self._sum(other, alpha))

    def add_(self, other: Any, *, alpha: Any = 1) -> Symbol:
        return self._set(self._sum(other, alpha))

    def sub(self, other: Any) -> Symbol:
        return self._made(self.code.binary("fsub", self, other))

    def mul(self, other: Any) -> Symbol:
        return self._made(self.code.binary("fmul", self, other))

    def mul_(self, other: Any) -> Symbol:
        return self._set(self.code.binary("fmul", self, other))

    def div(self, other: Any) -> Symbol:
        return self._made(self.code.binary("fdiv", self, other))

    def addcmul(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._made(self._product(a, b, value))

    def addcmul_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._set(self._product(a, b, value))

    def addcdiv_(self, a: Any, b: Any, *, value: Any = 1) -> Symbol:
        return self._set(self._quotient(a, b, value))

    def lerp_(self, end: Any, weight: Any) -> Symbol:
        return self._set(self._lerp(end, weight))

    def sqrt(self) -> Symbol:
        return self._made(self.code.call("sqrt", self))

    def abs(self) -> Symbol:
        return self._made(self.code.call("fabs", self))

    def reciprocal(self) -> Symbol:
        return self._made(self.code.binary("fdiv", 1.0, self))

    def maximum(self, other: Any) -> Symbol:
        """The greater; NaN when either is."""
        code = self.code
        greater = self._made(code.select(code.compare("ugt", self, other), self, other))
        return self._made(code.select(code.compare("uno", other, other), other, greater))

    def clamp_(self, low: Any, high: Any) -> Symbol:
        code = self.code
        raised = self._made(code.select(code.compare("olt", self, low), low, self))
        return self._set(code.select(code.compare("ogt", raised, high), high, raised))

    def sign(self) -> Symbol:
        code = self.code
        one = self._made(code.select(code.compare("ogt", self, 0.0), 1.0, 0.0))
        signed = code.select(code.compare("olt", self, 0.0), -1.0, one)
        return self._made(signed)

    def gt(self, other: Any) -> str:
        return self.code.compare("ogt", self, other)

    def lt(self, other: Any) -> str:
        return self.code.compare("olt", self, other)

    def eq(self, other: Any) -> str:
        return self.code.compare("oeq", self, other)

    def masked_fill(self, condition: str, value: Any) -> Symbol:
        return self._made(self.code.select(condition, value, self))

    def clone(self) -> Symbol:
        return self._made(self.value)

    def copy_(self, source: Any) -> Symbol:
        return self._set(self.code.operand(source))


class Number(Symbol):
    """A number that may change from step to step: its value, and `wide`, before rounding."""

    __slots__ = ("wide",)

    def __init__(self, code: Code, wide: str) -> None:
        super().__init__(code, code.narrowed(wide))
        self.wide = wide
