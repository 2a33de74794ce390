"""The verifier of the loop IR: `verify` raises VerifyError and names the bad statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from .ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Extent, If,
    Index, IndexValue, Kernel, Load, Loop, LoopKind, Prefetch, ReduceOp, Scalar, Size, SizeValue,
    Statement, Store, Type, Update, While, get_operands, iterate_expressions, iterate_postorder,
    iterate_statements,
)

LOCAL_BYTES = 64 * 1024  # limit on all local buffers together

_BOOLEAN = frozenset((Scalar.AND, Scalar.OR, Scalar.XOR, Scalar.NOT))
_COMPARISONS = frozenset((Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE))
_ANY_NUMBER = frozenset((
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.DIV, Scalar.FMA, Scalar.NEG, Scalar.ABS,
    Scalar.MAXIMUM, Scalar.MINIMUM, Scalar.REM, Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC,
    Scalar.ROUND,
))
_BYTE_PRODUCTS = frozenset((Scalar.DOT_BYTES, Scalar.DOT_LOW_BYTES))
_INTEGER = _BOOLEAN | {Scalar.SHL, Scalar.SHR}
_COUNTS = {Scalar.FMA: 3, Scalar.PHILOX: 3, Scalar.PHILOX_WORD: 3, Scalar.WHERE: 3} | dict.fromkeys(
    (Scalar.NEG, Scalar.ABS, Scalar.SQRT, Scalar.EXP, Scalar.EXP2, Scalar.EXPM1, Scalar.LOG,
     Scalar.LOG2, Scalar.LOG10, Scalar.LOG1P, Scalar.SIN, Scalar.COS, Scalar.TAN, Scalar.ASIN,
     Scalar.ACOS, Scalar.ATAN, Scalar.SINH, Scalar.COSH, Scalar.TANH, Scalar.ASINH, Scalar.ACOSH,
     Scalar.ATANH, Scalar.ERF, Scalar.ERFC, Scalar.LGAMMA, Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC,
     Scalar.ROUND, Scalar.NOT, Scalar.CAST, Scalar.BITCAST), 1)
_HALVES = (Type.F16, Type.BF16)


class VerifyError(ValueError):
    """An illegal kernel; the message says where and why."""


def verify(kernel: Kernel, counts: Mapping[Buffer, int] | None = None) -> None:
    """Check a kernel. `counts`: elements of buffers, whose affine positions are then checked.

    Raises VerifyError.
    """
    _Check(kernel, counts or {}).run()


class _KernelScope:
    """The scope of a statement: the loops around it, and the accumulators begun so far.

    `outside`: accumulators begun outside of the loop over lanes; `active_reductions`: those that
    this loop updates.
    """

    def __init__(self, kernel: Kernel, counts: Mapping[Buffer, int]) -> None:
        self.kernel, self.counts = kernel, counts
        self.extents: dict[Index, Extent] = {}
        self.begun: set[Accumulator] = set()
        self.outside: set[Accumulator] = set()
        self.active_reductions: set[Accumulator] = set()
        self.place: list[str] = [f"kernel {kernel.name}"]
        self.lanes: Index | None = None
        self.known: dict[Accumulator, Type] = {}

    def fail(self, why: str) -> NoReturn:
        raise VerifyError(f"{', '.join(self.place)}: {why}")

    def axes(self, axes: Sequence[Axis]) -> list[Index]:
        for axis in axes:
            if axis.index in self.extents:
                self.fail(f"index {axis.index.name} is used by a loop around")
            self.extent(axis.extent, minimum=0)
            self.extents[axis.index] = axis.extent
        return [axis.index for axis in axes]

    def forget(self, indices: Sequence[Index]) -> None:
        for index in indices:
            del self.extents[index]

    def extent(self, extent: Extent, minimum: int | None = None) -> None:
        if isinstance(extent, Size):
            if extent not in self.kernel.sizes:
                self.fail(f"size {extent.name} is not an argument")
        elif not isinstance(extent, int) or (minimum is not None and extent < minimum):
            self.fail(f"{extent!r} is no extent")

    def affine(self, affine: Affine) -> None:
        if len({index for index, _ in affine.terms}) != len(affine.terms):
            self.fail("an index occurs twice in a position")
        for index, stride in affine.terms:
            if index not in self.extents:
                self.fail(f"index {index.name} is not that of a loop around")
            self.extent(stride)


class _ExpressionCheck:
    """Checks expressions and accesses to memory. `good`: those of a statement that passed."""

    def __init__(self, scope: _KernelScope) -> None:
        self.scope = scope
        self.good: set[Expression] = set()

    def expression(self, expression: Expression) -> None:
        for current in iterate_postorder([expression], self.good):
            self.check_operation(current)
            self.good.add(current)

    def check_operation(self, expression: Expression) -> None:
        if isinstance(expression, Load):
            self.memory(expression)
        elif isinstance(expression, IndexValue):
            self.scope.affine(expression.value)
        elif isinstance(expression, SizeValue):
            self.scope.extent(expression.size)
        elif isinstance(expression, Accumulator):
            if expression not in self.scope.begun:
                self.scope.fail(f"{expression.name} is read, and not begun here")
            if (
                self.scope.lanes is not None
                and expression in self.scope.outside
                and expression in self.scope.active_reductions
            ):
                self.scope.fail(f"{expression.name} is read in the loop over lanes that updates it")
        elif isinstance(expression, Apply):
            self.apply(expression)
        elif not isinstance(expression, Constant):
            self.scope.fail(f"an expression of type {type(expression).__name__}")

    def memory(self, access: Load | Store) -> None:
        name = access.buffer.name
        if access.buffer.local is None and access.buffer not in self.scope.kernel.buffers:
            self.scope.fail(f"buffer {name} is not an argument")
        self.scope.affine(access.at)
        for index, stride in access.indirect:
            if index.type is not Type.I64:
                self.scope.fail(f"{name} at a computed position of {index.type.value}, not int64")
            self.scope.extent(stride)
        if access.mask is not None and access.mask.type is not Type.BOOL:
            self.scope.fail(f"{name} under a mask of {access.mask.type.value}")
        count = (
            access.buffer.local
            if access.buffer.local is not None
            else self.scope.counts.get(access.buffer)
        )
        count = count if access.buffer.parts is None else access.buffer.parts[1]
        if count is not None and not access.indirect and access.mask is None:
            self.check_bounds(access, count)

    def check_bounds(self, access: Load | Store, count: int) -> None:
        low = high = access.at.base
        for index, stride in access.at.terms:
            extent = self.scope.extents[index]
            if isinstance(stride, Size) or isinstance(extent, Size):
                return
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if any(extent == 0 for extent in self.scope.extents.values()):
            return
        if low < 0 or high >= count:
            self.scope.fail(
                f"positions {low} to {high} of {access.buffer.name}, which has {count} elements"
            )

    def apply(self, apply: Apply) -> None:
        operation, types = apply.operation, [operand.type for operand in apply.operands]
        if len(types) != _COUNTS.get(operation, 2):
            self.scope.fail(f"{operation.name} of {len(types)} operands")
        if operation is Scalar.CAST:
            return
        if operation is Scalar.BITCAST:
            if types[0].size != apply.type.size:
                self.scope.fail(f"BITCAST of {types[0].value} to {apply.type.value}")
            return
        if operation is Scalar.WHERE:
            if types[0] is not Type.BOOL or types[1] is not types[2]:
                self.scope.fail(f"WHERE of {', '.join(t.value for t in types)}")
        elif any(t is not types[0] for t in types):
            self.scope.fail(f"{operation.name} of {', '.join(t.value for t in types)}")
        gives = Type.BOOL if operation in _COMPARISONS else types[-1]
        gives = Type.U32 if operation is Scalar.PHILOX_WORD else gives
        if apply.type is not gives:
            self.scope.fail(f"{operation.name} gives {gives.value}, not {apply.type.value}")
        if not _is_defined(operation, types[-1]):
            self.scope.fail(f"no {operation.name} on {types[-1].value}")


class _Check:
    """Checks the statements of a kernel."""

    def __init__(self, kernel: Kernel, counts: Mapping[Buffer, int]) -> None:
        self.scope = _KernelScope(kernel, counts)
        self.expressions = _ExpressionCheck(self.scope)
        self.parallel = False

    def run(self) -> None:
        buffers, sizes = self.scope.kernel.buffers, self.scope.kernel.sizes
        if len(set(buffers)) != len(buffers) or len(set(sizes)) != len(sizes):
            self.scope.fail("an argument is listed twice")
        touched = {access.buffer: None for access in collect_accesses(self.scope.kernel.body)}
        local = [buffer for buffer in touched if buffer.local is not None]
        if any(buffer in local for buffer in buffers):
            self.scope.fail("a local buffer is no argument: leave it out of `buffers`")
        for buffer in buffers:
            self.parts(buffer)
        total = sum((buffer.local or 0) * buffer.type.size for buffer in local)
        if total > LOCAL_BYTES:
            self.scope.fail(f"{total} bytes of local buffers; there may be {LOCAL_BYTES}")
        self.body(self.scope.kernel.body)

    def parts(self, buffer: Buffer) -> None:
        """Check that privatized buffers are only added to."""
        if buffer.parts is None:
            return
        if not buffer.type.floating or buffer.type in _HALVES or buffer.aliased:
            self.scope.fail(f"{buffer.name} of {buffer.type.value} has no parts")
        if min(buffer.parts) < 1:
            self.scope.fail(f"{buffer.name} has parts of {buffer.parts}")
        if any(place.buffer is buffer and not (isinstance(place, Store) and place.add)
               for place in collect_accesses(self.scope.kernel.body)):
            self.scope.fail(f"{buffer.name} has parts, and is only added to")

    # ------------------------------------------------------------------ statements

    def body(self, body: Sequence[Statement]) -> None:
        """Check statements in a new scope, which ends the accumulators begun in it."""
        before = set(self.scope.begun)
        for i, statement in enumerate(body):
            self.scope.place.append(f"{type(statement).__name__} {i}")
            self.expressions.good.clear()
            self.statement(statement)
            self.scope.place.pop()
        self.scope.begun = before

    def statement(self, statement: Statement) -> None:
        if not isinstance(statement, Contract):
            for expression in iterate_expressions(statement):
                self.expressions.expression(expression)
        if isinstance(statement, Loop):
            self.loop(statement)
        elif isinstance(statement, Contract):
            self.contract(statement)
        elif isinstance(statement, Begin):
            self.begin(statement)
        elif isinstance(statement, Update):
            self.update(statement)
        elif isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, While | If):
            self.conditional(statement)
        elif isinstance(statement, Prefetch):
            self.scope.affine(statement.at)
            if statement.buffer.local is None and statement.buffer not in self.scope.kernel.buffers:
                self.scope.fail(f"buffer {statement.buffer.name} is not an argument")
        else:
            self.scope.fail(f"a statement of type {type(statement).__name__}")

    def loop(self, loop: Loop) -> None:
        self.scope.place[-1] = f"loop {loop.index.name}"
        if loop.kind is LoopKind.PARALLEL and (self.scope.place[1:-1] and not self.parallel):
            self.scope.fail("PARALLEL loops are outermost, or directly inside one another")
        if loop.kind is LoopKind.VECTORIZED and self.scope.lanes is not None:
            self.scope.fail("a loop over lanes inside a loop over lanes")
        before = self.scope.lanes, self.parallel, self.scope.outside, self.scope.active_reductions
        if loop.kind is LoopKind.VECTORIZED:
            self.scope.lanes, self.scope.outside, self.scope.active_reductions = (
                loop.index,
                set(self.scope.begun),
                self.updates(loop),
            )
        begun = set(self.scope.begun)
        if loop.kind is LoopKind.PARALLEL:  # accumulators begun outside belong to the first thread
            self.scope.begun = set()
        self.parallel = loop.kind is LoopKind.PARALLEL and len(loop.body) == 1
        with_axes = self.scope.axes([Axis(loop.index, self.largest_extent(loop))])
        if self.scope.lanes is not None:
            self.collisions(loop)
        self.body(loop.body)
        self.scope.forget(with_axes)
        self.scope.begun = begun
        self.scope.lanes, self.parallel, self.scope.outside, self.scope.active_reductions = before

    def conditional(self, statement: While | If) -> None:
        if self.scope.lanes is not None:
            self.scope.fail("a condition for statements in a loop over lanes")
        if statement.condition.type is not Type.BOOL:
            self.scope.fail(f"a condition of {statement.condition.type.value}")
        before, self.parallel = self.parallel, False
        self.body(statement.body)
        self.parallel = before

    def largest_extent(self, loop: Loop) -> Extent:
        """Return a loop's extent; its maximum if it depends on outer indices."""
        if not isinstance(loop.extent, Affine):
            return loop.extent
        if loop.kind is not LoopKind.SERIAL:
            self.scope.fail("only SERIAL loops have an extent that changes")
        self.scope.affine(loop.extent)
        low = high = loop.extent.base
        for index, stride in loop.extent.terms:
            extent = self.scope.extents[index]
            if isinstance(stride, Size) or isinstance(extent, Size):
                self.scope.fail("an extent that changes by what is not known")
            reach = stride * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if low < 0:
            self.scope.fail(f"{low} rounds")
        return high

    @staticmethod
    def updates(loop: Loop) -> set[Accumulator]:
        inside = iterate_statements(loop.body)
        return {s.accumulator for s in inside if isinstance(s, Update)}

    def collisions(self, loop: Loop) -> None:
        """Fail if stores of different lanes visibly collide."""
        if loop.kind is not LoopKind.VECTORIZED or loop.extent in (0, 1):
            return
        for s in iterate_statements(loop.body):
            if isinstance(s, Store) and not s.indirect and s.at.stride(loop.index) == 0:
                self.scope.fail(
                    f"all lanes of {loop.index.name} store to one element of {s.buffer.name}"
                )

    def contract(self, contract: Contract) -> None:
        if self.scope.lanes is not None:
            self.scope.fail("a contraction inside a loop over lanes")
        if contract.a.at.stride(contract.column.index) != 0:
            self.scope.fail("a moves along the column")
        for axis in contract.rows:
            if contract.b.at.stride(axis.index) != 0:
                self.scope.fail(f"b moves along the row {axis.index.name}")
        if contract.sum.fold is not ReduceOp.SUM:
            self.scope.fail("the accumulator is no SUM")
        if not contract.depth:
            self.scope.fail("no depth")
        if contract.product in _BYTE_PRODUCTS:
            if {contract.a.type, contract.b.type, contract.sum.type} != {Type.I32}:
                self.scope.fail("quads of bytes are int32, and so is their sum")
        elif contract.product is not Scalar.MUL:
            self.scope.fail(f"a contraction's product is no {contract.product.name}")
        if contract.precision not in (1, 2, 3):
            self.scope.fail(f"a precision of {contract.precision}")
        indices = self.scope.axes([*contract.rows, contract.column, *contract.depth])
        for operand in (contract.a, contract.b):
            self.expressions.expression(operand)
        self.scope.forget([axis.index for axis in contract.depth])
        self.scope.begun.add(contract.sum)
        self.scope.known[contract.sum] = contract.sum.type
        for i, statement in enumerate(contract.body):
            self.scope.place.append(f"epilogue {i}")
            if not isinstance(statement, Store | Begin):
                self.scope.fail("an epilogue only stores, and fixes values to store")
            self.expressions.good.clear()
            self.statement(statement)
            self.scope.place.pop()
        self.scope.begun.discard(contract.sum)
        self.scope.forget(indices[: len(contract.rows) + 1])

    def begin(self, begin: Begin) -> None:
        self.fold(begin.accumulator)
        if begin.start is not None and begin.start.type is not begin.accumulator.type:
            self.scope.fail(f"starts {begin.accumulator.name} at a {begin.start.type.value}")
        if begin.start is not None and begin.accumulator.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            self.scope.fail("ARGMAX and ARGMIN have no start")
        self.scope.begun.add(begin.accumulator)
        self.scope.outside.discard(begin.accumulator)

    def fold(self, accumulator: Accumulator) -> None:
        if (accumulator.type is Type.BOOL) != (accumulator.fold in (ReduceOp.ANY, ReduceOp.ALL)):
            self.scope.fail(f"{accumulator.fold.name} of {accumulator.type.value}")
        if accumulator.type in _HALVES:
            kind = accumulator.type.value
            self.scope.fail(f"{accumulator.name} accumulates {kind}; cast to float32")

    def update(self, update: Update) -> None:
        accumulator = update.accumulator
        if accumulator not in self.scope.begun:
            self.scope.fail(f"{accumulator.name} is updated, and not begun here")
        if accumulator.fold is ReduceOp.LAST and accumulator in self.scope.outside:
            self.scope.fail(f"{accumulator.name} has no last value in a loop over lanes")
        if accumulator.fold in (ReduceOp.ARGMAX, ReduceOp.ARGMIN):
            if update.position is None or update.position.type is not Type.I64:
                self.scope.fail(f"{accumulator.name} needs a position of int64")
            if update.value.type in (*_HALVES, Type.BOOL):
                self.scope.fail(f"{accumulator.name} compares {update.value.type.value}")
            if self.scope.known.setdefault(accumulator, update.value.type) is not update.value.type:
                self.scope.fail(f"{accumulator.name} compares values of several types")
        elif update.value.type is not accumulator.type:
            types = f"{accumulator.type.value}, not {update.value.type.value}"
            self.scope.fail(f"{accumulator.name} is of {types}")

    def store(self, store: Store) -> None:
        if store.value.type is not store.buffer.type:
            types = f"{store.value.type.value} in {store.buffer.name}, of {store.buffer.type.value}"
            self.scope.fail(f"stores {types}")
        self.expressions.memory(store)


def _is_defined(operation: Scalar, type: Type) -> bool:
    """Whether an operation is defined on operands of a type."""
    if operation is Scalar.WHERE:
        return True
    if operation in (Scalar.PHILOX, Scalar.PHILOX_WORD):
        return type is Type.U64
    if type in _HALVES:
        return False
    if operation in _BYTE_PRODUCTS:
        return type is Type.I32
    if type is Type.BOOL:
        return operation in _BOOLEAN or operation in _COMPARISONS
    if operation in _ANY_NUMBER or operation in _COMPARISONS:
        return True
    return (operation in _INTEGER) != type.floating


def collect_accesses(body: Sequence[Statement]) -> list[Load | Store]:
    """Return every load and store of a body."""
    collected: list[Load | Store] = []
    seen: set[Expression] = set()
    for statement in iterate_statements(body):
        if isinstance(statement, Store):
            collected.append(statement)
        stack = list(iterate_expressions(statement))
        while stack:
            expression = stack.pop()
            if expression in seen:
                continue
            seen.add(expression)
            stack.extend(get_operands(expression))
            if isinstance(expression, Load):
                collected.append(expression)
    return collected
