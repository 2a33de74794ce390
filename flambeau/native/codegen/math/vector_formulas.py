"""Lanes: arithmetic on vectors of floats, in mathematical terms rather than LLVM's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import Type
from ..llvm.builder import (
    I1, I32, I64, REGISTER, Builder, constant, floating, vector, vector_constant,
)
from ..llvm.libm_calls import call_per_lane

Value = Any


class Lanes:
    """Formulas on `lanes` floats of a type; Python numbers are constants in every lane."""

    def __init__(self, b: Builder, type: Type, lanes: int) -> None:
        self.b, self.type, self.lanes = b, type, lanes
        self.kind = vector(REGISTER[type], lanes) if lanes > 1 else REGISTER[type]
        word = I64 if type is Type.F64 else I32
        self.word = word
        self.integers = vector(word, lanes) if lanes > 1 else word

    def number(self, value: Value) -> Value:
        """Return a value unchanged, or a Python number broadcast to every lane."""
        if isinstance(value, ir.Value):
            return value
        return self.b.splat(constant(self.type, float(value)), self.lanes)

    def integer(self, value: int) -> Value:
        """An integer, as wide as the floats, in every lane."""
        return self.b.splat(ir.Constant(self.word, value), self.lanes)

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self.b.fadd(self.number(x), self.number(y))

    def sub(self, x: Value, y: Value) -> Value:
        """x - y."""
        return self.b.fsub(self.number(x), self.number(y))

    def mul(self, x: Value, y: Value) -> Value:
        """x * y."""
        return self.b.fmul(self.number(x), self.number(y))

    def div(self, x: Value, y: Value) -> Value:
        """x / y."""
        return self.b.fdiv(self.number(x), self.number(y))

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, rounded once."""
        return self._call("fma", x, y, z)

    def neg(self, x: Value) -> Value:
        """-x."""
        return self.b.fneg(x)

    def abs(self, x: Value) -> Value:
        """|x|."""
        return self._call("fabs", x)

    def sqrt(self, x: Value) -> Value:
        """The square root."""
        return self._call("sqrt", x)

    def round(self, x: Value) -> Value:
        """The nearest integer, halves to even."""
        return self._call("roundeven", x)

    def floor(self, x: Value) -> Value:
        """The greatest integer up to x."""
        return self._call("floor", x)

    def copysign(self, size: Value, sign: Value) -> Value:
        """The magnitude of one value with the sign of another."""
        return self._call("copysign", size, sign)

    def _call(self, name: str, *values: Value) -> Value:
        return self.b.intrinsic(name, self.kind, [self.number(v) for v in values])

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        return self.b.select(condition, self.number(x), self.number(y))

    def less(self, x: Value, y: Value) -> Value:
        """x < y; false with NaN."""
        return self.b.fcmp_ordered("<", self.number(x), self.number(y))

    def equal(self, x: Value, y: Value) -> Value:
        """x == y; false with NaN."""
        return self.b.fcmp_ordered("==", self.number(x), self.number(y))

    def is_nan(self, x: Value) -> Value:
        """Whether x is NaN."""
        return self.b.fcmp_unordered("!=", x, x)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """x within [low, high]; NaN stays."""
        x = self.where(self.less(x, low), low, x)
        return self.where(self.less(high, x), high, x)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Evaluate a polynomial, with the highest power's coefficient first."""
        y = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            y = self.fma(y, x, coefficient)
        return y

    def bits(self, x: Value) -> Value:
        """The floats' bits, as integers."""
        return self.b.bitcast(x, self.integers)

    def floats(self, bits: Value) -> Value:
        """The floats with these bits."""
        return self.b.bitcast(bits, self.kind)

    def negative(self, x: Value) -> Value:
        """Whether the sign bit is set, including for -0.0."""
        return self.b.icmp_signed("<", self.bits(x), self.integer(0))

    @property
    def has_permute(self) -> bool:
        """Whether one instruction selects any lanes of two registers (AVX-512)."""
        return self.b.vector_bytes >= 64

    @property
    def permute_width(self) -> int:
        """From how many float32 numbers an instruction selects one per lane; 0 if none does."""
        return {64: 32, 32: 8}.get(self.b.vector_bytes, 0)

    def look_up(self, index: Value, values: Sequence[float]) -> Value:
        """Select from a table by the low bits of each lane's index.

        The table has 32 numbers (16 in float64); with AVX2, 8, and float32 only.
        """
        numbers = [floating(REGISTER[self.type], value) for value in values]
        letters, width = ("ps", 16) if self.type is Type.F32 else ("pd", 8)
        if self.lanes == 1:
            table = self.b.table(numbers)
            place = self.b.and_(index, self.integer(len(values) - 1))
            place = place if self.word is I64 else self.b.zext(place, I64)
            return self.b.read(self.b.offset_elements(table, place, self.type), self.type)
        if not self.has_permute:
            return self._permute_avx2(index, vector_constant(numbers))
        low, high = (vector_constant(numbers[k : k + width]) for k in (0, width))
        name = f"llvm.x86.avx512.vpermi2var.{letters}.512"

        def permute(indices: Value) -> Value:
            return self.b.external(name, low.type, (low, indices, high))

        return self._apply_by_register(width, permute, index)

    def _permute_avx2(self, index: Value, table: Value) -> Value:
        """Select lanes of a register of eight by index: AVX2."""
        def permute(indices: Value) -> Value:
            return self.b.external("llvm.x86.avx2.permps", table.type, (table, indices))

        return self._apply_by_register(8, permute, index)

    def _apply_by_register(
        self, width: int, instruction: Callable[..., Value], *vectors: Value
    ) -> Value:
        """Apply an instruction on registers of `width` lanes to all lanes of the vectors."""
        parts, count = [], min(self.lanes, width)
        for start in range(0, self.lanes, width):
            registers = [self.b.pad_lanes(self.b.slice_lanes(v, start, count), width)
                         for v in vectors]
            parts.append(self.b.slice_lanes(instruction(*registers), 0, count))
        return self.b.concatenate(parts)

    def scale(self, y: Value, n: Value, tiny: Value) -> Value:
        """y * 2**n for whole floats n, and 0 where `tiny`: AVX-512.

        A product that underflows takes a hundred times as long, so it is avoided there.
        """
        letters, width = ("ps", 16) if self.type is Type.F32 else ("pd", 8)
        name = f"llvm.x86.avx512.mask.scalef.{letters}.512"
        kind, mask = vector(REGISTER[self.type], width), ir.IntType(width)
        zeros, keep = ir.Constant(kind, None), self.b.not_(tiny)

        def scale(value: Value, power: Value, lanes: Value) -> Value:
            operands = value, power, zeros, self.b.bitcast(lanes, mask), ir.Constant(I32, 4)
            return self.b.external(name, kind, operands)

        return self._apply_by_register(width, scale, y, n, keep)

    def exponent(self, x: Value) -> Value:
        """floor(log2(|x|)) as a float, also for denormals; infinite for 0 and infinity: AVX-512."""
        return self._decompose("getexp", x)

    def mantissa(self, x: Value) -> Value:
        """x over a power of 2, in [0.75, 1.5); 1 for 0 and infinity, NaN for x < 0: AVX-512."""
        return self._decompose("getmant", x, ir.Constant(I32, 15))

    def _decompose(self, operation: str, x: Value, *extra: Value) -> Value:
        letters, width = ("ps", 16) if self.type is Type.F32 else ("pd", 8)
        name = f"llvm.x86.avx512.mask.{operation}.{letters}.512"
        kind, mask = vector(REGISTER[self.type], width), ir.IntType(width)
        zeros, all_lanes = ir.Constant(kind, None), ir.Constant(mask, -1)

        def decompose(register: Value) -> Value:
            operands = register, *extra, zeros, all_lanes, ir.Constant(I32, 4)
            return self.b.external(name, kind, operands)

        return self._apply_by_register(width, decompose, x)

    def wide(self, x: Value) -> tuple[Lanes, Value]:
        """Return the float64 formulas, and the values converted to float64."""
        double = Lanes(self.b, Type.F64, self.lanes)
        return double, self.b.fpext(x, double.kind)

    def narrow(self, x: Value) -> Value:
        """Round float64 values to float32."""
        return self.b.fptrunc(x, self.kind)


def select_rare(m: Lanes, rare: Value, name: str, arguments: Sequence[Value], y: Value) -> Value:
    """Return y; where a rare condition holds, a C function's result, lane by lane."""
    b = m.b
    has_rare = rare if m.lanes == 1 else b.intrinsic("vector.reduce.or", I1, [rare], (),
                                                     [rare.type])
    start = b.block
    with b.if_then(has_rare, likely=False):
        called = m.where(rare, call_per_lane(b, name, arguments, m.lanes), y)
        block = b.block
    merged = b.phi(m.kind)
    merged.add_incoming(y, start)
    merged.add_incoming(called, block)
    return merged
