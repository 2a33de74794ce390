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
from .numpy_forms import (
    REDUCTION_UFUNCS, dtype_of, identity_element, take_maximum, take_minimum,
)
from .philox import philox, philox_word


def interpret(kernel: Kernel, arrays: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> None:
    """Run a kernel in place on arrays, one per buffer. Raises IndexError outside of a buffer."""
    with np.errstate(all="ignore"):
        machine = _Machine(kernel, arrays, sizes)
        for statement in kernel.body:
            machine.execute(statement)


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

    def execute(self, statement: Statement) -> None:
        self.memo = {}
        _STATEMENTS[type(statement)](self, statement)

    def execute_loop(self, loop: Loop) -> None:
        rounds = self.evaluate_extent(loop.extent)
        self.repeat([Axis(loop.index, rounds)], loop.body)

    def repeat(self, axes: Sequence[Axis], body: Sequence[Statement]) -> None:
        if not axes:
            for statement in body:
                self.execute(statement)
            return
        for i in range(self.evaluate_extent(axes[0].extent)):
            self.indices[axes[0].index] = i
            self.repeat(axes[1:], body)

    def execute_branch(self, branch: While | If) -> None:
        while self.evaluate(branch.condition):
            for statement in branch.body:
                self.execute(statement)
            if isinstance(branch, If):
                return
            self.memo = {}

    def execute_begin(self, begin: Begin) -> None:
        start = None if begin.start is None else self.evaluate(begin.start)
        self.accumulators[begin.accumulator] = (start, NO_POSITION)

    def execute_prefetch(self, prefetch: Prefetch) -> None:
        self.evaluate_affine(prefetch.at)  # changes nothing, but its address must be valid

    def execute_contract(self, contract: Contract) -> None:
        type = contract.sum.type
        product = Apply(contract.product, (_cast(contract.a, type), _cast(contract.b, type)), type)
        inner: Statement = Update(contract.sum, product)
        for axis in reversed(contract.depth):
            inner = Loop(axis.index, axis.extent, [inner])
        self.repeat((*contract.rows, contract.column), [Begin(contract.sum), inner, *contract.body])

    def execute_update(self, update: Update) -> None:
        current, best_position = self.accumulators[update.accumulator]
        value, fold = self.evaluate(update.value), update.accumulator.fold
        if fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            assert update.position is not None
            position = int(self.evaluate(update.position))
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

    def execute_store(self, store: Store) -> None:
        value = self.evaluate(store.value)  # computed in any case, as in lanes
        if store.mask is not None and not self.evaluate(store.mask):
            return
        place = self.locate(store.at, store.indirect)
        memory = self.find_array(store.buffer, place)
        if store.add:
            type = store.buffer.type
            if type in (Type.F16, Type.BF16):
                total = memory[place].astype(np.float32) + value.astype(np.float32)
                value = total.astype(memory.dtype)
            else:
                value = memory[place] + value
        memory[place] = value

    # ----------------------------------------------------------------- expressions

    def evaluate_extent(self, extent: Extent | Affine) -> int:
        if isinstance(extent, Affine):
            return self.evaluate_affine(extent)
        return extent if isinstance(extent, int) else self.sizes[extent]

    def evaluate_affine(self, affine: Affine) -> int:
        return affine.base + sum(self.indices[i] * self.evaluate_extent(s) for i, s in affine.terms)

    def locate(self, affine: Affine, indirect: Sequence[tuple[Expression, Extent]]) -> int:
        position = self.evaluate_affine(affine)
        return position + sum(int(self.evaluate(e)) * self.evaluate_extent(s) for e, s in indirect)

    def find_array(self, buffer: Buffer, place: int) -> np.ndarray:
        memory = self.memory.get(buffer)
        if memory is None:
            if buffer.local is None:
                raise IndexError(f"buffer {buffer.name} is not an argument")
            memory = self.memory[buffer] = np.zeros(buffer.local, dtype_of(buffer.type))
        if not 0 <= place < memory.size:
            raise IndexError(f"{buffer.name}[{place}] of {memory.size} elements")
        return memory

    def evaluate(self, expression: Expression) -> Any:
        """Return an expression's NumPy scalar. Shared expressions run once per statement."""
        memo = self.memo
        if expression not in memo:
            for subexpression in self.sort_operands(expression):
                if subexpression not in memo:
                    memo[subexpression] = self.compute(subexpression)
        return memo[expression]

    def sort_operands(self, expression: Expression) -> list[Expression]:
        """Return an expression's subexpressions, operands first; cached for all iterations."""
        order = self.orders.get(expression)
        if order is None:
            done: dict[Expression, None] = {}
            for subexpression in iterate_postorder([expression], done):
                done[subexpression] = None
            order = self.orders[expression] = list(done)
        return order

    def compute(self, expression: Expression) -> Any:
        """Return an expression's NumPy scalar, from those of its operands."""
        return _EXPRESSIONS[type(expression)](self, expression, dtype_of(expression.type))

    def compute_constant(self, constant: Constant, kind: np.dtype) -> Any:
        return np.asarray(constant.value).astype(kind)[()]

    def compute_index(self, index: IndexValue, kind: np.dtype) -> Any:
        return np.int64(self.evaluate_affine(index.value))

    def compute_size(self, size: SizeValue, kind: np.dtype) -> Any:
        return np.int64(self.sizes[size.size])

    def compute_load(self, load: Load, kind: np.dtype) -> Any:
        if load.mask is not None and not self.evaluate(load.mask):
            return kind.type(0)
        place = self.locate(load.at, load.indirect)
        return self.find_array(load.buffer, place)[place]

    def compute_accumulator(self, accumulator: Accumulator, kind: np.dtype) -> Any:
        current, position = self.accumulators[accumulator]
        if accumulator.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            return np.int64(position)
        start = identity_element(accumulator.fold, kind) if current is None else current
        return np.asarray(start).astype(kind)[()]

    def compute_apply(self, apply: Apply, kind: np.dtype) -> Any:
        values = [self.evaluate(operand) for operand in apply.operands]
        if apply.operation is Scalar.WHERE:  # both are computed, as in lanes
            condition, a, b = values
            return a if condition else b
        return np.asarray(apply_scalar(apply.operation, values, kind)).astype(kind)[()]


_STATEMENTS: dict[type, Callable[[_Machine, Any], None]] = {
    Loop: _Machine.execute_loop, Contract: _Machine.execute_contract,
    While: _Machine.execute_branch, If: _Machine.execute_branch, Store: _Machine.execute_store,
    Begin: _Machine.execute_begin, Update: _Machine.execute_update,
    Prefetch: _Machine.execute_prefetch,
}
_EXPRESSIONS: dict[type, Callable[[_Machine, Any, np.dtype], Any]] = {
    Constant: _Machine.compute_constant, IndexValue: _Machine.compute_index,
    SizeValue: _Machine.compute_size, Load: _Machine.compute_load,
    Accumulator: _Machine.compute_accumulator, Apply: _Machine.compute_apply,
}


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
    if operation in _SPECIAL_FUNCTIONS:
        return _SPECIAL_FUNCTIONS[operation](values, kind)
    if operation in (Scalar.DIV, Scalar.REM) and values[0].dtype.kind in "iu":
        return _divide(operation, int(values[0]), int(values[1]), kind)
    if operation in ROUNDINGS and kind.kind in "iu":
        return values[0]
    if operation in NUMPY_FUNCTIONS:
        return NUMPY_FUNCTIONS[operation](*values)
    widened = [np.float64(value) for value in values]
    return getattr(np, NUMPY_NAMES.get(operation, operation.name.lower()))(*widened)


ROUNDINGS = (Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC, Scalar.ROUND)
NUMPY_FUNCTIONS: dict[Scalar, Callable[..., Any]] = {
    Scalar.ADD: np.add, Scalar.SUB: np.subtract, Scalar.MUL: np.multiply, Scalar.DIV: np.divide,
    Scalar.NEG: np.negative, Scalar.ABS: np.abs, Scalar.MAXIMUM: take_maximum,
    Scalar.MINIMUM: take_minimum, Scalar.REM: np.fmod, Scalar.COPYSIGN: np.copysign,
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


def _convert(values: Sequence[Any], kind: np.dtype) -> Any:
    value, = values
    half = (np.dtype(np.float16), dtype_of(Type.BF16))
    if kind == np.bool_:
        return value != 0
    if value.dtype in half or (kind in half and value.dtype != kind):
        value = value.astype(np.float32)
    return value.astype(kind)


def _dot_bytes(values: Sequence[Any], kind: np.dtype) -> Any:
    a, b = map(np.atleast_1d, values)
    left, right = a.view(np.uint8), b.view(np.int8)
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


def _draw_words(function: Callable[..., Any]) -> Callable[[Sequence[Any], np.dtype], Any]:
    return lambda values, kind: function(*map(np.atleast_1d, values))[0]


_SPECIAL_FUNCTIONS: dict[Scalar, Callable[[Sequence[Any], np.dtype], Any]] = {
    Scalar.CAST: _convert,
    Scalar.BITCAST: lambda values, kind: np.asarray(values[0]).view(kind)[()],
    Scalar.SHL: lambda values, kind: _shift(Scalar.SHL, *values),
    Scalar.SHR: lambda values, kind: _shift(Scalar.SHR, *values),
    Scalar.FMA: _fma,
    Scalar.PHILOX: _draw_words(philox),
    Scalar.PHILOX_WORD: _draw_words(philox_word),
    Scalar.ERF: lambda values, kind: math.erf(float(values[0])),
    Scalar.ERFC: lambda values, kind: math.erfc(float(values[0])),
    Scalar.LGAMMA: lambda values, kind: math.lgamma(float(values[0])),
    Scalar.DOT_BYTES: _dot_bytes,
    Scalar.DOT_LOW_BYTES: _dot_bytes,
}
