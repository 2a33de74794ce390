"""Casts and operations on every type, compiled against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Index, Kernel, Load, Loop, LoopKind, Scalar, Statement, Store, Type,
)

INTEGERS = [type for type in Type if not type.floating and type is not Type.BOOL]
NUMBERS = [*INTEGERS, Type.F32, Type.F64]


def here(index: Index) -> Affine:
    return Affine(0, ((index, 1),))


def extremes(type: Type) -> np.ndarray:
    """Values of a type: ordinary ones, its limits, and what is special."""
    kind = dtype_of(type)
    if type is Type.BOOL:
        return np.array([False, True] * 20)
    drawn = np.random.default_rng(0).integers(-120, 120, 29)
    if not type.floating:
        limits = np.iinfo(kind)
        edges = np.array([0, 1, limits.min, limits.max], kind)
        return np.concatenate([edges, np.abs(drawn).astype(kind)])
    ordinary = drawn * 0.37
    if type in (Type.F32, Type.F64):
        ordinary = np.concatenate([ordinary, [1e5 + 0.5, -3e4, 65519.9, 1.00390625, 1.01171875]])
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-5, 6e-8]
    return np.concatenate([special, ordinary]).astype(kind)


def elementwise(
    operation: Scalar, types: list[Type], gives: Type, kind: LoopKind, n: int
) -> Kernel:
    i = Index("i")
    inputs = [Buffer(type, f"x{number}") for number, type in enumerate(types)]
    y = Buffer(gives, "y")
    value = Apply(operation, tuple(Load(x, here(i)) for x in inputs), gives)
    body: list[Statement] = [Store(y, here(i), value)]
    return Kernel(operation.name, [*inputs, y], [Loop(i, n, body, kind)])


@pytest.mark.parametrize("source", list(Type), ids=lambda type: type.value)
@pytest.mark.parametrize("target", list(Type), ids=lambda type: type.value)
def test_casts(check, source: Type, target: Type) -> None:
    """Every pair; what does not fit wraps around, as NumPy has it here."""
    values = extremes(source)
    if source.floating and not target.floating and target is not Type.BOOL:
        values = values[np.isfinite(values.astype(np.float64))]
        low, high = (0, 120) if target in (Type.U8, Type.U32, Type.U64) else (-120, 120)
        keep = (values.astype(np.float64) > low - 0.99) & (values.astype(np.float64) < high)
        values = values[keep]
    kernel = elementwise(Scalar.CAST, [source], target, LoopKind.VECTORIZED, len(values))
    check(
        kernel, [values, np.zeros(len(values), dtype_of(target))], rtol=0, atol=0, threads=(1,)
    )


@pytest.mark.parametrize("target", [Type.I32, Type.I64, Type.U8, Type.I8])
def test_casts_of_what_does_not_fit(check, target: Type) -> None:
    """NumPy gives the processor's answer; so does a kernel."""
    values = np.array([300.7, -300.7, 1e6, np.nan, -1e6, 70000.0] * 8, np.float32)
    if target is Type.I64:
        values = np.append(values, np.float32([1e30, np.inf, -np.inf]))
    kernel = elementwise(Scalar.CAST, [Type.F32], target, LoopKind.VECTORIZED, len(values))
    check(kernel, [values, np.zeros(len(values), dtype_of(target))], threads=(1,))


def test_bfloat16_rounds_as_ml_dtypes(check) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 5000, dtype=np.uint64).astype(np.uint32)
    ties = (np.arange(64, dtype=np.uint32) << 16) + 0x3F808000
    values = np.concatenate([bits, ties]).view(np.float32)
    kernel = elementwise(Scalar.CAST, [Type.F32], Type.BF16, LoopKind.VECTORIZED, len(values))
    check(
        kernel,
        [values, np.zeros(len(values), dtype_of(Type.BF16))],
        rtol=0,
        atol=0,
        threads=(1,),
    )


BINARY = (Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.DIV, Scalar.REM, Scalar.MAXIMUM,
          Scalar.MINIMUM)
UNARY = (Scalar.NEG, Scalar.ABS, Scalar.FLOOR, Scalar.CEIL, Scalar.TRUNC, Scalar.ROUND)
COMPARISONS = (Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE)
BITS = (Scalar.AND, Scalar.OR, Scalar.XOR)


def pairs(type: Type) -> tuple[np.ndarray, np.ndarray]:
    """Every value of `extremes` with every other."""
    values = extremes(type)[:17]
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize("type", NUMBERS, ids=lambda type: type.value)
@pytest.mark.parametrize("operation", [*BINARY, *UNARY, *COMPARISONS], ids=lambda type: type.name)
def test_operations(check, operation: Scalar, type: Type) -> None:
    a, b = pairs(type)
    inputs = [a] if operation in UNARY else [a, b]
    gives = Type.BOOL if operation in COMPARISONS else type
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        kernel = elementwise(operation, [type] * len(inputs), gives, kind, len(a))
        check(kernel, [*inputs, np.zeros(len(a), dtype_of(gives))], rtol=0, atol=0, threads=(1,))


@pytest.mark.parametrize("type", [*INTEGERS, Type.BOOL], ids=lambda type: type.value)
@pytest.mark.parametrize("operation", [*BITS, Scalar.NOT, Scalar.SHL, Scalar.SHR],
                         ids=lambda type: type.name)
def test_bits(check, operation: Scalar, type: Type) -> None:
    a, b = pairs(type)
    if operation in (Scalar.SHL, Scalar.SHR):
        if type is Type.BOOL:
            return
        b = (b % 70).astype(b.dtype) if type.size > 1 else (b % 12).astype(b.dtype)
    inputs = [a] if operation is Scalar.NOT else [a, b]
    kernel = elementwise(operation, [type] * len(inputs), type, LoopKind.VECTORIZED, len(a))
    check(kernel, [*inputs, np.zeros(len(a), dtype_of(type))], threads=(1,))


@pytest.mark.parametrize("pair", [(Type.F32, Type.I32), (Type.F64, Type.U64), (Type.I16, Type.F16),
                                  (Type.BF16, Type.I16), (Type.BOOL, Type.U8)])
def test_bitcasts(check, pair: tuple[Type, Type]) -> None:
    for source, target in (pair, pair[::-1]):
        values = extremes(source)
        if target is Type.BOOL:
            values = values % 2
        kernel = elementwise(Scalar.BITCAST, [source], target, LoopKind.VECTORIZED, len(values))
        check(kernel, [values, np.zeros(len(values), dtype_of(target))], threads=(1,))


@pytest.mark.parametrize("type", list(Type), ids=lambda type: type.value)
def test_where_and_stores_of_every_type(check, type: Type) -> None:
    values = extremes(type)
    mask = np.arange(len(values)) % 3 == 0
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        types = [Type.BOOL, type, type]
        kernel = elementwise(Scalar.WHERE, types, type, kind, len(values))
        check(kernel, [mask, values, values[::-1].copy(), values.copy()], rtol=0, threads=(1,))


@pytest.mark.parametrize("operation", [
    Scalar.EXP, Scalar.LOG, Scalar.TANH, Scalar.SIN, Scalar.COS, Scalar.ERF, Scalar.SQRT,
    Scalar.EXPM1, Scalar.LOG1P, Scalar.POW, Scalar.ATAN2, Scalar.COPYSIGN,
], ids=lambda type: type.name)
@pytest.mark.parametrize("type", [Type.F32, Type.F64], ids=lambda type: type.value)
def test_functions_are_called(check, operation: Scalar, type: Type) -> None:
    """That each arrives at a function of its own; native/math has their tests."""
    values = np.linspace(0.1, 3, 37).astype(dtype_of(type))
    inputs = [values, values[::-1].copy()] if operation in (
        Scalar.POW, Scalar.ATAN2, Scalar.COPYSIGN) else [values]
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        kernel = elementwise(operation, [type] * len(inputs), type, kind, len(values))
        check(kernel, [*inputs, np.zeros_like(values)], threads=(1,))
