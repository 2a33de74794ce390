"""Philox-4x32-10 on lanes of 64 bits, of whose counters only the lower halves are looked at."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ..emit.builder import I32, I64, Builder, vector
from ..loops import Type
from ..philox import MULTIPLIERS, ROUNDS, STEPS


def philox(b: Builder, values: Sequence[ir.Value], type: Type, lanes: int) -> ir.Value:
    """The first two words for a counter, a stream and a key; see native/philox.py."""

    def number(value: int) -> ir.Value:
        return b.splat(ir.Constant(I64, value), lanes)

    def upper(value: ir.Value) -> ir.Value:
        """The upper half, below; what is above does not matter. Not by a shift, which has to wait
        for the unit that multiplies."""
        if lanes == 1:
            return b.lshr(value, half)
        words = b.bitcast(value, vector(I32, 2 * lanes))
        odd = ir.Constant(vector(I32, 2 * lanes), [k | 1 for k in range(2 * lanes)])
        return b.bitcast(b.shuffle_vector(words, words, odd), value.type)

    half, low = number(32), number(0xFFFFFFFF)
    (c0, c2, k0), (c1, c3, k1) = values, map(upper, values)
    first, second = map(number, MULTIPLIERS)
    for _ in range(ROUNDS):
        p, q = b.mul(b.and_(c0, low), first), b.mul(b.and_(c2, low), second)
        c0, c1 = b.xor(b.xor(upper(q), c1), k0), q
        c2, c3 = b.xor(b.xor(upper(p), c3), k1), p
        k0, k1 = b.add(k0, number(STEPS[0])), b.add(k1, number(STEPS[1]))
    return b.or_(b.and_(c0, low), b.shl(c1, half))
