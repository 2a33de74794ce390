"""Kernels as the compiler makes them: compiled, against the interpreter, at awkward sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Index,
    IndexValue, Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type,
    Update,
)
from flambeau.native.target.machine import TARGETS, emit_assembly, host
from flambeau.native.loop_ir.verify import verify

LENGTHS = (0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 300)
F32, I64 = Type.F32, Type.I64


def place(*terms: tuple[Index, int | Size], base: int = 0) -> Affine:
    return Affine(base, terms)


def apply(operation: Scalar, *operands: Expression, type: Type | None = None) -> Apply:
    return Apply(operation, operands, type or operands[-1].type)


def number(value: float, type: Type = F32) -> Constant:
    return Constant(type, value)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------------ pointwise


def gelu_like(x: Expression) -> Expression:
    inner = apply(Scalar.MUL, x, apply(Scalar.FMA, apply(Scalar.MUL, x, x), number(0.04), x))
    soft = apply(Scalar.DIV, x, apply(Scalar.ADD, number(2), apply(Scalar.ABS, x)))
    return apply(Scalar.WHERE, apply(Scalar.GT, x, number(0), type=Type.BOOL), inner, soft)


@pytest.mark.parametrize("kind", list(LoopKind))
@pytest.mark.parametrize("n", LENGTHS)
def test_pointwise_chain(check, n: int, kind: LoopKind) -> None:
    x, y, z, i = Buffer(F32, "x"), Buffer(F32, "y"), Buffer(F32, "z"), Index("i")
    value = apply(Scalar.ADD, gelu_like(Load(x, place((i, 1)))), Load(y, place()))
    body: list[Statement] = [Store(z, place((i, 1)), value)]
    check(Kernel("chain", [x, y, z], [Loop(i, n, body, kind)]), [draw(n), draw(1), draw(n)])


@pytest.mark.parametrize("n", LENGTHS)
def test_sizes_known_when_run(check, n: int) -> None:
    x, y, i, j = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Index("j")
    rows, columns, stride = Size("rows"), Size("columns"), Size("stride")
    value = apply(Scalar.SUB, Load(x, place((i, stride), (j, 1))), number(1))
    inner = Loop(j, columns, [Store(y, place((i, columns), (j, 1)), value)], LoopKind.VECTORIZED)
    kernel = Kernel("sized", [x, y], [Loop(i, rows, [inner], LoopKind.PARALLEL)],
                    [rows, columns, stride])
    check(kernel, [draw(3, n + 2), draw(3, n)], [3, n, n + 2])


@pytest.mark.parametrize("strides", [(1, 7), (7, 1), (-1, 1), (2, 3), (1, -3), (0, 1)])
@pytest.mark.parametrize("kind", [LoopKind.VECTORIZED, LoopKind.PARALLEL])
def test_strides(check, strides: tuple[int, int], kind: LoopKind) -> None:
    n, (a, b) = 77, strides
    x, y, i = Buffer(F32, "x"), Buffer(F32, "y"), Index("i")
    start, out = (max(0, -s * (n - 1)) for s in strides)
    load = Load(x, place((i, a), base=start) if a else place())
    body: list[Statement] = [Store(y, place((i, b), base=out), load)]
    kernel = Kernel("strided", [x, y], [Loop(i, n, body, kind)])
    check(kernel, [draw(abs(a) * (n - 1) + 1), draw(abs(b) * (n - 1) + 1)])


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 40), (1, 16, 16), (20, 17, 33), (1, 48, 50),
                                   (2, 34, 15), (16, 16, 16), (3, 40, 16)])
@pytest.mark.parametrize("type", [Type.F32, Type.F64])
def test_transposed(check, shape: tuple[int, int, int], type: Type) -> None:
    """Rows of one, columns of another, and a bias: tiles that are turned, and what is left."""
    batch, rows, columns = shape
    x, y, w, z = (Buffer(type, name) for name in "xywz")
    n, r, c = Index("n"), Index("r"), Index("c")
    size = rows * columns
    turned = Load(x, place((n, size), (r, 1), (c, rows)))
    value = apply(Scalar.ADD, turned, Load(w, place((c, 1))))
    full = place((n, size), (r, columns), (c, 1))
    body: list[Statement] = [Store(y, full, value), Store(z, full, turned, add=True)]
    inner = Loop(r, rows, [Loop(c, columns, body, LoopKind.VECTORIZED)], LoopKind.PARALLEL)
    kernel = Kernel("turn", [x, y, w, z], [Loop(n, batch, [inner], LoopKind.PARALLEL)])
    arrays = [(draw(*s, seed=i) * 9).astype(type.value) for i, s in enumerate(
        ((batch, columns, rows), (batch, size), (columns,), (batch, size)))]
    _, y0, _, _ = check(kernel, arrays)
    np.testing.assert_allclose(y0.reshape(batch, rows, columns),
                               arrays[0].transpose(0, 2, 1) + arrays[2], rtol=1e-6)


@pytest.mark.parametrize("rows", [32, 21])
def test_transposed_into_memory_of_its_own(check, rows: int) -> None:
    """As attention turns its rows: in tiles, not element by element."""
    columns = 24
    x, y, own = Buffer(F32, "x"), Buffer(F32, "y"), Buffer(F32, "own", local=rows * columns)
    n, r, c, at = Index("n"), Index("r"), Index("c"), Index("at")
    turn = Store(own, place((c, rows), (r, 1)), Load(x, place((n, 1000), (r, columns), (c, 1))))
    copy = Store(y, place((n, rows * columns), (at, 1)), Load(own, place((at, 1))))
    body: list[Statement] = [Loop(c, columns, [Loop(r, rows, [turn], LoopKind.VECTORIZED)]),
                             Loop(at, rows * columns, [copy], LoopKind.VECTORIZED)]
    kernel = Kernel("turn", [x, y], [Loop(n, 2, body, LoopKind.PARALLEL)])
    inputs = draw(2, 1000)
    _, actual = check(kernel, [inputs, draw(2, rows * columns, seed=1)])
    for matrix, before in zip(actual.reshape(2, columns, rows), inputs, strict=True):
        wanted = before[: rows * columns].reshape(rows, columns).T
        np.testing.assert_array_equal(matrix, wanted)
    text = emit(kernel, TARGETS["avx2"])
    assert text.count("shufflevector") >= 24 and "insertelement" not in text


def test_strides_known_when_run(check) -> None:
    n, x, y, i, s = 45, Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Size("s")
    body: list[Statement] = [Store(y, place((i, s), base=1), Load(x, place((i, s))))]
    kernel = Kernel("strided", [x, y], [Loop(i, n, body, LoopKind.VECTORIZED)], [s])
    for stride in (1, 2, 5):
        check(kernel, [draw(stride * (n - 1) + 1), draw(stride * (n - 1) + 2)], [stride])


def test_in_place_and_add(check) -> None:
    """An update reads and writes the same memory; what is stored is read again."""
    n, p, m, g = 203, Buffer(F32, "p"), Buffer(F32, "m"), Buffer(F32, "g")
    i = Index("i")
    old, gradient = Load(m, place((i, 1))), Load(g, place((i, 1)))
    mean = apply(Scalar.FMA, old, number(0.9), gradient)
    again = Load(m, place((i, 1)))
    body: list[Statement] = [
        Store(m, place((i, 1)), mean),
        Store(p, place((i, 1)), apply(Scalar.MUL, again, number(-0.1)), add=True),
        Store(p, place((i, 1)), apply(Scalar.MUL, old, number(2.0)), add=True),
    ]
    kernel = Kernel("momentum", [p, m, g], [Loop(i, n, body, LoopKind.PARALLEL)])
    check(kernel, [draw(n, seed=s) for s in range(3)])


def test_aliased_buffers(check) -> None:
    """The same memory as two arguments, one round after another: nothing is read too early."""
    n, x, y = 50, Buffer(F32, "x", aliased=True), Buffer(F32, "y", aliased=True)
    i = Index("i")
    first = Load(x, place())
    body: list[Statement] = [
        Store(y, place(base=2), apply(Scalar.ADD, first, number(1))),
        Store(y, place(), apply(Scalar.ADD, Load(x, place((i, 1))), Load(y, place()))),
        Store(y, place(base=1), first),
    ]
    kernel = Kernel("aliased", [x, y], [Loop(i, n, body)])
    array, other = draw(n), draw(n)
    interpret(kernel, [array, array])
    compile_kernel(kernel).run([other, other])
    np.testing.assert_allclose(other, array, rtol=1e-5)


@pytest.mark.parametrize("n", LENGTHS)
def test_types_of_several_sizes(check, n: int) -> None:
    """Bytes, halves, singles, doubles and positions in one loop over lanes."""
    i = Index("i")
    mask, half, single, wide, out = (
        Buffer(type, name) for type, name in ((Type.BOOL, "mask"), (Type.F16, "half"),
        (F32, "single"), (Type.F64, "wide"), (Type.I64, "out")))
    here = place((i, 1))
    h = apply(Scalar.CAST, Load(half, here), type=F32)
    total = apply(Scalar.CAST, apply(Scalar.ADD, h, Load(single, here)), type=Type.F64)
    either = apply(Scalar.WHERE, Load(mask, here), total, Load(wide, here))
    whole = apply(Scalar.ADD, apply(Scalar.CAST, either, type=I64), IndexValue(here))
    odd = apply(Scalar.NE, apply(Scalar.AND, IndexValue(here), number(1, I64)), number(0, I64),
                type=Type.BOOL)
    body: list[Statement] = [
        Store(out, here, whole),
        Store(half, here, apply(Scalar.CAST, either, type=Type.F16)),
        Store(mask, here, apply(Scalar.XOR, Load(mask, here), odd)),
    ]
    arrays = [draw(n) > 0, (draw(n) * 9).astype(np.float16), draw(n), draw(n).astype(np.float64),
              np.zeros(n, np.int64)]
    kernel = Kernel(
        "mixed", [mask, half, single, wide, out], [Loop(i, n, body, LoopKind.VECTORIZED)]
    )
    check(kernel, arrays, rtol=1e-3)


# ----------------------------------------------------------------------------- reductions


def softmax(rows: int | Size, columns: int | Size, local: int) -> Kernel:
    x, y, powers = Buffer(F32, "x"), Buffer(F32, "y"), Buffer(F32, "kept", local=local)
    r, a, b, c = (Index(name) for name in "rabc")
    top, total = Accumulator(ReduceOp.MAXIMUM, F32, "top"), Accumulator(ReduceOp.SUM, F32, "total")
    power = apply(Scalar.EXP, apply(Scalar.SUB, Load(x, place((r, columns), (b, 1))), top))
    scaled = apply(Scalar.DIV, Load(powers, place((c, 1))), total)
    body: list[Statement] = [
        Begin(top),
        Loop(a, columns, [Update(top, Load(x, place((r, columns), (a, 1))))], LoopKind.VECTORIZED),
        Begin(total),
        Loop(
            b,
            columns,
            [Store(powers, place((b, 1)), power), Update(total, power)],
            LoopKind.VECTORIZED,
        ),
        Loop(c, columns, [Store(y, place((r, columns), (c, 1)), scaled)], LoopKind.VECTORIZED),
    ]
    sizes = [extent for extent in (rows, columns) if isinstance(extent, Size)]
    return Kernel("softmax", [x, y], [Loop(r, rows, body, LoopKind.PARALLEL)], sizes)


@pytest.mark.parametrize("columns", LENGTHS[1:])
def test_softmax(check, columns: int) -> None:
    x = draw(5, columns) * 3
    _, y = check(softmax(5, columns, columns), [x, np.zeros_like(x)])
    power = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, power / power.sum(1, keepdims=True), rtol=1e-5)


def test_softmax_of_sizes_known_when_run(check) -> None:
    kernel = softmax(Size("rows"), Size("columns"), 1000)
    for rows, columns in ((1, 1), (4, 17), (3, 64), (2, 100), (0, 5)):
        x = draw(rows, columns)
        check(kernel, [x, np.zeros_like(x)], [rows, columns])


@pytest.mark.parametrize("columns", [1, 5, 16, 48, 65, 200])
def test_layer_norm(check, columns: int) -> None:
    x, w, y, save = (Buffer(F32, name) for name in ("x", "w", "y", "save"))
    r, a, b, c = (Index(name) for name in "rabc")
    total, square = (
        Accumulator(ReduceOp.SUM, F32, "total"),
        Accumulator(ReduceOp.SUM, F32, "square"),
    )
    mean = apply(Scalar.MUL, total, number(1 / columns))
    off_b = apply(Scalar.SUB, Load(x, place((r, columns), (b, 1))), mean)
    off_c = apply(Scalar.SUB, Load(x, place((r, columns), (c, 1))), mean)
    deviation = apply(Scalar.SQRT, apply(Scalar.FMA, square, number(1 / columns), number(1e-5)))
    scaled = apply(Scalar.MUL, apply(Scalar.DIV, off_c, deviation), Load(w, place((c, 1))))
    body: list[Statement] = [
        Begin(total),
        Loop(
            a, columns, [Update(total, Load(x, place((r, columns), (a, 1))))], LoopKind.VECTORIZED
        ),
        Begin(square),
        Loop(b, columns, [Update(square, apply(Scalar.MUL, off_b, off_b))], LoopKind.VECTORIZED),
        Store(save, place((r, 1)), mean),
        Loop(c, columns, [Store(y, place((r, columns), (c, 1)), scaled)], LoopKind.VECTORIZED),
    ]
    kernel = Kernel("layer_norm", [x, w, y, save], [Loop(r, 7, body, LoopKind.PARALLEL)])
    check(kernel, [draw(7, columns), draw(columns), draw(7, columns), draw(7)], atol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 3, 100])
@pytest.mark.parametrize("columns", [1, 16, 37, 130])
@pytest.mark.parametrize("kind", [LoopKind.VECTORIZED, LoopKind.PARALLEL])
def test_column_sums(check, rows: int, columns: int, kind: LoopKind) -> None:
    x, y, r, c = Buffer(F32, "x"), Buffer(F32, "y"), Index("r"), Index("c")
    total = Accumulator(ReduceOp.SUM, F32)
    update = Update(total, Load(x, place((r, columns), (c, 1))))
    body: list[Statement] = [Begin(total), Loop(r, rows, [update]),
                             Store(y, place((c, 1)), total)]
    kernel = Kernel("columns", [x, y], [Loop(c, columns, body, kind)])
    check(kernel, [draw(rows, columns), draw(columns)], atol=1e-5)


FOLDS = [
    (ReduceOp.SUM, Type.F32),
    (ReduceOp.SUM, Type.F64),
    (ReduceOp.SUM, Type.I64),
    (ReduceOp.SUM, Type.U8),
    (ReduceOp.PRODUCT, Type.F32),
    (ReduceOp.PRODUCT, Type.I32),
    (ReduceOp.MAXIMUM, Type.F32),
    (ReduceOp.MAXIMUM, Type.F64),
    (ReduceOp.MAXIMUM, Type.I16),
    (ReduceOp.MAXIMUM, Type.U8),
    (ReduceOp.MINIMUM, Type.F32),
    (ReduceOp.MINIMUM, Type.I64),
    (ReduceOp.MINIMUM, Type.U32),
    (ReduceOp.ANY, Type.BOOL),
    (ReduceOp.ALL, Type.BOOL),
]


@pytest.mark.parametrize(("fold", "type"), FOLDS, ids=lambda item: item.name)
@pytest.mark.parametrize("n", [0, 1, 5, 16, 65, 300])
def test_folds(check, fold: ReduceOp, type: Type, n: int) -> None:
    """Over lanes, and one by one, from a start of its own too."""
    x, y, i, j = Buffer(type, "x"), Buffer(type, "y"), Index("i"), Index("j")
    first, second = Accumulator(fold, type, "first"), Accumulator(fold, type, "second")
    body: list[Statement] = [
        Begin(first),
        Loop(i, n, [Update(first, Load(x, place((i, 1))))], LoopKind.VECTORIZED),
        Store(y, place(), first),
        Begin(second, Load(y, place(base=1))),
        Loop(j, n, [Update(second, Load(x, place((j, 1))))]),
        Store(y, place(base=1), second),
    ]
    values = draw(n) if type.floating else np.random.default_rng(1).integers(0, 9, n)
    if fold is ReduceOp.PRODUCT:
        values = 1 + values * 0.1 if type.floating else values
    x0 = (values > -1 if type is Type.BOOL else values).astype(type.value)
    check(Kernel("fold", [x, y], body), [x0, np.ones(2, type.value)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fold", [ReduceOp.MAXIMUM, ReduceOp.MINIMUM, ReduceOp.SUM])
@pytest.mark.parametrize("n", [1, 16, 100])
def test_nan_wins(check, fold: ReduceOp, n: int) -> None:
    x, y, i, r = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Index("r")
    total = Accumulator(fold, F32)
    loop = Loop(i, n, [Update(total, Load(x, place((r, n), (i, 1))))], LoopKind.VECTORIZED)
    body: list[Statement] = [Begin(total), loop, Store(y, place((r, 1)), total)]
    values = np.tile(draw(n), (n + 1, 1))
    values[np.arange(n), np.arange(n)] = np.nan
    values[n] = np.inf if fold is ReduceOp.MINIMUM else -np.inf
    _, y0 = check(Kernel("nan", [x, y], [Loop(r, n + 1, body)]), [values, draw(n + 1)])
    assert np.isnan(y0[:n]).all()
    assert np.isinf(y0[n])


@pytest.mark.parametrize("fold", [ReduceOp.ARGMAX, ReduceOp.ARGMIN])
@pytest.mark.parametrize("type", [Type.F32, Type.I32, Type.I64, Type.U8])
@pytest.mark.parametrize("kind", [LoopKind.VECTORIZED, LoopKind.SERIAL])
@pytest.mark.parametrize("n", [1, 2, 16, 17, 100])
def test_argmax(check, fold: ReduceOp, type: Type, kind: LoopKind, n: int) -> None:
    """The first of several; NaN before all; rows of infinities too."""
    x, y, i, r = Buffer(type, "x"), Buffer(Type.I64, "y"), Index("i"), Index("r")
    best = Accumulator(fold, Type.I64, "best")
    update = Update(best, Load(x, place((r, n), (i, 1))), IndexValue(place((i, 1))))
    body: list[Statement] = [Begin(best), Loop(i, n, [update], kind), Store(y, place((r, 1)), best)]
    values = np.random.default_rng(n).integers(0, 5, (9, n)).astype(type.value)
    if type is Type.F32:
        values[6], values[7], values[8] = -np.inf, np.inf, np.nan
        values[5, n // 2 :] = np.nan
    kernel = Kernel("arg", [x, y], [Loop(r, 9, body, LoopKind.PARALLEL)])
    _, actual = check(kernel, [values, np.zeros(9, np.int64)])
    numpy_fold = np.argmax if fold is ReduceOp.ARGMAX else np.argmin
    np.testing.assert_array_equal(actual, numpy_fold(values, 1))


@pytest.mark.parametrize("type", [Type.F32, Type.I32])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_last_value_that_a_condition_lets_through(check, type: Type, n: int) -> None:
    """Each lane has its own: of a column, the last element that is greater than 1."""
    x, y, i, r = Buffer(type, "x"), Buffer(type, "y"), Index("i"), Index("r")
    last, value = Accumulator(ReduceOp.LAST, type, "last"), Load(x, place((i, 21), (r, 1)))
    passes = Apply(Scalar.GT, (value, Constant(type, 1)), Type.BOOL)
    update = Update(last, Apply(Scalar.WHERE, (passes, value, last), type))
    body: list[Statement] = [
        Begin(last, Constant(type, 5)), Loop(i, n, [update]), Store(y, place((r, 1)), last)]
    values = np.random.default_rng(n).integers(0, 5, (n + 1, 21)).astype(type.value)
    kernel = Kernel("last", [x, y], [Loop(r, 21, body, LoopKind.VECTORIZED)])
    _, actual = check(kernel, [values, np.zeros(21, type.value)])
    for column, result in zip(values[:n].T, actual, strict=True):
        assert result == [5, *(v for v in column if v > 1)][-1]


@pytest.mark.parametrize("flat", [False, True])
def test_argmax_of_columns(check, flat: bool) -> None:
    """Positions along the column, or in the whole array: those differ from lane to lane."""
    x, y, i, r = Buffer(F32, "x"), Buffer(Type.I64, "y"), Index("i"), Index("r")
    best = Accumulator(ReduceOp.ARGMAX, Type.I64, "best")
    position = IndexValue(place((r, 37), (i, 1)) if flat else place((r, 1)))
    update = Update(best, Load(x, place((r, 37), (i, 1))), position)
    body: list[Statement] = [Begin(best), Loop(r, 20, [update]), Store(y, place((i, 1)), best)]
    values = draw(20, 37)
    values[:, 5], values[3:, 20] = -np.inf, np.nan
    kernel = Kernel("arg", [x, y], [Loop(i, 37, body, LoopKind.VECTORIZED)])
    _, actual = check(kernel, [values, np.zeros(37, np.int64)])
    rows = values.argmax(0)
    np.testing.assert_array_equal(actual, rows * 37 + np.arange(37) if flat else rows)


def test_argmax_in_any_order_of_positions(check) -> None:
    """Rounds from the last position to the first, and two updates in a round."""
    x, y, i = Buffer(F32, "x"), Buffer(Type.I64, "y"), Index("i")
    best = Accumulator(ReduceOp.ARGMAX, Type.I64, "best")
    body: list[Statement] = [Update(best, Load(x, at), IndexValue(at)) for at in (
        Affine(99, ((i, -1),)), Affine(149, ((i, -1),)))]
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        loop = Loop(i, 50, body, kind)
        kernel = Kernel("arg", [x, y], [Begin(best), loop, Store(y, place(), best)])
        values = np.random.default_rng(0).integers(0, 3, 150).astype(np.float32)
        values[:50] = 9
        _, actual = check(kernel, [values, np.zeros(1, np.int64)])
        assert actual[0] == 50 + values[50:].argmax()


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("kind", [LoopKind.VECTORIZED, LoopKind.SERIAL])
def test_long_sums_are_accurate(kind: LoopKind, sized: bool) -> None:
    """A million values of 0.1: one float32 accumulator would be off by a thousandth."""
    n = 1_000_003
    x, y, i, size = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Size("n")
    total = Accumulator(ReduceOp.SUM, F32)
    loop = Loop(i, size if sized else n, [Update(total, Load(x, place((i, 1))))], kind)
    kernel = Kernel("long", [x, y], [Begin(total), loop, Store(y, place(), total)],
                    [size] if sized else [])
    values, out = np.full(n, 0.1, np.float32), np.zeros(1, np.float32)
    compile_kernel(kernel).run([values, out], [n] if sized else [])
    np.testing.assert_allclose(out, values.astype(np.float64).sum(), rtol=1e-6)


def test_long_sums_of_short_rows_are_accurate() -> None:
    shape = (3, 20_000, 49)
    x, y, c, n, i = Buffer(F32, "x"), Buffer(F32, "y"), Index("c"), Index("n"), Index("i")
    total = Accumulator(ReduceOp.SUM, F32)
    update = Update(total, Load(x, place((c, 49), (n, 3 * 49), (i, 1))))
    rows = Loop(n, shape[1], [Loop(i, 49, [update], LoopKind.VECTORIZED)])
    body: list[Statement] = [Begin(total), rows, Store(y, place((c, 1)), total)]
    values, out = np.full(shape, 0.1, np.float32), np.zeros(3, np.float32)
    compile_kernel(Kernel("rows", [x, y], [Loop(c, 3, body, LoopKind.PARALLEL)])).run(
        [values, out], (), 2
    )
    rtol = 4e-6 * 64 / host().vector_bytes  # fewer lanes, longer sums
    np.testing.assert_allclose(out, shape[1] * 49 * np.float64(np.float32(0.1)), rtol=rtol)


# ------------------------------------------------------------------- gathers and padding


@pytest.mark.parametrize("columns", [1, 16, 50])
def test_gather_of_rows(check, columns: int) -> None:
    """An embedding: the computed part does not move with the lane."""
    table, index, y = Buffer(F32, "table"), Buffer(Type.I64, "index"), Buffer(F32, "y")
    i, j = Index("i"), Index("j")
    load = Load(table, place((j, 1)), ((Load(index, place((i, 1))), columns),))
    inner = Loop(j, columns, [Store(y, place((i, columns), (j, 1)), load)], LoopKind.VECTORIZED)
    kernel = Kernel("embedding", [table, index, y], [Loop(i, 9, [inner], LoopKind.PARALLEL)])
    where = np.random.default_rng(0).integers(0, 11, 9)
    *_, y0 = check(kernel, [draw(11, columns), where, draw(9, columns)])
    np.testing.assert_array_equal(y0, draw(11, columns)[where])


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("type", [Type.F32, Type.F64, Type.U8, Type.BF16])
def test_gather_and_scatter_in_lanes(check, n: int, type: Type) -> None:
    x, order, y, z = (Buffer(type, "x"), Buffer(Type.I32, "order"), Buffer(type, "y"),
                      Buffer(type, "z"))
    i = Index("i")
    where = apply(Scalar.CAST, Load(order, place((i, 1))), type=Type.I64)
    body: list[Statement] = [
        Store(y, place((i, 1)), Load(x, place(), ((where, 1),))),
        Store(z, place(), Load(x, place((i, 1))), ((where, 1),), add=True),
    ]
    kernel = Kernel("permute", [x, order, y, z], [Loop(i, n, body, LoopKind.VECTORIZED)])
    permutation = np.random.default_rng(0).permutation(n).astype(np.int32)
    values = (np.abs(draw(n)) * 20).astype(dtype_of(type))
    check(kernel, [values, permutation, np.zeros_like(values), values[::-1].copy()])


def test_scatter_add_of_rows_that_repeat(check) -> None:
    index, g, table, i, j = (Buffer(Type.I64, "index"), Buffer(F32, "g"), Buffer(F32, "table"),
                             Index("i"), Index("j"))
    where = ((Load(index, place((i, 1))), 19),)
    inner = Loop(j, 19, [Store(table, place((j, 1)), Load(g, place((i, 19), (j, 1))), where,
                               add=True)], LoopKind.VECTORIZED)
    kernel = Kernel("rows", [index, g, table], [Loop(i, 40, [inner])])
    rows = np.random.default_rng(0).integers(0, 4, 40)
    check(kernel, [rows, draw(40, 19), draw(4, 19)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [1, 7, 16, 40, 100])
def test_masked_memory_pad(check, width: int) -> None:
    """A window with zeros around: masks over rows and over lanes; nothing outside is read."""
    height, pad = 5, 2
    x, y, h, w = Buffer(F32, "x"), Buffer(F32, "y"), Index("h"), Index("w")

    def inside(index: Index, extent: int) -> Expression:
        position = IndexValue(place((index, 1), base=-pad))
        low = apply(Scalar.GE, position, number(0, I64), type=Type.BOOL)
        high = apply(Scalar.GT, number(extent, I64), position, type=Type.BOOL)
        return apply(Scalar.AND, low, high)

    base = -pad * width - pad
    mask = apply(Scalar.AND, inside(h, height), inside(w, width))
    load = Load(x, place((h, width), (w, 1), base=base), mask=mask)
    wide = width + 2 * pad
    inner = Loop(w, wide, [Store(y, place((h, wide), (w, 1)), load)], LoopKind.VECTORIZED)
    kernel = Kernel("pad", [x, y], [Loop(h, height + 2 * pad, [inner], LoopKind.PARALLEL)])
    values = draw(height, width)
    _, out = check(kernel, [values, draw(height + 2 * pad, wide)])
    np.testing.assert_array_equal(out, np.pad(values, pad))


def test_masked_stores(check) -> None:
    n, x, y, i = 90, Buffer(F32, "x"), Buffer(F32, "y"), Index("i")
    here = Load(x, place((i, 1)))
    mask = apply(Scalar.GT, here, number(0), type=Type.BOOL)
    for kind in (LoopKind.VECTORIZED, LoopKind.SERIAL):
        body: list[Statement] = [
            Store(y, place((i, 2)), here, mask=mask),
            Store(y, place((i, 2), base=1), here, mask=mask, add=True),
        ]
        check(Kernel("masked", [x, y], [Loop(i, n, body, kind)]), [draw(n), draw(2 * n)])


# -------------------------------------------------------------------- loops and contracts


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_triangles(check, n: int) -> None:
    """Loops whose extent the index of a loop around decides; with no rounds, too."""
    x, y, i, j = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Index("j")
    total = Accumulator(ReduceOp.SUM, F32)
    inner = Loop(j, place((i, 1)), [Update(total, Load(x, place((i, n), (j, 1))))])
    down = Loop(j, place((i, -1), base=n), [Update(total, Load(x, place((i, n), (j, 1))))])
    body: list[Statement] = [Begin(total), inner, down, Store(y, place((i, 1)), total)]
    kernel = Kernel("triangle", [x, y], [Loop(i, n, body, LoopKind.PARALLEL)])
    verify(kernel)
    check(kernel, [draw(n, n), draw(n)])


@pytest.mark.parametrize("outer", [1, 2, 3])
def test_nested_parallel_loops(check, outer: int) -> None:
    x, y, a, b, c = Buffer(F32, "x"), Buffer(F32, "y"), Index("a"), Index("b"), Index("c")
    where = place((a, 35), (b, 7), (c, 1))
    inner = Loop(c, 7, [Store(y, where, apply(Scalar.NEG, Load(x, where)))], LoopKind.VECTORIZED)
    nest = Loop(a, outer, [Loop(b, 5, [inner], LoopKind.PARALLEL)], LoopKind.PARALLEL)
    check(Kernel("nest", [x, y], [nest]), [draw(outer, 35), draw(outer, 35)])


@pytest.mark.parametrize("shape", [(1, 3, 5), (2, 1, 3000), (3, 7, 20), (1, 1, 1)])
@pytest.mark.parametrize("sized", [False, True])
def test_parallel_loops_that_run_in_lanes(check, shape: tuple[int, ...], sized: bool) -> None:
    """The innermost of a nest of PARALLEL loops is taken in vectors, in blocks where few are."""
    x, y, a, b, c = Buffer(F32, "x"), Buffer(F32, "y"), Index("a"), Index("b"), Index("c")
    sizes = [Size("a"), Size("b"), Size("c")]
    extents = sizes if sized else list(shape)
    where = place((a, shape[1] * shape[2]), (b, shape[2]), (c, 1))
    nest: Statement = Store(y, where, apply(Scalar.NEG, Load(x, where)))
    for index, extent in zip((c, b, a), reversed(extents), strict=True):
        nest = Loop(index, extent, [nest], LoopKind.PARALLEL)
    kernel = Kernel("nest", [x, y], [nest], sizes if sized else [])
    check(kernel, [draw(*shape), draw(*shape)], shape if sized else [])


def test_many_statements_one_after_another(check) -> None:
    """Some shared out, some on the first thread alone."""
    n, x, y, i = 70, Buffer(F32, "x"), Buffer(F32, "y"), Index("i")
    j = Index("j")
    body: list[Statement] = [
        Store(x, place(base=n), number(3)),
        Loop(i, n, [Store(y, place((i, 1)), Load(x, place((i, 1))))], LoopKind.PARALLEL),
        Loop(j, 3, [Store(x, place((j, 1), base=n + 1), number(4))]),
    ]
    check(Kernel("several", [x, y], body), [draw(n + 4), draw(n)])


@pytest.mark.parametrize("types", [(F32, F32, F32), (Type.BF16, Type.BF16, F32),
                                   (Type.I64, Type.I64, Type.I64), (Type.F64,) * 3])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 17, 3), (9, 40, 33)])
@pytest.mark.parametrize("nested", [False, True])
def test_contract(check, types, shape: tuple[int, int, int], nested: bool) -> None:
    rows, columns, depth = shape
    a, b, y, bias = (Buffer(t, n) for t, n in zip((*types, types[2]), "abyc", strict=True))
    m, n, k, outer = Index("m"), Index("n"), Index("k"), Index("outer")
    total = Accumulator(ReduceOp.SUM, types[2])
    value = apply(Scalar.ADD, total, Load(bias, place((n, 1))))
    contract = Contract((Axis(m, rows),), Axis(n, columns), (Axis(k, depth),),
                        Load(a, place((m, depth), (k, 1))), Load(b, place((k, columns), (n, 1))),
                        total, [Store(y, place((m, columns), (n, 1)), value)])
    body: list[Statement] = (
        [Loop(outer, 1, [contract], LoopKind.PARALLEL)] if nested else [contract]
    )
    kernel = Kernel("product", [a, b, y, bias], body)
    arrays = [(draw(s, t, seed=i) * 4).astype(dtype_of(kind)) for i, (s, t, kind) in enumerate(
        ((rows, depth, types[0]), (depth, columns, types[1]), (rows, columns, types[2]),
         (1, columns, types[2])))]
    check(kernel, arrays, rtol=1e-5, atol=1e-4)


# ------------------------------------------------------------------------------ met by chance


@pytest.mark.parametrize("narrow", [Type.BF16, Type.F16, Type.I8, Type.I32, Type.BOOL])
@pytest.mark.parametrize("step", [1, -1])
def test_the_last_lane_of_a_row_leaves_the_next_row_alone(check, narrow: Type, step: int) -> None:
    x, y, i, lane = Buffer(I64, "x"), Buffer(narrow, "y"), Index("i"), Index("lane")
    value = apply(Scalar.CAST, Load(x, place((i, 65), (lane, 1))), type=narrow)
    at = place((i, 65), (lane, step), base=0 if step > 0 else 64)
    rows = Loop(lane, 65, [Loop(i, 9, [Store(y, at, value)])], LoopKind.VECTORIZED)
    inputs = np.arange(9 * 65).reshape(9, 65) % 2 + 1
    check(Kernel("narrowed", [x, y], [rows]), [inputs, np.zeros((9, 65), dtype_of(narrow))])


def test_a_long_running_sum_is_read_whole(check) -> None:
    x, y, i = Buffer(F32, "x"), Buffer(F32, "y"), Index("i")
    total = Accumulator(ReduceOp.SUM, F32)
    steps = Loop(i, 3000, [Update(total, Load(x, place((i, 1)))), Store(y, place((i, 1)), total)])
    check(Kernel("scan", [x, y], [Begin(total), steps]), [draw(3000), draw(3000)], rtol=1e-4,
          atol=1e-4)


@pytest.mark.parametrize("columns", [3, 7, 8, 9])
def test_registers_beyond_an_edge_are_not_read(check, columns: int) -> None:
    """AVX2: a mask of a row's test and an edge's, of which whole registers are false."""
    x, y, i, j = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Index("j")
    row = apply(Scalar.LT, IndexValue(place((i, 1))), number(5, I64), type=Type.BOOL)
    edge = apply(Scalar.LT, IndexValue(place((j, 1))), number(columns, I64), type=Type.BOOL)
    both = apply(Scalar.AND, row, edge)
    load = Load(x, place((i, columns), (j, 1)), (), both)
    inner = Loop(j, 16, [Store(y, place((i, 16), (j, 1)), load)], LoopKind.VECTORIZED)
    kernel = Kernel("edges", [x, y], [Loop(i, 6, [inner])])
    check(kernel, [draw(5, columns), draw(6, 16)])
    text = emit_assembly(emit(kernel, TARGETS["avx2"]), TARGETS["avx2"])
    whole = re.findall(r"vmovups\t[^%]*\(.*\), %ymm", text)
    assert "vmaskmovps" in text and not whole, whole
