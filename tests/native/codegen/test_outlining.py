"""Loops that a kernel repeats on other buffers are one function, and do what they did."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Index, Kernel, Load, Loop, LoopKind, ReduceOp,
    Scalar, Statement, Store, Type, Update,
)

N = 70
F32 = Type.F32


def buffers(*names: str) -> list[Buffer]:
    return [Buffer(F32, name) for name in names]


def draw(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(N).astype(np.float32)


def added(x: Buffer, y: Buffer, out: Buffer, kind: LoopKind, base: int = 0) -> Loop:
    """out = x + y, element by element."""
    i = Index("i")
    at = Affine(base, ((i, 1),))
    value = Apply(Scalar.ADD, (Load(x, at), Load(y, at)), F32)
    return Loop(i, N - base, [Store(out, at, value)], kind)


def loops(kernel: Kernel) -> int:
    """How many functions there are for loops that are repeated."""
    lines = emit(kernel).splitlines()
    return sum(line.startswith("define") and ".loop" in line for line in lines)


@pytest.mark.parametrize("kind", [LoopKind.VECTORIZED, LoopKind.PARALLEL, LoopKind.SERIAL])
def test_one_function_stands_for_all(check, kind: LoopKind) -> None:
    x, y, a, b, c = buffers(*"xyabc")
    body: list[Statement] = [
        added(x, y, a, kind), added(a, y, b, kind), added(b, b, c, kind, 1), added(x, b, c, kind),
    ]
    kernel = Kernel("chain", [x, y, a, b, c], body)
    assert loops(kernel) == 1
    arrays = check(kernel, [draw(seed) for seed in range(5)])
    wanted = draw(0) + (draw(0) + draw(1)) + draw(1)
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-5, atol=1e-5)


def test_others_stay_in_their_order(check) -> None:
    x, y, a, b = buffers(*"xyab")
    first = Store(x, Affine(3, ()), Load(y, Affine(5, ())))
    again = Store(a, Affine(0, ()), Load(a, Affine(69, ())))
    body = [first, added(x, y, a, LoopKind.VECTORIZED), again, added(y, a, b, LoopKind.VECTORIZED)]
    kernel = Kernel("mixed", [x, y, a, b], body)
    assert loops(kernel) == 1
    check(kernel, [draw(seed) for seed in range(4)])


def test_a_sum_that_goes_on_is_no_function(check) -> None:
    x, y, out = buffers("x", "y", "out")
    total = Accumulator(ReduceOp.SUM, F32)
    body: list[Statement] = [Begin(total, None)]
    for source in (x, y):
        i = Index("i")
        body.append(
            Loop(i, N, [Update(total, Load(source, Affine(0, ((i, 1),))))], LoopKind.VECTORIZED)
        )
    body.append(Store(out, Affine(), total))
    kernel = Kernel("sum", [x, y, out], body)
    assert loops(kernel) == 0
    check(kernel, [draw(seed) for seed in range(3)])


def test_sums_of_their_own_are(check) -> None:
    x, y, a, b = buffers(*"xyab")
    body: list[Statement] = []
    for source, out in ((x, a), (y, b)):
        i, j, total = Index("i"), Index("j"), Accumulator(ReduceOp.SUM, F32)
        inner = Loop(
            j, 10, [Update(total, Load(source, Affine(0, ((i, 10), (j, 1)))))], LoopKind.SERIAL
        )
        inside = [Begin(total, None), inner, Store(out, Affine(0, ((i, 1),)), total)]
        body.append(Loop(i, 7, inside, LoopKind.PARALLEL))
    kernel = Kernel("sums", [x, y, a, b], body)
    assert loops(kernel) == 1
    check(kernel, [draw(seed) for seed in range(4)])


def test_memory_that_may_overlap_is_left_alone(check) -> None:
    x, y = (Buffer(F32, name, aliased=True) for name in "xy")
    body = [added(x, y, x, LoopKind.SERIAL), added(y, x, y, LoopKind.SERIAL)]
    kernel = Kernel("aliased", [x, y], body)
    assert loops(kernel) == 0
    check(kernel, [draw(seed) for seed in range(2)])
