"""The loop IR: loop nests over strided memory with scalar expressions in their bodies.

A `Kernel` is one native function, run by all threads together. The interpreter (interpreter.py) is
slow and defines its meaning, verify.py defines what is legal, codegen/ translates it to LLVM IR.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Type(Enum):
    """An element type, by its NumPy name. A bool is a byte, 0 or 1."""

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
        """Bytes per element."""
        return _SIZES[self]


_FLOATS = frozenset((Type.F16, Type.BF16, Type.F32, Type.F64))
_SIGNED = frozenset((Type.I8, Type.I16, Type.I32, Type.I64))
_SIZES = {
    Type.BOOL: 1, Type.U8: 1, Type.I8: 1, Type.I16: 2, Type.I32: 4, Type.I64: 8, Type.U32: 4,
    Type.U64: 8, Type.F16: 2, Type.BF16: 2, Type.F32: 4, Type.F64: 8,
}


class Scalar(Enum):
    """An operation on one element. Operands share one type, which is the result's, unless noted.

    Arithmetic works on F32, F64 and integers; half precision is a storage type and must be cast
    before use. MAXIMUM and MINIMUM return NaN if either operand is NaN, and the first of
    0.0 and -0.0. Integer DIV and REM round towards zero.
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
    LGAMMA = auto()  # of F64, the C library's
    FLOOR = auto()
    CEIL = auto()
    TRUNC = auto()
    ROUND = auto()  # halves to even
    EQ = auto()  # comparisons give BOOL and are false with NaN, except NE
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
    SHR = auto()  # arithmetic on signed types, logical on unsigned types
    PHILOX = auto()  # (counter, stream, key) of U64: two random words, as in philox.py
    PHILOX_WORD = auto()  # (index, stream, key) of U64: one random word, U32
    WHERE = auto()  # (BOOL, a, b)
    CAST = auto()  # to the expression's type, as C casts; to BOOL: x != 0
    BITCAST = auto()  # the same bits as the expression's type, of the same size
    # Of I32: the sum of the products of four bytes each, a's unsigned, b's signed; wraps.
    DOT_BYTES = auto()
    DOT_LOW_BYTES = auto()  # the same if no byte of a exceeds 127: faster on some CPUs


class ReduceOp(Enum):
    """How an accumulator combines values."""

    SUM = auto()
    PRODUCT = auto()
    MAXIMUM = auto()  # NaN wins
    MINIMUM = auto()  # NaN wins
    ANY = auto()  # logical or, on BOOL
    ALL = auto()
    ARGMAX = auto()  # the position of the first greatest value (NaN is greatest), I64
    ARGMIN = auto()
    LAST = auto()  # the value of the last update, of a serial loop; 0 before


NO_POSITION = (1 << 63) - 1  # the ARGMAX position of an empty range


# ---------------------------------------------------------------------- indices and memory


class Position:
    """What positions are summed from: `row * width + column + 1`."""

    def as_affine(self) -> Affine:
        """Return the position as an affine function."""
        raise NotImplementedError

    def __add__(self, other: Affine | Index | int) -> Affine:
        a, b = self.as_affine(), Affine(other) if isinstance(other, int) else other.as_affine()
        return Affine(a.base + b.base, (*a.terms, *b.terms))

    __radd__ = __add__


@dataclass(eq=False)
class Index(Position):
    """A loop variable."""

    name: str

    def __mul__(self, stride: Extent) -> Affine:
        return Affine(0, ((self, stride),))

    def as_affine(self) -> Affine:
        """Return the variable's own value."""
        return self * 1


@dataclass(eq=False)
class Size:
    """An integer known only at run time: an extent or a stride, passed as an argument.

    `most` is its upper bound, if there is one.
    """

    name: str
    most: int | None = None


Extent = int | Size


@dataclass(frozen=True, eq=False)
class Affine(Position):
    """A position in elements: base + the sum of stride * index."""

    base: int = 0
    terms: tuple[tuple[Index, Extent], ...] = ()

    def as_affine(self) -> Affine:
        """Return itself."""
        return self

    def stride(self, index: Index) -> Extent:
        """Return the stride along an index; 0 if the index does not occur."""
        for term, stride in self.terms:
            if term is index:
                return stride
        return 0


@dataclass(eq=False)
class Buffer:
    """Memory that a kernel reads or writes: an argument, or private (`local`) scratch.

    `local` is the number of elements of a per-thread scratch array on the stack, None for an
    argument. Arguments do not overlap one another unless `aliased`.

    `parts` (rows, columns) marks an argument privatized for a parallel sum: the work is split into
    `rows` shares, each adds into its own row, and positions are within that row. All rows start at
    zero; only their total is defined, since which share adds what depends on the code generator.
    """

    type: Type
    name: str
    local: int | None = None
    aliased: bool = False
    parts: tuple[int, int] | None = None


# ------------------------------------------------------------------------------ expressions


class Expression:
    """A value computed for each element. An object that occurs twice is computed once."""

    type: Type


@dataclass(eq=False)
class Constant(Expression):
    """A number."""

    type: Type
    value: Any


@dataclass(eq=False)
class IndexValue(Expression):
    """An affine function of the loop indices, as an I64."""

    value: Affine
    type: Type = Type.I64


@dataclass(eq=False)
class SizeValue(Expression):
    """The value of a run-time size, as an I64."""

    size: Size
    type: Type = Type.I64


@dataclass(eq=False)
class Load(Expression):
    """An element of a buffer at an affine position plus computed offsets (a gather).

    `indirect` holds (I64 expression, stride) pairs that are added to the position. Where `mask` is
    false nothing is read and the value is 0.
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
    """A value reduced over a loop; as an expression, its current value.

    It lives from its `Begin` to the end of the enclosing body. For ARGMAX and ARGMIN the expression
    is the position (I64), and each `Update` supplies a value and a position.
    """

    fold: ReduceOp
    type: Type
    name: str = "sum"


# ------------------------------------------------------------------------------- statements


class Statement:
    """A step of a kernel."""


class LoopKind(Enum):
    """How the iterations of a loop may run."""

    SERIAL = auto()  # in order
    PARALLEL = auto()  # split among the threads; outermost loops only
    VECTORIZED = auto()  # in SIMD lanes: iterations are independent except for outer accumulators


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
    """Starts an accumulator at its neutral value, or at `start`."""

    accumulator: Accumulator
    start: Expression | None = None


@dataclass(eq=False)
class Update(Statement):
    """Reduces a value into an accumulator; ARGMAX and ARGMIN also take a `position`."""

    accumulator: Accumulator
    value: Expression
    position: Expression | None = None


@dataclass(eq=False)
class Store(Statement):
    """Writes an element, or adds to it with `add`, where `mask` is true."""

    buffer: Buffer
    at: Affine
    value: Expression
    indirect: tuple[tuple[Expression, Extent], ...] = ()
    mask: Expression | None = None
    add: bool = False


@dataclass(eq=False)
class While(Statement):
    """Runs the body while a BOOL condition holds; tested before each iteration. Never vectorized.
    """

    condition: Expression
    body: list[Statement]


@dataclass(eq=False)
class If(Statement):
    """Runs the body if a BOOL condition holds. Never vectorized."""

    condition: Expression
    body: list[Statement]


@dataclass(eq=False)
class Prefetch(Statement):
    """Prefetches the cache line of an element. The position may lie outside of the buffer."""

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
    (kernel height, kernel width, channel). `a` is invariant along the column, `b` along the rows.
    The body is the epilogue: stores of expressions over `sum`, the rows and the column. The code
    generator tiles the axes and, outside PARALLEL loops, splits them among the threads.

    `precision` is how many bfloat16 terms (8 bits each) of a float32 operand must count; 3 is all
    of them. Fewer permit, but do not require, faster instructions. `near` promises that operands of
    unknown extent fit the first-level caches, with a depth of at most 256. `shares` is the expected
    number of threads; any number may run the kernel. `product`: the operation for a * b: MUL, or
    DOT_BYTES or DOT_LOW_BYTES, whose four bytes are four depth steps.
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
    product: Scalar = Scalar.MUL


@dataclass(eq=False)
class Kernel:
    """One native function: its arguments (buffers, then sizes) and its statements.

    Each thread runs the outermost statements in order, without barriers, so no statement may read
    what another thread wrote. Outside PARALLEL loops and Contracts only thread 0 runs. `exact`
    forbids fused multiply-adds and takes F64 functions from the C library.
    """

    name: str
    buffers: list[Buffer]
    body: list[Statement]
    sizes: list[Size] = field(default_factory=list)
    exact: bool = False


# ------------------------------------------------------------------------------- looking around


def iterate_statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield all statements of a body, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop | Contract | While | If):
            yield from iterate_statements(statement.body)


def iterate_expressions(statement: Statement) -> Iterator[Expression]:
    """Yield the expressions of a statement itself, not those of nested statements."""
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


def get_operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct operands of an expression."""
    if isinstance(expression, Apply):
        return expression.operands
    if isinstance(expression, Load):
        computed = tuple(e for e, _ in expression.indirect)
        return computed if expression.mask is None else (*computed, expression.mask)
    return ()


def iterate_subexpressions(roots: Iterable[Expression]) -> Iterator[Expression]:
    """Yield expressions and everything that they depend on, each once."""
    stack, seen = list(roots), set()
    while stack:
        expression = stack.pop()
        if id(expression) not in seen:
            seen.add(id(expression))
            yield expression
            stack.extend(get_operands(expression))


def iterate_postorder(
    roots: Iterable[Expression], done: Container[Any]
) -> Iterator[Expression]:
    """Yield expressions not yet in `done`, operands before their users.

    The caller adds each expression to `done` before it asks for the next. Iterative, because sums
    can be thousands of operands deep.
    """
    stack = list(roots)
    while stack:
        expression = stack[-1]
        missing = (
            []
            if expression in done
            else [operand for operand in get_operands(expression) if operand not in done]
        )
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if expression not in done:
            yield expression
