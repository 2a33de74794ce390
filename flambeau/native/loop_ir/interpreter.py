"""The interpreter of the loop IR: slow, plain, and what a kernel means.

Sums of F32 are made in double precision: compiled code may add in another order, and is right when
it comes near.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, Fold,
    Given, If, Index, Kernel, Load, Loop, Position, Prefetch, Scalar, Size, Statement, Store, Type,
    Update, While, operands_first,
)
from .philox import philox, philox_word

NOWHERE = (1 << 63) - 1  # the position of an ARGMAX of nothing


def dtype(type: Type) -> np.dtype:
    """NumPy's dtype of a type."""
    if type is Type.BF16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(type.value)


def interpret(kernel: Kernel, arrays: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> None:
    """Runs a kernel on arrays, one for each buffer, in place; IndexError outside of one."""
    with np.errstate(all="ignore"):
        machine = _Machine(kernel, arrays, sizes)
        for statement in kernel.body:
            machine.step(statement)


class _Machine:
    def __init__(self, kernel: Kernel, arrays: Sequence[np.ndarray], sizes: Sequence[int]) -> None:
        self.memory: dict[Buffer, np.ndarray] = {}
        for buffer, array in zip(kernel.buffers, arrays, strict=True):
            flat = array.reshape(-1)
            assert np.shares_memory(flat, array) or not array.size, "arrays are contiguous"
            self.memory[buffer] = flat.view(dtype(buffer.type))
            if buffer.parts is not None:  # one thread
                flat[...] = 0
                self.memory[buffer] = self.memory[buffer][: buffer.parts[1]]
        self.sizes: dict[Size, int] = dict(zip(kernel.sizes, sizes, strict=True))
        self.indices: dict[Index, int] = {}
        self.held: dict[Accumulator, Any] = {}
        self.memo: dict[Expression, Any] = {}

    # ------------------------------------------------------------------ statements

    def step(self, statement: Statement) -> None:
        if isinstance(statement, Loop):
            rounds = self.extent(statement.extent)
            self.loop([Axis(statement.index, rounds)], statement.body)
            return
        if isinstance(statement, Contract):
            self.contract(statement)
            return
        self.memo = {}
        if isinstance(statement, While | If):
            self.conditional(statement)
            return
        if isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Begin):
            one = statement.accumulator
            start = None if statement.start is None else self.value(statement.start)
            self.held[one] = (start, NOWHERE)
        elif isinstance(statement, Update):
            self.update(statement)
        elif isinstance(statement, Prefetch):
            self.affine(statement.at)
        else:
            raise TypeError(f"a statement of type {type(statement).__name__}")

    def loop(self, axes: Sequence[Axis], body: Sequence[Statement]) -> None:
        if not axes:
            for statement in body:
                self.step(statement)
            return
        for i in range(self.extent(axes[0].extent)):
            self.indices[axes[0].index] = i
            self.loop(axes[1:], body)

    def conditional(self, one: While | If) -> None:
        while self.value(one.condition):
            for statement in one.body:
                self.step(statement)
            if isinstance(one, If):
                return
            self.memo = {}

    def contract(self, one: Contract) -> None:
        wide = one.sum.type
        product = Apply(Scalar.MUL, (_cast(one.a, wide), _cast(one.b, wide)), wide)
        inner: Statement = Update(one.sum, product)
        for axis in reversed(one.depth):
            inner = Loop(axis.index, axis.extent, [inner])
        self.loop((*one.rows, one.column), [Begin(one.sum), inner, *one.body])

    def update(self, one: Update) -> None:
        held, at = self.held[one.accumulator]
        value, fold = self.value(one.value), one.accumulator.fold
        if fold in (Fold.ARGMAX, Fold.ARGMIN):
            assert one.position is not None
            position = int(self.value(one.position))
            if held is None or _better(fold, value, held) or (
                not _better(fold, held, value) and position < at
            ):  # fmt: skip
                held, at = value, position
            self.held[one.accumulator] = (held, at)
            return
        wide = np.dtype(np.float64) if one.accumulator.type is Type.F32 else value.dtype
        new = value.astype(wide) if fold is Fold.SUM else value
        self.held[one.accumulator] = (new if held is None else _folded(fold, held, new), at)

    def store(self, one: Store) -> None:
        value = self.value(one.value)  # computed in any case, as in lanes
        if one.mask is not None and not self.value(one.mask):
            return
        place = self.position(one.at, one.indirect)
        memory = self.memory_of(one.buffer, place)
        if one.add:
            wide = one.buffer.type
            if wide in (Type.F16, Type.BF16):
                total = memory[place].astype(np.float32) + value.astype(np.float32)
                value = total.astype(memory.dtype)
            else:
                value = memory[place] + value
        memory[place] = value

    # ----------------------------------------------------------------- expressions

    def extent(self, extent: Extent | Affine) -> int:
        if isinstance(extent, Affine):
            return self.affine(extent)
        return extent if isinstance(extent, int) else self.sizes[extent]

    def affine(self, at: Affine) -> int:
        return at.base + sum(self.indices[i] * self.extent(s) for i, s in at.terms)

    def position(self, at: Affine, indirect: Sequence[tuple[Expression, Extent]]) -> int:
        found = self.affine(at)
        return found + sum(int(self.value(e)) * self.extent(s) for e, s in indirect)

    def memory_of(self, buffer: Buffer, place: int) -> np.ndarray:
        memory = self.memory.get(buffer)
        if memory is None:
            if buffer.local is None:
                raise IndexError(f"buffer {buffer.name} is not an argument")
            memory = self.memory[buffer] = np.zeros(buffer.local, dtype(buffer.type))
        if not 0 <= place < memory.size:
            raise IndexError(f"{buffer.name}[{place}] of {memory.size} elements")
        return memory

    def value(self, one: Expression) -> Any:
        """A NumPy scalar. Shared expressions are computed once for each statement."""
        for each in operands_first([one], self.memo):
            self.memo[each] = self.compute(each)
        return self.memo[one]

    def compute(self, one: Expression) -> Any:
        kind = dtype(one.type)
        if isinstance(one, Constant):
            return np.asarray(one.value).astype(kind)[()]
        if isinstance(one, Position):
            return np.int64(self.affine(one.value))
        if isinstance(one, Given):
            return np.int64(self.sizes[one.size])
        if isinstance(one, Load):
            if one.mask is not None and not self.value(one.mask):
                return kind.type(0)
            place = self.position(one.at, one.indirect)
            return self.memory_of(one.buffer, place)[place]
        if isinstance(one, Accumulator):
            held, at = self.held[one]
            if one.fold in (Fold.ARGMAX, Fold.ARGMIN):
                return np.int64(at)
            start = _neutral(one.fold, kind) if held is None else held
            return np.asarray(start).astype(kind)[()]
        if not isinstance(one, Apply):
            raise TypeError(f"an expression of type {type(one).__name__}")
        if one.operation is Scalar.WHERE:  # both are computed, as in lanes
            condition, a, b = (self.value(each) for each in one.operands)
            return a if condition else b
        values = [self.value(each) for each in one.operands]
        return np.asarray(applied(one.operation, values, kind)).astype(kind)[()]


def _cast(value: Expression, wide: Type) -> Expression:
    return value if value.type is wide else Apply(Scalar.CAST, (value,), wide)


# ------------------------------------------------------------------------------ folds


def _better(fold: Fold, value: Any, held: Any) -> bool:
    if np.isnan(held):
        return False
    return bool(np.isnan(value) or (value > held if fold is Fold.ARGMAX else value < held))


def _folded(fold: Fold, held: Any, value: Any) -> Any:
    return {
        Fold.SUM: np.add, Fold.PRODUCT: np.multiply, Fold.MAXIMUM: np.maximum,
        Fold.MINIMUM: np.minimum, Fold.ANY: np.logical_or, Fold.ALL: np.logical_and,
    }[fold](held, value)  # fmt: skip


def _neutral(fold: Fold, kind: np.dtype) -> Any:
    if fold in (Fold.SUM, Fold.ANY):
        return 0
    if fold in (Fold.PRODUCT, Fold.ALL):
        return 1
    if kind == np.bool_:
        return fold is Fold.MINIMUM
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return limits.min if fold is Fold.MAXIMUM else limits.max
    return -math.inf if fold is Fold.MAXIMUM else math.inf


# ------------------------------------------------------------------------- operations


def applied(operation: Scalar, values: Sequence[Any], kind: np.dtype) -> Any:
    """A scalar operation on NumPy scalars, giving something of dtype `kind`."""
    first = values[0]
    if operation is Scalar.CAST:
        return _converted(first, kind)
    if operation is Scalar.BITCAST:
        return np.asarray(first).view(kind)[()]
    if operation in (Scalar.SHL, Scalar.SHR):
        return _shifted(operation, *values)
    if operation in (Scalar.DIV, Scalar.REM) and first.dtype.kind in "iu":
        return _divided(operation, int(first), int(values[1]), kind)
    if operation in ROUNDINGS and kind.kind in "iu":
        return first
    if operation is Scalar.FMA:
        return _fused(values, kind)
    if operation in (Scalar.PHILOX, Scalar.PHILOX_WORD):
        words = philox if operation is Scalar.PHILOX else philox_word
        return words(*(np.atleast_1d(value) for value in values))[0]
    if operation in (Scalar.ERF, Scalar.ERFC):
        return getattr(math, operation.name.lower())(float(first))
    if operation in EXACT:
        return EXACT[operation](*values)
    wide = [np.float64(value) for value in values]
    return getattr(np, NAMES.get(operation, operation.name.lower()))(*wide)


ROUNDINGS = (Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC, Scalar.ROUND)
EXACT: dict[Scalar, Callable[..., Any]] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.DIV: np.divide,
    Scalar.NEG: np.negative, Scalar.ABS: np.abs, Scalar.MAXIMUM: np.maximum,
    Scalar.MINIMUM: np.minimum, Scalar.REM: np.fmod, Scalar.COPYSIGN: np.copysign,
    Scalar.SQRT: np.sqrt, Scalar.FLOOR: np.floor, Scalar.CEIL: np.ceil, Scalar.TRUNC: np.trunc,
    Scalar.ROUND: np.rint, Scalar.EQ: np.equal, Scalar.NE: np.not_equal, Scalar.LT: np.less,
    Scalar.LE: np.less_equal, Scalar.GT: np.greater, Scalar.GE: np.greater_equal,
    Scalar.AND: np.bitwise_and, Scalar.OR: np.bitwise_or, Scalar.XOR: np.bitwise_xor,
    Scalar.NOT: np.invert,
}  # fmt: skip
NAMES = {
    Scalar.POW: "power", Scalar.ATAN2: "arctan2", Scalar.ASIN: "arcsin", Scalar.ACOS: "arccos",
    Scalar.ATAN: "arctan", Scalar.ASINH: "arcsinh", Scalar.ACOSH: "arccosh",
    Scalar.ATANH: "arctanh",
}  # fmt: skip


def _converted(value: Any, kind: np.dtype) -> Any:
    half = (np.dtype(np.float16), dtype(Type.BF16))
    if kind == np.bool_:
        return value != 0
    if value.dtype in half or (kind in half and value.dtype != kind):
        value = value.astype(np.float32)
    return value.astype(kind)


def _shifted(operation: Scalar, value: Any, count: Any) -> Any:
    bits, by = 8 * value.dtype.itemsize, int(count)
    if not 0 <= by < bits:
        by = bits
    whole = int(value) << by if operation is Scalar.SHL else int(value) >> by
    return _wrapped(whole, value.dtype)


def _divided(operation: Scalar, a: int, b: int, kind: np.dtype) -> Any:
    quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return _wrapped(quotient if operation is Scalar.DIV else a - quotient * b, kind)


def _wrapped(whole: int, kind: np.dtype) -> Any:
    bits = 8 * kind.itemsize
    return np.array(whole % (1 << bits), dtype=f"u{kind.itemsize}").view(kind)[()]


def _fused(values: Sequence[Any], kind: np.dtype) -> Any:
    if kind.kind in "iu":
        return _wrapped(int(values[0]) * int(values[1]) + int(values[2]), kind)
    a, b, c = (float(value) for value in values)
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return np.float64(float(exact))
    except OverflowError:
        return math.copysign(math.inf, exact)
