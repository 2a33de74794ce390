"""Sums over rows that each thread makes in a row of its own, beside work on the same elements."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Buffer, Contract, Index, Kernel, Load, Loop, LoopKind,
    ReduceOp, Scalar, Statement, Store, Type,
)
from flambeau.native.loop_ir.fingerprint import canonical_text
from flambeau.native.loop_ir.verify import VerifyError, verify

ROWS = 3  # of the parts: fewer than the most threads in the tests, more than the least
Check = Callable[..., list[np.ndarray]]
F32 = Type.F32


def parts(columns: int, name: str = "sums") -> Buffer:
    return Buffer(F32, name, parts=(ROWS, columns))


def added(buffer: Buffer, value: object, *terms: tuple[Index, int]) -> Store:
    return Store(buffer, Affine(0, terms), value, add=True)  # type: ignore[arg-type]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def product(m: int, n: int, k: int, long: bool = False) -> tuple[Kernel, list[np.ndarray]]:
    """c = a @ b, the sums of its columns, and those of their squares."""
    i, j, p = Index("i"), Index("j"), Index("p")
    a, b, c, sums, squares = (
        Buffer(F32, "a"), Buffer(F32, "b"), Buffer(F32, "c"), parts(n), parts(n, "squares"),
    )
    total = Accumulator(ReduceOp.SUM, F32)
    store = Store(c, Affine(0, ((i, n), (j, 1))), total)
    body: list[Statement] = [store, added(sums, total, (j, 1))]
    if long:
        body.append(added(squares, Apply(Scalar.MUL, (total, total), F32), (j, 1)))
    contract = Contract(
        (Axis(i, m),), Axis(j, n), (Axis(p, k),), Load(a, Affine(0, ((i, k), (p, 1)))),
        Load(b, Affine(0, ((p, n), (j, 1)))), total, body,
    )
    arrays = [numbers(m, k), numbers(k, n), *(np.full(s, np.nan, np.float32)
              for s in ((m, n), (ROWS, n), (ROWS, n)))]
    buffers = [a, b, c, sums, squares]
    return Kernel("product", buffers if long else buffers[:4], [contract]), arrays[: 4 + long]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (5, 40, 3), (37, 19, 5)])
def test_columns_of_a_product(check: Check, m: int, n: int, k: int, long: bool) -> None:
    check(*product(m, n, k, long), rtol=3e-5, atol=3e-4)


@pytest.mark.parametrize("channels, stride", [(4, 1), (16, 1), (5, 2)])
def test_channels_of_a_convolution(check: Check, channels: int, stride: int) -> None:
    """By Winograd's algorithm where there are enough channels, else by direct sums."""
    n, size, features = 2, 5, 18
    out = (size - 3) // stride + 1
    names = [Index(name) for name in ("n", "h", "w", "k", "i", "j", "c")]
    b, h, w, f, i, j, c = names
    x, weight, y = Buffer(F32, "x"), Buffer(F32, "weight"), Buffer(F32, "y")
    sums = Buffer(F32, "sums", parts=(ROWS, out * features))  # one for each row of the image
    total = Accumulator(ReduceOp.SUM, F32)
    at = ((b, size * size * channels), (h, stride * size * channels), (i, size * channels),
          (w, stride * channels), (j, channels), (c, 1))
    contract = Contract(
        (Axis(b, n), Axis(h, out), Axis(w, out)), Axis(f, features),
        (Axis(i, 3), Axis(j, 3), Axis(c, channels)), Load(x, Affine(0, at)),
        Load(weight, Affine(0, ((i, 3 * channels * features), (j, channels * features),
                                (c, features), (f, 1)))), total,
        [Store(y, Affine(0, ((b, out * out * features), (h, out * features), (w, features),
                             (f, 1))), total),
         added(sums, total, (h, features), (f, 1))],
    )
    arrays = [numbers(n, size, size, channels), numbers(3, 3, channels, features),
              numbers(n, out, out, features), numbers(ROWS, out, features)]
    check(Kernel("conv", [x, weight, y, sums], [contract]), arrays, rtol=3e-5, atol=3e-4)


def pointwise(columns: int = 50, kind: LoopKind = LoopKind.VECTORIZED) -> Kernel:
    row, lane = Index("row"), Index("lane")
    x, sums = Buffer(F32, "x"), parts(columns)
    load = Load(x, Affine(0, ((row, columns), (lane, 1))))
    inner = Loop(lane, columns, [added(sums, load, (lane, 1))], kind)
    return Kernel("columns", [x, sums], [Loop(row, 21, [inner], LoopKind.PARALLEL)])


def test_columns_of_a_loop(check: Check) -> None:
    check(pointwise(), [numbers(21, 50), numbers(ROWS, 50)], atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_each_row_is_the_same_for_any_number_of_threads(threads: int) -> None:
    x = numbers(21, 50)
    results = [np.full((ROWS, 50), start, np.float32) for start in (np.nan, 7)]
    for sums, count in zip(results, (threads, ROWS), strict=True):
        compile_kernel(pointwise()).run([x, sums], threads=count)
    assert (np.abs(results[0]).max(1) > 0).all()
    np.testing.assert_array_equal(*results)


def test_what_is_added_to_is_not_read() -> None:
    kernel = pointwise()
    x, sums = kernel.buffers
    here = Affine()
    kernel.body.append(Store(x, here, Load(sums, here)))
    with pytest.raises(VerifyError, match="sums has parts, and is only added to"):
        verify(kernel)


def test_positions_are_within_a_row() -> None:
    kernel = pointwise()
    kernel.buffers[1].parts = (ROWS, 49)
    with pytest.raises(VerifyError, match=re.escape("positions 0 to 49 of sums")):
        verify(kernel)


def test_integers_have_no_parts() -> None:
    with pytest.raises(VerifyError, match="n of int64 has no parts"):
        verify(Kernel("none", [Buffer(Type.I64, "n", parts=(2, 2))], []))


def test_parts_are_another_structure() -> None:
    kernel = pointwise()
    before = canonical_text(kernel)
    kernel.buffers[1].parts = (ROWS + 1, 50)
    assert canonical_text(kernel) != before
