"""Normal numbers by the Box-Muller transform, bit for bit as in tensor/random/normal.py.

Blocks of 16: 8 radii and 8 angles. float64 uses the C library's functions, as F64 operations of
the loop IR do; narrower types use Cephes' polynomials, with fused multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...loop_ir import cephes_coefficients
from ...loop_ir.expression_builder import Value, apply, compare, compute_type, where
from ...loop_ir.ir import (
    Affine, Apply, Buffer, Index, Kernel, Load, Loop, LoopKind, Scalar, Size, Statement, Store,
    Type,
)
from .mersenne_twister import unit_of

BLOCK, HALF_BLOCK = 16, 8


def normal(type: Type) -> Kernel:
    """words, mean, std, y; blocks: normal numbers, BLOCK a block."""
    computed, double = compute_type(type), type is Type.F64
    words, y = Buffer(Type.U64 if double else Type.U32, "words"), Buffer(type, "y")
    mean, std = Buffer(computed, "mean"), Buffer(computed, "std")
    block, lane, blocks = Index("block"), Index("lane"), Size("blocks")
    halves = [Affine(start, ((block, BLOCK), (lane, 1))) for start in (0, HALF_BLOCK)]
    uniform = [unit_of(Value(Load(words, place))) for place in halves]
    standard = _box_muller_libm(*uniform) if double else _box_muller_cephes(*uniform)
    scale, shift = Value(Load(std, Affine())), Value(Load(mean, Affine()))
    body: list[Statement] = [
        Store(y, place, _fma(sample, scale, shift).cast(type).expression)
        for place, sample in zip(halves, standard, strict=True)
    ]
    nest = Loop(block, blocks, [Loop(lane, HALF_BLOCK, body, LoopKind.VECTORIZED)])
    return Kernel("normal", [words, mean, std, y], [nest], [blocks], exact=True)


def _box_muller_libm(first: Value, second: Value) -> tuple[Value, Value]:
    """Return two standard normal numbers from two uniform ones, F64."""
    radius = apply(Scalar.SQRT, apply(Scalar.LOG, 1 - first) * -2.0)
    angle = second * (2 * math.pi)
    return radius * apply(Scalar.COS, angle), radius * apply(Scalar.SIN, angle)


def _box_muller_cephes(first: Value, second: Value) -> tuple[Value, Value]:
    """The same of F32."""
    radius = apply(Scalar.SQRT, _log(1 - first) * -2.0)
    sine, cosine = _sin_cos(second * float(np.float32(2 * math.pi)))
    return radius * cosine, radius * sine


def normal_pairs(type: Type) -> Kernel:
    """words, y; pairs: standard normal numbers in pairs, F64, by the C library's functions."""
    words, y = Buffer(Type.U64, "words"), Buffer(type, "y")
    pair, pairs = Index("pair"), Size("pairs")
    angle, radius = (unit_of(Value(Load(words, Affine(i, ((pair, 2),))))) for i in (0, 1))
    radius = apply(Scalar.SQRT, apply(Scalar.LOG1P, -radius) * -2.0)
    angle = angle * (2 * math.pi)
    body: list[Statement] = [
        Store(y, Affine(i, ((pair, 2),)), (radius * apply(function, angle)).expression)
        for i, function in enumerate((Scalar.COS, Scalar.SIN))
    ]
    return Kernel("normal_pairs", [words, y], [Loop(pair, pairs, body)], [pairs], exact=True)


def _fma(x: Value, y: Value | float, z: Value | float) -> Value:
    return apply(Scalar.FMA, x, y, z)


def _bits(x: Value, type: Type) -> Value:
    return Value(Apply(Scalar.BITCAST, (x.expression,), type))


def _and(x: Value, mask: int) -> Value:
    return apply(Scalar.AND, x, mask)


def _horner(x: Value, coefficients: Sequence[float]) -> Value:
    y = _fma(x, coefficients[0], coefficients[1])
    for coefficient in coefficients[2:]:
        y = _fma(x, y, coefficient)
    return y


def _log(x: Value) -> Value:
    """log on (0, 1]."""
    bits = _bits(x, Type.I32)
    exponent = apply(Scalar.SHR, bits, 23) - 126
    mantissa = _bits(apply(Scalar.OR, _and(bits, 0x007FFFFF), 0x3F000000), Type.F32)
    small = compare(Scalar.LT, mantissa, cephes_coefficients.SQRT_HALF)
    reduced = mantissa - 1
    reduced = where(small, reduced + mantissa, reduced)
    power = where(small, exponent - 1, exponent).cast(Type.F32)
    square = reduced * reduced
    y = _fma(
        _horner(reduced, cephes_coefficients.LOG) * reduced,
        square,
        power * cephes_coefficients.LN2_LOW,
    )
    return _fma(power, cephes_coefficients.LN2_HIGH, reduced + (y - square * 0.5))


def _sin_cos(angle: Value) -> tuple[Value, Value]:
    """sin and cos on [0, 2 pi]."""
    octant = _and((angle * cephes_coefficients.FOUR_OVER_PI).cast(Type.I32) + 1, ~1)
    count, x = octant.cast(Type.F32), angle
    for part in cephes_coefficients.QUARTER_PI:
        x = _fma(count, part, x)
    square = x * x
    cosine = _fma(_horner(square, cephes_coefficients.COS) * square, square, square * -0.5) + 1
    sine = _fma(_horner(square, cephes_coefficients.SIN) * square, x, x)
    swap = compare(Scalar.NE, _and(octant, 2), 0)
    sin, cos = where(swap, cosine, sine), where(swap, sine, cosine)
    below = compare(Scalar.NE, _and(octant, 4), 0)
    negates_cosine = compare(Scalar.EQ, _and(octant - 2, 4), 0)
    return where(below, -sin, sin), where(negates_cosine, -cos, cos)
