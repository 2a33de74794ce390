"""The loop IR: nests of loops over strided memory, with scalar expressions in their bodies.

A `Kernel` is what one native function does, on all threads together. interp.py runs it slowly and
is its definition; verify.py says what is legal; emit/ turns it into LLVM IR.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Type(Enum):
    """The type of an element: its NumPy name. A bool is a byte, 0 or 1."""

    __hash__ = object.__hash__  # Enum's own, of the name, is a Python function

    BOOL = "bool"
    U8 = "uint8"
    I8 = "int8"
    I16 = "int16"
    I32 = "int32"
    I64 = "int64"
    U32 = "uint32"
    U64 = "uint64"
    F16 = "float16"
    BF16 = "bfloat16"
    F32 = "float32"
    F64 = "float64"

    @property
    def floating(self) -> bool:
        """Whether it is a floating-point type."""
        return self in _FLOATS

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer type."""
        return self in _SIGNED

    @property
    def size(self) -> int:
        """Bytes an element."""
        return _SIZES[self]


_FLOATS = frozenset((Type.F16, Type.BF16, Type.F32, Type.F64))
_SIGNED = frozenset((Type.I8, Type.I16, Type.I32, Type.I64))
_SIZES = {
    Type.BOOL: 1, Type.U8: 1, Type.I8: 1, Type.I16: 2, Type.I32: 4, Type.I64: 8, Type.U32: 4,
    Type.U64: 8, Type.F16: 2, Type.BF16: 2, Type.F32: 4, Type.F64: 8,
}  # fmt: skip


class Scalar(Enum):
    """An operation on one element. Operands have one type, which is the result's, unless noted.

    Arithmetic is on F32, F64 and integers; half precision is stored, and cast to be computed with.
    MAXIMUM and MINIMUM give NaN when either operand is NaN. Integer DIV and REM round towards zero.
    """

    __hash__ = object.__hash__  # Enum's own, of the name, is a Python function

    ADD = auto()
    SUB = auto()
    MUL = auto()
    DIV = auto()
    FMA = auto()  # a * b + c, rounded once
    NEG = auto()
    ABS = auto()
    MAXIMUM = auto()
    MINIMUM = auto()
    REM = auto()  # C's fmod and %: the sign of the dividend
    POW = auto()
    ATAN2 = auto()
    COPYSIGN = auto()
    SQRT = auto()
    EXP = auto()
    EXP2 = auto()
    EXPM1 = auto()
    LOG = auto()
    LOG2 = auto()
    LOG10 = auto()
    LOG1P = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    ASIN = auto()
    ACOS = auto()
    ATAN = auto()
    SINH = auto()
    COSH = auto()
    TANH = auto()
    ASINH = auto()
    ACOSH = auto()
    ATANH = auto()
    ERF = auto()
    ERFC = auto()
    FLOOR = auto()
    CEIL = auto()
    TRUNC = auto()
    ROUND = auto()  # halves to even
    EQ = auto()  # comparisons give BOOL; ordered, false with NaN, but for NE
    NE = auto()
    LT = auto()
    LE = auto()
    GT = auto()
    GE = auto()
    AND = auto()  # bitwise on integers, logical on BOOL
    OR = auto()
    XOR = auto()
    NOT = auto()
    SHL = auto()
    SHR = auto()  # arithmetic on signed types, logical on unsigned ones
    PHILOX = auto()  # (counter, stream, key) of U64: two random words, as in philox.py
    PHILOX_WORD = auto()  # (index, stream, key) of U64: one random word, U32
    WHERE = auto()  # (BOOL, a, b)
    CAST = auto()  # to the expression's type, as C casts; to BOOL: x != 0
    BITCAST = auto()  # the same bits as the expression's type, of the same size


class ReduceOp(Enum):
    """How an accumulator takes in values."""

    SUM = auto()
    PRODUCT = auto()
    MAXIMUM = auto()  # NaN wins
    MINIMUM = auto()  # NaN wins
    ANY = auto()  # logical or, on BOOL
    ALL = auto()
    ARGMAX = auto()  # the position of the first greatest value (NaN is greatest), I64
    ARGMIN = auto()


# ---------------------------------------------------------------------- indices and memory


@dataclass(eq=False)
class Index:
    """A loop's variable."""

    name: str


@dataclass(eq=False)
class Size:
    """An integer known only when the kernel runs: an extent or a stride, given as an argument.

    `most`: what it is at most, where that is known.
    """

    name: str
    most: int | None = None


Extent = int | Size


@dataclass(frozen=True, eq=False)
class Affine:
    """A position in elements: base + the sum of stride * index."""

    base: int = 0
    terms: tuple[tuple[Index, Extent], ...] = ()

    def stride(self, index: Index) -> Extent:
        """The stride along an index; 0 where it does not occur."""
        for term, stride in self.terms:
            if term is index:
                return stride
        return 0


@dataclass(eq=False)
class Buffer:
    """Memory that a kernel reads or writes: an argument, or (`local`) its own scratch.

    `local` is the number of elements of a scratch that each thread has for itself, on its stack;
    None for an argument. Arguments do not overlap one another unless `aliased`.

    `parts` (rows, columns): an argument that threads add to, each in a row of its own.
    Positions are those in a row. All rows are zero when the kernel begins; what they mean
    afterwards is their sum, since who adds what depends on the emitter. So many threads run the
    kernel at most.
    """

    type: Type
    name: str
    local: int | None = None
    aliased: bool = False
    parts: tuple[int, int] | None = None


# ------------------------------------------------------------------------------ expressions


class Expression:
    """A value computed for each element; shared where the same object occurs twice."""

    type: Type


@dataclass(eq=False)
class Constant(Expression):
    """A number."""

    type: Type
    value: Any


@dataclass(eq=False)
class IndexValue(Expression):
    """An affine function of the loops' indices, as an I64."""

    value: Affine
    type: Type = Type.I64


@dataclass(eq=False)
class SizeValue(Expression):
    """A size's value, as an I64."""

    size: Size
    type: Type = Type.I64


@dataclass(eq=False)
class Load(Expression):
    """An element of a buffer, at an affine position plus computed ones (for gathers).

    `indirect`: (I64 expression, stride) pairs added to the position. `mask`: where it is false
    nothing is read and the value is 0.
    """

    buffer: Buffer
    at: Affine
    indirect: tuple[tuple[Expression, Extent], ...] = ()
    mask: Expression | None = None

    def __post_init__(self) -> None:
        self.type = self.buffer.type


@dataclass(eq=False)
class Apply(Expression):
    """A scalar operation on expressions."""

    operation: Scalar
    operands: tuple[Expression, ...]
    type: Type


@dataclass(eq=False)
class Accumulator(Expression):
    """A value folded over a loop; as an expression, what it holds at that point.

    It lives from its `Begin` to the end of the statements around that. For ARGMAX and ARGMIN the
    expression is the position (I64), and `Update` gives value and position.
    """

    fold: ReduceOp
    type: Type
    name: str = "sum"


# ------------------------------------------------------------------------------- statements


class Statement:
    """A step of a kernel."""


class LoopKind(Enum):
    """How a loop's rounds may be run."""

    SERIAL = auto()  # one after another
    PARALLEL = auto()  # shared out among the threads; outermost loops only
    VECTORIZED = auto()  # in vectors: rounds are independent but for accumulators begun outside


@dataclass(eq=False)
class Loop(Statement):
    """for index in range(extent): body.

    A SERIAL loop inside others may have an `Affine` of their indices as its extent: a triangle.
    """

    index: Index
    extent: Extent | Affine
    body: list[Statement]
    kind: LoopKind = LoopKind.SERIAL


@dataclass(eq=False)
class Begin(Statement):
    """Starts an accumulator at its fold's neutral value, or at `start`."""

    accumulator: Accumulator
    start: Expression | None = None


@dataclass(eq=False)
class Update(Statement):
    """Folds a value into an accumulator; `position` for ARGMAX and ARGMIN."""

    accumulator: Accumulator
    value: Expression
    position: Expression | None = None


@dataclass(eq=False)
class Store(Statement):
    """Writes an element; with `add`, adds to what is there. `mask`: only where it is true."""

    buffer: Buffer
    at: Affine
    value: Expression
    indirect: tuple[tuple[Expression, Extent], ...] = ()
    mask: Expression | None = None
    add: bool = False


@dataclass(eq=False)
class While(Statement):
    """As long as a condition (BOOL) holds, looked at before each round: body. Not in lanes."""

    condition: Expression
    body: list[Statement]


@dataclass(eq=False)
class If(Statement):
    """The body, where a condition (BOOL) holds. Not in lanes."""

    condition: Expression
    body: list[Statement]


@dataclass(eq=False)
class Prefetch(Statement):
    """Asks for the line of an element that will be read or written soon; nothing else.

    The position may lie outside of the buffer.
    """

    buffer: Buffer
    at: Affine


@dataclass(frozen=True, eq=False)
class Axis:
    """An index and its extent."""

    index: Index
    extent: Extent


@dataclass(eq=False)
class Contract(Statement):
    """A contraction: for all rows and columns, `sum` = sum over depth of a * b, then `body`.

    for rows...: for column: sum = 0; for depth...: sum += a * b; body

    A matrix product has one row and one depth axis; a convolution has rows (n, h, w) and depth
    (kernel height, kernel width, channel). `a` does not move along the column, `b` not along the
    rows. The body (stores of expressions over `sum`, the rows and the column) is the epilogue. Its
    axes belong to the emitter, which tiles them and, outside PARALLEL loops, shares them out
    among the threads.

    `precision`: how much of float32 operands must count, in bfloat16 parts (8 bits each): 3 is all
    of them. Less may be used where that is faster, and need not. `near`: whether the operands are
    known to be small where their extents are not: in the first caches, and no deeper than 256.
    `shares`: for how many threads it is cut, as far as is known: any number may run it.
    """

    rows: tuple[Axis, ...]
    column: Axis
    depth: tuple[Axis, ...]
    a: Load
    b: Load
    sum: Accumulator
    body: list[Statement]
    precision: int = 3
    near: bool = False
    shares: int = 2


@dataclass(eq=False)
class Kernel:
    """One native function: its arguments (buffers, then sizes) and what it does.

    The outermost statements run one after another on each thread, without a barrier between
    them: none may read what another thread wrote. Outside PARALLEL loops and Contracts, thread 0
    alone runs. `exact`: no product is added to something without being rounded first, and functions
    of F64 are the C library's.
    """

    name: str
    buffers: list[Buffer]
    body: list[Statement]
    sizes: list[Size] = field(default_factory=list)
    exact: bool = False


# ------------------------------------------------------------------------------- looking around


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Every statement of a body, outer ones before what is in them."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop | Contract | While | If):
            yield from statements(statement.body)


def expressions(statement: Statement) -> Iterator[Expression]:
    """The expressions that a statement itself holds, not those of statements inside it."""
    if isinstance(statement, Store | Update):
        yield statement.value
    if isinstance(statement, Store):
        yield from (e for e, _ in statement.indirect)
        if statement.mask is not None:
            yield statement.mask
    elif isinstance(statement, Update) and statement.position is not None:
        yield statement.position
    elif isinstance(statement, Begin) and statement.start is not None:
        yield statement.start
    elif isinstance(statement, While | If):
        yield statement.condition
    elif isinstance(statement, Contract):
        yield statement.a
        yield statement.b


def operands(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is computed from."""
    if isinstance(expression, Apply):
        return expression.operands
    if isinstance(expression, Load):
        computed = tuple(e for e, _ in expression.indirect)
        return computed if expression.mask is None else (*computed, expression.mask)
    return ()


def subexpressions(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Expressions and all that they are computed from, each once."""
    stack, seen = list(roots), set()
    while stack:
        expression = stack.pop()
        if id(expression) not in seen:
            seen.add(id(expression))
            yield expression
            stack.extend(operands(expression))


def postorder(
    roots: Iterable[Expression], done: Container[Any]
) -> Iterator[Expression]:
    """Expressions and what they are computed from, as far as `done` lacks it, operands first.

    Who gets one adds it to `done` before the next is asked for. No recursion: sums can be long.
    """
    stack = list(roots)
    while stack:
        expression = stack[-1]
        missing = (
            []
            if expression in done
            else [each for each in operands(expression) if each not in done]
        )
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if expression not in done:
            yield expression
