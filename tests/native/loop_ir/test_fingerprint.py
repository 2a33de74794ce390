"""The structure of a kernel, its printed form, and functions shared by structure."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Index, Kernel,
    Load, Loop, LoopKind, ReduceOp, Scalar, Size, Store, Type, Update,
)
from flambeau.native.loop_ir.printer import format_kernel
from flambeau.native.loop_ir.fingerprint import canonical_text

F32 = Type.F32


def scaled(
    factor: float = 2.0, name: str = "x", kind: LoopKind = LoopKind.VECTORIZED, stride: int = 1
) -> Kernel:
    x, y, i, n = Buffer(F32, name), Buffer(F32, "y"), Index(name + "i"), Size(name + "n")
    load = Load(x, Affine(0, ((i, stride),)))
    value = Apply(Scalar.MUL, (load, Constant(F32, factor)), F32)
    body = [Store(y, Affine(0, ((i, 1),)), Apply(Scalar.ADD, (value, value), F32))]
    return Kernel(name, [x, y], [Loop(i, n, body, kind)], [n])


def test_exact_kernels_round_products_before_they_add() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=1000).astype("f") for _ in range(3))
    buffers, i, n = [Buffer(F32, name) for name in "abcy"], Index("i"), Size("n")
    loads = [Load(buffer, Affine(0, ((i, 1),))) for buffer in buffers[:3]]
    product = Apply(Scalar.MUL, (loads[0], loads[1]), F32)
    store = Store(buffers[3], Affine(0, ((i, 1),)), Apply(Scalar.ADD, (product, loads[2]), F32))
    plain, exact = (Kernel("k", buffers, [Loop(i, n, [store], LoopKind.VECTORIZED)], [n], e)
                    for e in (False, True))
    assert canonical_text(plain) != canonical_text(exact)
    results = [np.zeros(1000, "f") for _ in range(2)]
    for kernel, y in zip((plain, exact), results, strict=True):
        compile_kernel(kernel).run([a, b, c, y], [1000])
    np.testing.assert_array_equal(results[1], a * b + c)
    np.testing.assert_allclose(results[0], a * b + c, 1e-5, 1e-6)


def test_names_do_not_count() -> None:
    assert canonical_text(scaled()) == canonical_text(scaled(name="other"))
    assert compile_kernel(scaled()) is compile_kernel(scaled(name="other"))


@pytest.mark.parametrize("other", [
    scaled(3.0), scaled(-0.0), scaled(kind=LoopKind.SERIAL), scaled(stride=2), scaled(float("nan")),
])
def test_everything_else_counts(other: Kernel) -> None:
    assert canonical_text(scaled()) != canonical_text(other)
    assert canonical_text(scaled(0.0)) != canonical_text(other)


def test_what_a_size_is_at_most_counts() -> None:
    """A sum of few numbers need not be made in blocks, as a long one is."""
    kernels = []
    for most in (None, 1000):
        x, y, i, n = Buffer(F32, "x"), Buffer(F32, "y"), Index("i"), Size("n", most)
        total = Accumulator(ReduceOp.SUM, F32)
        loop = Loop(i, n, [Update(total, Load(x, Affine(0, ((i, 1),))))])
        kernels.append(Kernel("k", [x, y], [Begin(total), loop, Store(y, Affine(), total)], [n]))
    assert canonical_text(kernels[0]) != canonical_text(kernels[1])
    assert ["double" in emit(kernel) for kernel in kernels] == [True, False]


def test_order_of_arguments_counts() -> None:
    kernel = scaled()
    turned = Kernel("turned", kernel.buffers[::-1], kernel.body, kernel.sizes)
    assert canonical_text(kernel) != canonical_text(turned)


def test_deep_expressions() -> None:
    """Chains longer than Python's stack, from the structure to machine code."""
    x, i = Buffer(F32, "x"), Index("i")
    value: Expression = Load(x, Affine(0, ((i, 1),)))
    unit = Constant(F32, 1)
    for _ in range(1500):
        value = Apply(Scalar.SUB, (unit, value), F32)
    kernel = Kernel("deep", [x], [Loop(i, 3, [Store(x, Affine(0, ((i, 1),)), value)])])
    assert canonical_text(kernel).count("SUB") == 1500
    actual, wanted = np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32)
    compile_kernel(kernel).run([actual])
    interpret(kernel, [wanted])
    np.testing.assert_array_equal(actual, wanted)


def test_run_wants_as_many_arguments() -> None:
    with pytest.raises(TypeError, match="takes 2 arrays and 1 sizes, not 1 and 0"):
        compile_kernel(scaled()).run([np.zeros(3, np.float32)])


def test_show() -> None:
    x, w, y = Buffer(F32, "x"), Buffer(F32, "w"), Buffer(F32, "y")
    i, j, k, total = Index("i"), Index("j"), Index("k"), Accumulator(ReduceOp.SUM, F32)
    row = Affine(0, ((i, 10), (j, 1)))
    load = Load(x, row)
    square = Apply(Scalar.MUL, (load, load), F32)
    nest = Loop(
        i,
        4,
        [
            Begin(total),
            Loop(j, 10, [Update(total, square)], LoopKind.VECTORIZED),
            Store(y, Affine(3, ((i, 1),)), total, add=True),
        ],
        LoopKind.PARALLEL,
    )
    product = Contract((Axis(i, 4),), Axis(j, 5), (Axis(k, 10),),
                       Load(x, Affine(0, ((i, 10), (k, 1)))), Load(w, Affine(0, ((k, 5), (j, 1)))),
                       total, [Store(y, Affine(0, ((i, 5), (j, 1))), total)])
    assert format_kernel(Kernel("both", [x, w, y], [nest, product])) == """\
both(x: float32, w: float32, y: float32)
  parallel i < 4
    begin sum (sum, float32)
    vectorized j < 10
      v0 = x[i * 10 + j]
      sum <- v0 * v0
    y[i + 3] += sum
  contract i < 4, j < 5
    sum = sum of x[i * 10 + k] * w[k * 5 + j] over k < 10
    y[i * 5 + j] = sum"""


def test_interpreter_sees_positions_outside() -> None:
    with pytest.raises(IndexError, match=r"x\[3\] of 3 elements"):
        interpret(scaled(), [np.zeros(3, np.float32), np.zeros(9, np.float32)], [4])
