"""Random numbers: the Mersenne Twister's blocks of words, and uniform numbers from words.

Words are used singly (U32), or in pairs read as U64, with the first word of a pair in the upper
half of its number. Normal numbers are in normal.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...loop_ir.expression_builder import Value, apply, compare, compute_type, where
from ...loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Expression, Index, IndexValue, Kernel, Load, Loop, LoopKind,
    Scalar, Size, Statement, Store, Type,
)
from ...target.cost_model import TWISTER_BLOCKS_PER_GROUP, TWISTER_WORDS_PER_PART

STATE_WORDS, MIDDLE_WORD = 624, 397  # words of a state; distance to the word that is XORed in
_MATRIX = 0x9908B0DF


def _create_word(number: int) -> Expression:
    return Constant(Type.U32, number)


def _apply_operation(operation: Scalar, *operands: Expression) -> Expression:
    return Apply(operation, operands, Type.U32)


def _compute_next_word(first: Expression, second: Expression, ahead: Expression) -> Expression:
    """Return the next state's word from the word at its position, its successor, and one ahead."""
    upper = _apply_operation(Scalar.AND, first, _create_word(0x80000000))
    mixed = _apply_operation(
        Scalar.OR, upper, _apply_operation(Scalar.AND, second, _create_word(0x7FFFFFFF))
    )
    low_bit = _apply_operation(Scalar.AND, second, _create_word(1))
    matrix = _apply_operation(
        Scalar.AND, _apply_operation(Scalar.SUB, _create_word(0), low_bit), _create_word(_MATRIX)
    )
    return _apply_operation(
        Scalar.XOR, _apply_operation(
            Scalar.XOR, _apply_operation(Scalar.SHR, mixed, _create_word(1)), matrix
        ), ahead
    )


def _temper(y: Expression) -> Expression:
    """Temper a state word into an output word."""
    y = _apply_operation(Scalar.XOR, y, _apply_operation(Scalar.SHR, y, _create_word(11)))
    for shift, mask in ((7, 0x9D2C5680), (15, 0xEFC60000)):
        y = _apply_operation(
            Scalar.XOR,
            y,
            _apply_operation(
                Scalar.AND, _apply_operation(Scalar.SHL, y, _create_word(shift)), _create_word(mask)
            ),
        )
    return _apply_operation(Scalar.XOR, y, _apply_operation(Scalar.SHR, y, _create_word(18)))


def twist() -> Kernel:
    """key (624 words, in place), words, rest; groups of GROUP blocks, single blocks in `rest`.

    A state is written behind its predecessor, and the last of a group then moves to the front, so
    every position has a word 1 and 397 positions ahead of it.
    """
    key, words, rest = (Buffer(Type.U32, name) for name in ("key", "words", "rest"))
    line = Buffer(Type.U32, "line", local=(TWISTER_BLOCKS_PER_GROUP + 1) * STATE_WORDS)
    groups, singles, place = Size("groups"), Size("singles"), Index("place")
    position = Affine(0, ((place, 1),))

    def moved(target: Buffer, source: Load) -> Loop:
        return Loop(place, STATE_WORDS, [Store(target, position, source)], LoopKind.VECTORIZED)

    def several(out: Buffer, count: Size, size: int) -> Loop:
        group, block, part, lane = (Index(name) for name in ("group", "block", "part", "lane"))
        here = ((block, STATE_WORDS), (part, TWISTER_WORDS_PER_PART), (lane, 1))
        next_words = _compute_next_word(
            *(Load(line, Affine(ahead, here)) for ahead in (0, 1, MIDDLE_WORD))
        )
        output_position = Affine(0, ((group, size * STATE_WORDS), *here))
        renew: list[Statement] = [Store(out, output_position, _temper(next_words)),
                                  Store(line, Affine(STATE_WORDS, here), next_words)]
        parts = Loop(
            part,
            STATE_WORDS // TWISTER_WORDS_PER_PART,
            [Loop(lane, TWISTER_WORDS_PER_PART, renew, LoopKind.VECTORIZED)],
        )
        last = Load(line, Affine(size * STATE_WORDS, position.terms))
        return Loop(group, count, [Loop(block, size, [parts]), moved(line, last)])

    return Kernel(
        "twist",
        [key, words, rest],
        [
            moved(line, Load(key, position)),
            several(words, groups, TWISTER_BLOCKS_PER_GROUP),
            several(rest, singles, 1),
            moved(key, Load(line, position)),
        ],
        [groups, singles],
    )


# ------------------------------------------------------------------------- what words become


class _DrawKernelBuilder:
    """A kernel over `count` elements."""

    def __init__(self) -> None:
        index, self.count = Index("i"), Size("count")
        self.index, self.at = index, Affine(0, ((index, 1),))
        self.buffers: list[Buffer] = []

    def _add_buffer(self, type: Type, name: str) -> Buffer:
        self.buffers.append(Buffer(type, name))
        return self.buffers[-1]

    def words(self) -> Value:
        """The words, one per element."""
        return Value(Load(self._add_buffer(Type.U32, "words"), self.at))

    def pairs(self) -> Value:
        """The words, two per element, in memory order."""
        return Value(Load(self._add_buffer(Type.U64, "words"), self.at))

    def number(self, type: Type, name: str) -> Value:
        """Add an argument of one element."""
        return Value(Load(self._add_buffer(type, name), Affine()))

    def kernel(self, name: str, type: Type, value: Value) -> Kernel:
        """Return the kernel that writes `value` for each element."""
        y = self._add_buffer(type, "y")
        body: Sequence[Statement] = [Store(y, self.at, value.cast(type).expression)]
        return Kernel(
            name,
            self.buffers,
            [Loop(self.index, self.count, [*body], LoopKind.VECTORIZED)],
            [self.count],
        )


def _combine_words(pairs: Value) -> Value:
    """Combine two words, the upper half first, into 53 bits."""
    number = apply(Scalar.OR, apply(Scalar.SHL, pairs, 32), apply(Scalar.SHR, pairs, 32))
    return apply(Scalar.AND, number, (1 << 53) - 1)


def unit_of(words: Value) -> Value:
    """Uniform on [0, 1): F32 of 24 bits of a word (U32), F64 of 53 bits of two (U64)."""
    if words.type is Type.U64:
        return _combine_words(words).cast(Type.I64).cast(Type.F64) * 2.0**-53
    return apply(Scalar.AND, words, (1 << 24) - 1).cast(Type.I32).cast(Type.F32) * 2.0**-24


def _draw_unit(draw: _DrawKernelBuilder, type: Type) -> Value:
    return unit_of(draw.pairs() if type is Type.F64 else draw.words())


def unit(type: Type) -> Kernel:
    """words, y; count: uniform numbers on [0, 1), of F32 or F64."""
    draw = _DrawKernelBuilder()
    return draw.kernel("unit", type, _draw_unit(draw, type))


def uniform(type: Type) -> Kernel:
    """words, span, start, low, high, y; count: uniform numbers on [start, start + span).

    Numbers rounded to `high` become `low`.
    """
    draw, computed = _DrawKernelBuilder(), compute_type(type)
    number = _draw_unit(draw, type)
    span, start, low, high = (draw.number(computed, name)
                              for name in ("span", "start", "low", "high"))
    number = apply(Scalar.FMA, number, span, start).cast(type).cast(computed)
    return draw.kernel("uniform", type, where(compare(Scalar.EQ, number, high), low, number))


def bernoulli(type: Type) -> Kernel:
    """words, bound, on, y; count: `on` where 53 bits of two words are less than bound, else 0."""
    draw, computed = _DrawKernelBuilder(), compute_type(type)
    below = compare(Scalar.LT, _combine_words(draw.pairs()), draw.number(Type.U64, "bound"))
    on = draw.number(computed, "on")
    return draw.kernel("bernoulli", type, below if type is Type.BOOL else where(below, on, 0))


def integers(type: Type) -> Kernel:
    """words, span, low, y; count: whole numbers from low (I64) on, the words modulo span (U32)."""
    draw = _DrawKernelBuilder()
    words, span = draw.words(), draw.number(Type.U32, "span")
    rest = apply(Scalar.REM, words, span).cast(Type.I64)
    return draw.kernel("integers", type, rest + draw.number(Type.I64, "low"))


def shuffle() -> Kernel:
    """order (I64), words, count (one I64); steps: swap order[i] with
    order[i + words[i] % (count - i)] for i = 0, 1, ..., steps - 1."""
    order, words = Buffer(Type.I64, "order"), Buffer(Type.U32, "words")
    count, saved = Buffer(Type.I64, "count"), Buffer(Type.I64, "held", local=1)
    i, steps = Index("i"), Size("steps")
    here, only = Affine(0, ((i, 1),)), Affine()
    remaining = Value(Load(count, only)) - Value(IndexValue(here))
    offset = apply(Scalar.REM, Value(Load(words, here)), remaining.cast(Type.U32)).cast(Type.I64)
    partner = ((offset.expression, 1),)
    body: list[Statement] = [
        Store(saved, only, Load(order, here)),
        Store(order, here, Load(order, here, partner)),
        Store(order, here, Load(saved, only), partner),
    ]
    return Kernel("shuffle", [order, words, count], [Loop(i, steps, body)], [steps])
