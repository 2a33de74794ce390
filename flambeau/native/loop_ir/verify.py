"""What is legal in the loop IR: `verify` raises VerifyError, naming the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, Fold,
    Given, If, Index, Kernel, Kind, Load, Loop, Position, Prefetch, Scalar, Size, Statement, Store,
    Type, Update, While, expressions, operands, operands_first, statements,
)

LOCAL_BYTES = 64 * 1024  # of local buffers, altogether

_BOOLEAN = frozenset((Scalar.AND, Scalar.OR, Scalar.XOR, Scalar.NOT))
_COMPARISONS = frozenset((Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE))
_ANY_NUMBER = frozenset((
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.DIV, Scalar.FMA, Scalar.NEG, Scalar.ABS,
    Scalar.MAXIMUM, Scalar.MINIMUM, Scalar.REM, Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC,
    Scalar.ROUND,
))  # fmt: skip
_INTEGER = _BOOLEAN | {Scalar.SHL, Scalar.SHR}
_COUNTS = {Scalar.FMA: 3, Scalar.PHILOX: 3, Scalar.PHILOX_WORD: 3, Scalar.WHERE: 3} | dict.fromkeys(
    (Scalar.NEG, Scalar.ABS, Scalar.SQRT, Scalar.EXP, Scalar.EXP2, Scalar.EXPM1, Scalar.LOG,
     Scalar.LOG2, Scalar.LOG10, Scalar.LOG1P, Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.ASIN,
     Scalar.ACOS, Scalar.ATAN, Scalar.SINH, Scalar.COSH, Scalar.TANH, Scalar.ASINH, Scalar.ACOSH,
     Scalar.ATANH, Scalar.ERF, Scalar.ERFC, Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC, Scalar.ROUND,
     Scalar.NOT, Scalar.CAST, Scalar.BITCAST), 1)  # fmt: skip
_HALVES = (Type.F16, Type.BF16)


class VerifyError(ValueError):
    """A kernel that is not legal: where, and why."""


def verify(kernel: Kernel, counts: Mapping[Buffer, int] | None = None) -> None:
    """Checks a kernel. `counts`: elements of buffers, whose affine positions are then checked.

    Raises VerifyError.
    """
    _Check(kernel, counts or {}).run()


class _Check:
    def __init__(self, kernel: Kernel, counts: Mapping[Buffer, int]) -> None:
        self.kernel, self.counts = kernel, counts
        self.extents: dict[Index, Extent] = {}
        self.begun: set[Accumulator] = set()
        self.outside: set[Accumulator] = set()  # begun outside of the loop over lanes
        self.folding: set[Accumulator] = set()  # what that loop updates
        self.place: list[str] = [f"kernel {kernel.name}"]
        self.lanes: Index | None = None
        self.parallel = False
        self.good: set[Expression] = set()
        self.known: dict[Accumulator, Type] = {}

    def fail(self, why: str) -> NoReturn:
        raise VerifyError(f"{', '.join(self.place)}: {why}")

    def run(self) -> None:
        buffers, sizes = self.kernel.buffers, self.kernel.sizes
        if len(set(buffers)) != len(buffers) or len(set(sizes)) != len(sizes):
            self.fail("an argument is listed twice")
        touched = {one.buffer: None for one in places(self.kernel.body)}
        local = [buffer for buffer in touched if buffer.local is not None]
        if any(buffer in local for buffer in buffers):
            self.fail("a local buffer is no argument: leave it out of `buffers`")
        for buffer in buffers:
            self.parts(buffer)
        total = sum((buffer.local or 0) * buffer.type.size for buffer in local)
        if total > LOCAL_BYTES:
            self.fail(f"{total} bytes of local buffers; there may be {LOCAL_BYTES}")
        self.body(self.kernel.body)

    def parts(self, one: Buffer) -> None:
        """What threads add to in rows of their own is sums, and nothing else is done with it."""
        if one.parts is None:
            return
        if not one.type.floating or one.type in _HALVES or one.aliased:
            self.fail(f"{one.name} of {one.type.value} has no parts")
        if min(one.parts) < 1:
            self.fail(f"{one.name} has parts of {one.parts}")
        if any(place.buffer is one and not (isinstance(place, Store) and place.add)
               for place in places(self.kernel.body)):  # fmt: skip
            self.fail(f"{one.name} has parts, and is only added to")

    # ------------------------------------------------------------------ statements

    def body(self, body: Sequence[Statement]) -> None:
        """Statements in a scope of their own: what is begun in it ends with it."""
        before = set(self.begun)
        for i, statement in enumerate(body):
            self.place.append(f"{type(statement).__name__} {i}")
            self.good.clear()
            self.statement(statement)
            self.place.pop()
        self.begun = before

    def statement(self, one: Statement) -> None:
        if not isinstance(one, Contract):
            for each in expressions(one):
                self.expression(each)
        if isinstance(one, Loop):
            self.loop(one)
        elif isinstance(one, Contract):
            self.contract(one)
        elif isinstance(one, Begin):
            self.begin(one)
        elif isinstance(one, Update):
            self.update(one)
        elif isinstance(one, Store):
            self.store(one)
        elif isinstance(one, While | If):
            self.conditional(one)
        elif isinstance(one, Prefetch):
            self.affine(one.at)
            if one.buffer.local is None and one.buffer not in self.kernel.buffers:
                self.fail(f"buffer {one.buffer.name} is not an argument")
        else:
            self.fail(f"a statement of type {type(one).__name__}")

    def loop(self, one: Loop) -> None:
        self.place[-1] = f"loop {one.index.name}"
        if one.kind is Kind.PARALLEL and (self.place[1:-1] and not self.parallel):
            self.fail("PARALLEL loops are outermost, or directly inside one another")
        if one.kind is Kind.LANES and self.lanes is not None:
            self.fail("a loop over lanes inside a loop over lanes")
        before = self.lanes, self.parallel, self.outside, self.folding
        if one.kind is Kind.LANES:
            self.lanes, self.outside, self.folding = one.index, set(self.begun), self.updates(one)
        begun = set(self.begun)
        if one.kind is Kind.PARALLEL:  # what is begun outside is the first thread's
            self.begun = set()
        self.parallel = one.kind is Kind.PARALLEL and len(one.body) == 1
        with_axes = self.axes([Axis(one.index, self.most(one))])
        if self.lanes is not None:
            self.collisions(one)
        self.body(one.body)
        self.forget(with_axes)
        self.begun = begun
        self.lanes, self.parallel, self.outside, self.folding = before

    def conditional(self, one: While | If) -> None:
        if self.lanes is not None:
            self.fail("a condition for statements in a loop over lanes")
        if one.condition.type is not Type.BOOL:
            self.fail(f"a condition of {one.condition.type.value}")
        before, self.parallel = self.parallel, False
        self.body(one.body)
        self.parallel = before

    def most(self, one: Loop) -> Extent:
        """A loop's extent; where indices around it decide, the largest."""
        if not isinstance(one.extent, Affine):
            return one.extent
        if one.kind is not Kind.SERIAL:
            self.fail("only SERIAL loops have an extent that changes")
        self.affine(one.extent)
        low = high = one.extent.base
        for index, stride in one.extent.terms:
            extent = self.extents[index]
            if isinstance(stride, Size) or isinstance(extent, Size):
                self.fail("an extent that changes by what is not known")
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if low < 0:
            self.fail(f"{low} rounds")
        return high

    @staticmethod
    def updates(one: Loop) -> set[Accumulator]:
        inside = statements(one.body)
        return {s.accumulator for s in inside if isinstance(s, Update)}

    def collisions(self, one: Loop) -> None:
        """Stores of different lanes must not meet, as far as can be seen."""
        if one.kind is not Kind.LANES or one.extent in (0, 1):
            return
        for s in statements(one.body):
            if isinstance(s, Store) and not s.indirect and s.at.stride(one.index) == 0:
                self.fail(f"all lanes of {one.index.name} store to one element of {s.buffer.name}")

    def axes(self, axes: Sequence[Axis]) -> list[Index]:
        for axis in axes:
            if axis.index in self.extents:
                self.fail(f"index {axis.index.name} is used by a loop around")
            self.extent(axis.extent, least=0)
            self.extents[axis.index] = axis.extent
        return [axis.index for axis in axes]

    def forget(self, indices: Sequence[Index]) -> None:
        for index in indices:
            del self.extents[index]

    def extent(self, one: Extent, least: int | None = None) -> None:
        if isinstance(one, Size):
            if one not in self.kernel.sizes:
                self.fail(f"size {one.name} is not an argument")
        elif not isinstance(one, int) or (least is not None and one < least):
            self.fail(f"{one!r} is no extent")

    def contract(self, one: Contract) -> None:
        if self.lanes is not None:
            self.fail("a contraction inside a loop over lanes")
        if one.a.at.stride(one.column.index) != 0:
            self.fail("a moves along the column")
        for axis in one.rows:
            if one.b.at.stride(axis.index) != 0:
                self.fail(f"b moves along the row {axis.index.name}")
        if one.sum.fold is not Fold.SUM:
            self.fail("the accumulator is no SUM")
        if not one.depth:
            self.fail("no depth")
        if one.precision not in (1, 2, 3):
            self.fail(f"a precision of {one.precision}")
        indices = self.axes([*one.rows, one.column, *one.depth])
        for operand in (one.a, one.b):
            self.expression(operand)
        self.forget([axis.index for axis in one.depth])
        self.begun.add(one.sum)
        self.known[one.sum] = one.sum.type
        for i, statement in enumerate(one.body):
            self.place.append(f"epilogue {i}")
            if not isinstance(statement, Store | Begin):
                self.fail("an epilogue only stores, and fixes values to store")
            self.good.clear()
            self.statement(statement)
            self.place.pop()
        self.begun.discard(one.sum)
        self.forget(indices[: len(one.rows) + 1])

    def begin(self, one: Begin) -> None:
        self.fold(one.accumulator)
        if one.start is not None and one.start.type is not one.accumulator.type:
            self.fail(f"starts {one.accumulator.name} at a {one.start.type.value}")
        if one.start is not None and one.accumulator.fold in (Fold.ARGMAX, Fold.ARGMIN):
            self.fail("ARGMAX and ARGMIN have no start")
        self.begun.add(one.accumulator)
        self.outside.discard(one.accumulator)

    def fold(self, one: Accumulator) -> None:
        if (one.type is Type.BOOL) != (one.fold in (Fold.ANY, Fold.ALL)):
            self.fail(f"{one.fold.name} of {one.type.value}")
        if one.type in _HALVES:
            self.fail(f"{one.name} accumulates {one.type.value}; cast to float32")

    def update(self, one: Update) -> None:
        accumulator = one.accumulator
        if accumulator not in self.begun:
            self.fail(f"{accumulator.name} is updated, and not begun here")
        if accumulator.fold in (Fold.ARGMAX, Fold.ARGMIN):
            if one.position is None or one.position.type is not Type.I64:
                self.fail(f"{accumulator.name} needs a position of int64")
            if one.value.type in (*_HALVES, Type.BOOL):
                self.fail(f"{accumulator.name} compares {one.value.type.value}")
            if self.known.setdefault(accumulator, one.value.type) is not one.value.type:
                self.fail(f"{accumulator.name} compares values of several types")
        elif one.value.type is not accumulator.type:
            types = f"{accumulator.type.value}, not {one.value.type.value}"
            self.fail(f"{accumulator.name} is of {types}")

    def store(self, one: Store) -> None:
        if one.value.type is not one.buffer.type:
            types = f"{one.value.type.value} in {one.buffer.name}, of {one.buffer.type.value}"
            self.fail(f"stores {types}")
        self.memory(one)

    # ----------------------------------------------------------------- expressions

    def expression(self, expression: Expression) -> None:
        for one in operands_first([expression], self.good):
            self.one(one)
            self.good.add(one)

    def one(self, one: Expression) -> None:
        if isinstance(one, Load):
            self.memory(one)
        elif isinstance(one, Position):
            self.affine(one.value)
        elif isinstance(one, Given):
            self.extent(one.size)
        elif isinstance(one, Accumulator):
            if one not in self.begun:
                self.fail(f"{one.name} is read, and not begun here")
            if self.lanes is not None and one in self.outside and one in self.folding:
                self.fail(f"{one.name} is read in the loop over lanes that updates it")
        elif isinstance(one, Apply):
            self.apply(one)
        elif not isinstance(one, Constant):
            self.fail(f"an expression of type {type(one).__name__}")

    def memory(self, one: Load | Store) -> None:
        name = one.buffer.name
        if one.buffer.local is None and one.buffer not in self.kernel.buffers:
            self.fail(f"buffer {name} is not an argument")
        self.affine(one.at)
        for each, stride in one.indirect:
            if each.type is not Type.I64:
                self.fail(f"{name} at a computed position of {each.type.value}, not int64")
            self.extent(stride)
        if one.mask is not None and one.mask.type is not Type.BOOL:
            self.fail(f"{name} under a mask of {one.mask.type.value}")
        count = one.buffer.local if one.buffer.local is not None else self.counts.get(one.buffer)
        count = count if one.buffer.parts is None else one.buffer.parts[1]
        if count is not None and not one.indirect and one.mask is None:
            self.within(one, count)

    def within(self, one: Load | Store, count: int) -> None:
        low = high = one.at.base
        for index, stride in one.at.terms:
            extent = self.extents[index]
            if isinstance(stride, Size) or isinstance(extent, Size):
                return
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if any(extent == 0 for extent in self.extents.values()):
            return
        if low < 0 or high >= count:
            self.fail(f"positions {low} to {high} of {one.buffer.name}, which has {count} elements")

    def affine(self, at: Affine) -> None:
        if len({index for index, _ in at.terms}) != len(at.terms):
            self.fail("an index occurs twice in a position")
        for index, stride in at.terms:
            if index not in self.extents:
                self.fail(f"index {index.name} is not that of a loop around")
            self.extent(stride)

    def apply(self, one: Apply) -> None:
        operation, types = one.operation, [each.type for each in one.operands]
        if len(types) != _COUNTS.get(operation, 2):
            self.fail(f"{operation.name} of {len(types)} operands")
        if operation is Scalar.CAST:
            return
        if operation is Scalar.BITCAST:
            if types[0].size != one.type.size:
                self.fail(f"BITCAST of {types[0].value} to {one.type.value}")
            return
        if operation is Scalar.WHERE:
            if types[0] is not Type.BOOL or types[1] is not types[2]:
                self.fail(f"WHERE of {', '.join(t.value for t in types)}")
        elif any(t is not types[0] for t in types):
            self.fail(f"{operation.name} of {', '.join(t.value for t in types)}")
        gives = Type.BOOL if operation in _COMPARISONS else types[-1]
        gives = Type.U32 if operation is Scalar.PHILOX_WORD else gives
        if one.type is not gives:
            self.fail(f"{operation.name} gives {gives.value}, not {one.type.value}")
        if not _computes(operation, types[-1]):
            self.fail(f"no {operation.name} on {types[-1].value}")


def _computes(operation: Scalar, type: Type) -> bool:
    """Whether an operation is defined on operands of a type."""
    if operation is Scalar.WHERE:
        return True
    if operation in (Scalar.PHILOX, Scalar.PHILOX_WORD):
        return type is Type.U64
    if type in _HALVES:
        return False
    if type is Type.BOOL:
        return operation in _BOOLEAN or operation in _COMPARISONS
    if operation in _ANY_NUMBER or operation in _COMPARISONS:
        return True
    return (operation in _INTEGER) != type.floating


def places(body: Sequence[Statement]) -> list[Load | Store]:
    """Every load and store of a body."""
    found: list[Load | Store] = []
    seen: set[Expression] = set()
    for statement in statements(body):
        if isinstance(statement, Store):
            found.append(statement)
        stack = list(expressions(statement))
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            seen.add(one)
            stack.extend(operands(one))
            if isinstance(one, Load):
                found.append(one)
    return found
