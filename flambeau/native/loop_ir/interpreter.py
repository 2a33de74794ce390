"""The reference interpreter of the loop IR: slow and simple, it defines what a kernel means.

It sums F32 in double precision: compiled code may reorder additions and only has to come close.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .ir import (
    NO_POSITION, Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression,
    Extent, If, Index, IndexValue, Kernel, Load, Loop, Prefetch, ReduceOp, Scalar, Size, SizeValue,
    Statement, Store, Type, Update, While, iterate_postorder,
)
from .numpy_forms import REDUCTION_UFUNCS, dtype_of, identity_element
from .philox import philox, philox_word


def interpret(kernel: Kernel, arrays: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> None:
    """Run a kernel in place on arrays, one per buffer. Raises IndexError outside of a buffer."""
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
            self.memory[buffer] = flat.view(dtype_of(buffer.type))
            if buffer.parts is not None:  # one thread
                flat[...] = 0
                self.memory[buffer] = self.memory[buffer][: buffer.parts[1]]
        self.sizes: dict[Size, int] = dict(zip(kernel.sizes, sizes, strict=True))
        self.indices: dict[Index, int] = {}
        self.accumulators: dict[Accumulator, Any] = {}
        self.memo: dict[Expression, Any] = {}
        self.orders: dict[Expression, list[Expression]] = {}

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
            accumulator = statement.accumulator
            start = None if statement.start is None else self.value(statement.start)
            self.accumulators[accumulator] = (start, NO_POSITION)
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

    def conditional(self, branch: While | If) -> None:
        while self.value(branch.condition):
            for statement in branch.body:
                self.step(statement)
            if isinstance(branch, If):
                return
            self.memo = {}

    def contract(self, contract: Contract) -> None:
        type = contract.sum.type
        product = Apply(contract.product, (_cast(contract.a, type), _cast(contract.b, type)), type)
        inner: Statement = Update(contract.sum, product)
        for axis in reversed(contract.depth):
            inner = Loop(axis.index, axis.extent, [inner])
        self.loop((*contract.rows, contract.column), [Begin(contract.sum), inner, *contract.body])

    def update(self, update: Update) -> None:
        current, best_position = self.accumulators[update.accumulator]
        value, fold = self.value(update.value), update.accumulator.fold
        if fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            assert update.position is not None
            position = int(self.value(update.position))
            if current is None or _is_better(fold, value, current) or (
                not _is_better(fold, current, value) and position < best_position
            ):
                current, best_position = value, position
            self.accumulators[update.accumulator] = (current, best_position)
            return
        computed = np.dtype(np.float64) if update.accumulator.type is Type.F32 else value.dtype
        new = value.astype(computed) if fold is ReduceOp.SUM else value
        self.accumulators[update.accumulator] = (
            new if current is None else _reduce(fold, current, new),
            best_position,
        )

    def store(self, store: Store) -> None:
        value = self.value(store.value)  # computed in any case, as in lanes
        if store.mask is not None and not self.value(store.mask):
            return
        place = self.position(store.at, store.indirect)
        memory = self.array_of(store.buffer, place)
        if store.add:
            type = store.buffer.type
            if type in (Type.F16, Type.BF16):
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

    def affine(self, affine: Affine) -> int:
        return affine.base + sum(self.indices[i] * self.extent(s) for i, s in affine.terms)

    def position(self, affine: Affine, indirect: Sequence[tuple[Expression, Extent]]) -> int:
        position = self.affine(affine)
        return position + sum(int(self.value(e)) * self.extent(s) for e, s in indirect)

    def array_of(self, buffer: Buffer, place: int) -> np.ndarray:
        memory = self.memory.get(buffer)
        if memory is None:
            if buffer.local is None:
                raise IndexError(f"buffer {buffer.name} is not an argument")
            memory = self.memory[buffer] = np.zeros(buffer.local, dtype_of(buffer.type))
        if not 0 <= place < memory.size:
            raise IndexError(f"{buffer.name}[{place}] of {memory.size} elements")
        return memory

    def value(self, expression: Expression) -> Any:
        """Return an expression's NumPy scalar. Shared expressions run once per statement."""
        memo = self.memo
        if expression not in memo:
            for subexpression in self.order(expression):
                if subexpression not in memo:
                    memo[subexpression] = self.compute(subexpression)
        return memo[expression]

    def order(self, expression: Expression) -> list[Expression]:
        """Return an expression's subexpressions, operands first; cached for all iterations."""
        order = self.orders.get(expression)
        if order is None:
            done: dict[Expression, None] = {}
            for subexpression in iterate_postorder([expression], done):
                done[subexpression] = None
            order = self.orders[expression] = list(done)
        return order

    def compute(self, expression: Expression) -> Any:
        kind = dtype_of(expression.type)
        if isinstance(expression, Constant):
            return np.asarray(expression.value).astype(kind)[()]
        if isinstance(expression, IndexValue):
            return np.int64(self.affine(expression.value))
        if isinstance(expression, SizeValue):
            return np.int64(self.sizes[expression.size])
        if isinstance(expression, Load):
            if expression.mask is not None and not self.value(expression.mask):
                return kind.type(0)
            place = self.position(expression.at, expression.indirect)
            return self.array_of(expression.buffer, place)[place]
        if isinstance(expression, Accumulator):
            current, position = self.accumulators[expression]
            if expression.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
                return np.int64(position)
            start = identity_element(expression.fold, kind) if current is None else current
            return np.asarray(start).astype(kind)[()]
        if not isinstance(expression, Apply):
            raise TypeError(f"an expression of type {type(expression).__name__}")
        if expression.operation is Scalar.WHERE:  # both are computed, as in lanes
            condition, a, b = (self.value(operand) for operand in expression.operands)
            return a if condition else b
        values = [self.value(operand) for operand in expression.operands]
        return np.asarray(apply_scalar(expression.operation, values, kind)).astype(kind)[()]


def _cast(value: Expression, type: Type) -> Expression:
    return value if value.type is type else Apply(Scalar.CAST, (value,), type)


# ------------------------------------------------------------------------------ folds


def _is_better(fold: ReduceOp, value: Any, current: Any) -> bool:
    if np.isnan(current):
        return False
    return bool(
        np.isnan(value) or (value > current if fold is ReduceOp.ARGMAX else value < current)
    )


def _reduce(fold: ReduceOp, current: Any, value: Any) -> Any:
    if fold is ReduceOp.LAST:
        return value
    return REDUCTION_UFUNCS[fold](current, value)


# ------------------------------------------------------------------------- operations


def apply_scalar(operation: Scalar, values: Sequence[Any], kind: np.dtype) -> Any:
    """Apply a scalar operation to NumPy scalars; the result has dtype `kind`."""
    first = values[0]
    if operation is Scalar.CAST:
        return _convert(first, kind)
    if operation is Scalar.BITCAST:
        return np.asarray(first).view(kind)[()]
    if operation in (Scalar.SHL, Scalar.SHR):
        return _shift(operation, *values)
    if operation in (Scalar.DIV, Scalar.REM) and first.dtype.kind in "iu":
        return _divide(operation, int(first), int(values[1]), kind)
    if operation in ROUNDINGS and kind.kind in "iu":
        return first
    if operation is Scalar.FMA:
        return _fma(values, kind)
    if operation in (Scalar.PHILOX, Scalar.PHILOX_WORD):
        words = philox if operation is Scalar.PHILOX else philox_word
        return words(*(np.atleast_1d(value) for value in values))[0]
    if operation in (Scalar.ERF, Scalar.ERFC, Scalar.LGAMMA):
        return getattr(math, operation.name.lower())(float(first))
    if operation in (Scalar.DOT_BYTES, Scalar.DOT_LOW_BYTES):
        return _dot_bytes(*values)
    if operation in NUMPY_FUNCTIONS:
        return NUMPY_FUNCTIONS[operation](*values)
    widened = [np.float64(value) for value in values]
    return getattr(np, NUMPY_NAMES.get(operation, operation.name.lower()))(*widened)


ROUNDINGS = (Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC, Scalar.ROUND)
NUMPY_FUNCTIONS: dict[Scalar, Callable[..., Any]] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.DIV: np.divide,
    Scalar.NEG: np.negative, Scalar.ABS: np.abs, Scalar.MAXIMUM: np.maximum,
    Scalar.MINIMUM: np.minimum, Scalar.REM: np.fmod, Scalar.COPYSIGN: np.copysign,
    Scalar.SQRT: np.sqrt, Scalar.FLOOR: np.floor, Scalar.CEIL: np.ceil, Scalar.TRUNC: np.trunc,
    Scalar.ROUND: np.rint, Scalar.EQ: np.equal, Scalar.NE: np.not_equal, Scalar.LT: np.less,
    Scalar.LE: np.less_equal, Scalar.GT: np.greater, Scalar.GE: np.greater_equal,
    Scalar.AND: np.bitwise_and, Scalar.OR: np.bitwise_or, Scalar.XOR: np.bitwise_xor,
    Scalar.NOT: np.invert,
}
NUMPY_NAMES = {
    Scalar.POW: "power", Scalar.ATAN2: "arctan2", Scalar.ASIN: "arcsin", Scalar.ACOS: "arccos",
    Scalar.ATAN: "arctan", Scalar.ASINH: "arcsinh", Scalar.ACOSH: "arccosh",
    Scalar.ATANH: "arctanh",
}


def _convert(value: Any, kind: np.dtype) -> Any:
    half = (np.dtype(np.float16), dtype_of(Type.BF16))
    if kind == np.bool_:
        return value != 0
    if value.dtype in half or (kind in half and value.dtype != kind):
        value = value.astype(np.float32)
    return value.astype(kind)


def _dot_bytes(a: Any, b: Any) -> Any:
    left, right = np.atleast_1d(a).view(np.uint8), np.atleast_1d(b).view(np.int8)
    return np.int32(left.astype(np.int32) @ right.astype(np.int32))


def _shift(operation: Scalar, value: Any, count: Any) -> Any:
    bits, by = 8 * value.dtype.itemsize, int(count)
    if not 0 <= by < bits:
        by = bits
    integer = int(value) << by if operation is Scalar.SHL else int(value) >> by
    return _wrap(integer, value.dtype)


def _divide(operation: Scalar, a: int, b: int, kind: np.dtype) -> Any:
    quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return _wrap(quotient if operation is Scalar.DIV else a - quotient * b, kind)


def _wrap(integer: int, kind: np.dtype) -> Any:
    bits = 8 * kind.itemsize
    return np.array(integer % (1 << bits), dtype=f"u{kind.itemsize}").view(kind)[()]


def _fma(values: Sequence[Any], kind: np.dtype) -> Any:
    if kind.kind in "iu":
        return _wrap(int(values[0]) * int(values[1]) + int(values[2]), kind)
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
