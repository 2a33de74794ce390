"""Philox-4x32-10 on lanes of 64 bits, of which only the lower halves count."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ...loop_ir.ir import Type
from ...loop_ir.philox import MULTIPLIERS, ROUNDS, STEPS
from ..llvm.builder import I32, I64, Builder, lane_numbers, vector


class _Words:
    """Arithmetic on vectors of `lanes` lanes."""

    def __init__(self, b: Builder, lanes: int) -> None:
        self.b, self.lanes = b, lanes
        self.half, self.low = self.number(32), self.number(0xFFFFFFFF)

    def number(self, value: int) -> ir.Value:
        """An integer in every lane."""
        return self.b.splat(ir.Constant(I64, value), self.lanes)

    def upper(self, value: ir.Value) -> ir.Value:
        """Move the upper half down; the new upper half is arbitrary. Not by a shift, which competes
        with the multiplications for their unit."""
        if self.lanes == 1:
            return self.b.lshr(value, self.half)
        kind = vector(I32, 2 * self.lanes)
        words = self.b.bitcast(value, kind)
        odd_lanes = ir.Constant(kind, [k | 1 for k in range(2 * self.lanes)])
        return self.b.bitcast(self.b.shuffle_vector(words, words, odd_lanes), value.type)

    def generate(self, counter: ir.Value, stream: ir.Value, key: ir.Value) -> list[ir.Value]:
        """The four words, in lower halves."""
        b, low = self.b, self.low
        c0, c2, k0 = (b.splat(value, self.lanes) for value in (counter, stream, key))
        c1, c3, k1 = (self.upper(value) for value in (c0, c2, k0))
        first, second = map(self.number, MULTIPLIERS)
        for _ in range(ROUNDS):
            p, q = b.mul(b.and_(c0, low), first), b.mul(b.and_(c2, low), second)
            c0, c1 = b.xor(b.xor(self.upper(q), c1), k0), q
            c2, c3 = b.xor(b.xor(self.upper(p), c3), k1), p
            k0, k1 = b.add(k0, self.number(STEPS[0])), b.add(k1, self.number(STEPS[1]))
        return [c0, c1, c2, c3]


def philox(b: Builder, values: Sequence[ir.Value], type: Type, lanes: int) -> ir.Value:
    """The first two words for a counter, a stream and a key; see native/loop_ir/philox.py."""
    words = _Words(b, lanes)
    first, second, *_ = words.generate(*values)
    return b.or_(b.and_(first, words.low), b.shl(second, words.half))


def philox_word(b: Builder, values: Sequence[ir.Value], type: Type, lanes: int) -> ir.Value:
    """The word for an index, a stream and a key; see native/loop_ir/philox.py."""
    index, stream, key = values
    words = _Words(b, lanes)
    group = b.shl(b.lshr(index, words.number(4)), words.number(2))
    words_of_groups = words.generate(b.or_(group, b.and_(index, words.number(3))), stream, key)
    for bit in (4, 8):
        on = b.icmp_unsigned("!=", b.and_(index, words.number(bit)), words.number(0))
        words_of_groups = [
            b.select(on, two, even)
            for even, two in zip(words_of_groups[::2], words_of_groups[1::2], strict=True)
        ]
    return b.trunc(words_of_groups[0], vector(I32, lanes))


def consecutive_words(
    b: Builder, start: ir.Value, stream: ir.Value, key: ir.Value, lanes: int
) -> ir.Value:
    """Return the words for `lanes` indices (a multiple of 16) from `start` on, as i32; from a
    quarter as many counters if `start` is a multiple of 16 too."""
    aligned = b.icmp_unsigned("==", b.and_(start, b.integer(15)), b.integer(0))
    with b.if_else(aligned) as (quick, slow):
        with quick:
            count = lanes // 4
            counter = b.add(b.splat(b.lshr(start, b.integer(2)), count), lane_numbers(count))
            counter_words = _Words(b, count).generate(counter, stream, key)
            together = b.concatenate(
                [b.trunc(word_values, vector(I32, count)) for word_values in counter_words]
            )
            order = [lane % 16 // 4 * count + lane // 16 * 4 + lane % 4 for lane in range(lanes)]
            chosen = ir.Constant(vector(I32, lanes), order)
            first, before = b.shuffle_vector(together, together, chosen), b.block
        with slow:
            index = b.add(b.splat(start, lanes), lane_numbers(lanes))
            operands = [index, *(b.splat(value, lanes) for value in (stream, key))]
            second, after = philox_word(b, operands, Type.U64, lanes), b.block
    joined_words = b.phi(first.type)
    joined_words.add_incoming(first, before)
    joined_words.add_incoming(second, after)
    return joined_words
