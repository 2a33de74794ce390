"""What the verifier refuses, and that it names the place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Index, IndexValue, Kernel,
    Load, Loop, LoopKind, Prefetch, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)
from flambeau.native.loop_ir.printer import format_kernel
from flambeau.native.loop_ir.fingerprint import fingerprint
from flambeau.native.loop_ir.verify import VerifyError, verify

F32 = Type.F32
X, Y, W = Buffer(F32, "x"), Buffer(F32, "y"), Buffer(Type.I64, "w")
H, J, K = Index("i"), Index("j"), Index("k")
TOTAL = Accumulator(ReduceOp.SUM, F32, "total")


def at(*indices: Index, base: int = 0) -> Affine:
    return Affine(base, tuple((index, 1) for index in indices))


def loop(*body: Statement, index: Index = H, kind: LoopKind = LoopKind.SERIAL) -> Loop:
    return Loop(index, 10, list(body), kind)


def copy(*indices: Index) -> Store:
    return Store(Y, at(*indices), Load(X, at(*indices)))


def unit(type: Type = F32) -> Constant:
    return Constant(type, 1)


def product(a: Affine, b: Affine, body: list[Statement]) -> Contract:
    return Contract((Axis(H, 4),), Axis(J, 4), (Axis(K, 4),), Load(X, a), Load(X, b), TOTAL, body)


BAD: dict[str, tuple[Callable[[], list[Statement]], str]] = {
    "index of no loop": (lambda: [loop(copy(J))], "index j is not that of a loop around"),
    "index twice": (lambda: [loop(loop(copy(H)))], "index i is used by a loop around"),
    "index twice in a position": (lambda: [loop(copy(H, H))], "occurs twice"),
    "stores another type": (
        lambda: [loop(Store(Y, at(H), unit(Type.I32)))],
        "stores int32 in y, of float32",
    ),
    "no argument": (
        lambda: [loop(Store(Buffer(F32, "z"), at(H), unit()))],
        "buffer z is not an argument",
    ),
    "size is no argument": (lambda: [Loop(H, Size("n"), [copy(H)])], "size n is not an argument"),
    "negative extent": (lambda: [Loop(H, -1, [copy(H)])], "no extent"),
    "an extent that changes in lanes": (
        lambda: [loop(Loop(J, at(H), [copy(J)], LoopKind.VECTORIZED))],
        "only SERIAL loops",
    ),
    "fewer rounds than none": (
        lambda: [loop(Loop(J, Affine(3, ((H, -1),)), [copy(J)]))],
        "-6 rounds",
    ),
    "outside of the buffer in the longest round": (
        lambda: [loop(Loop(J, at(H, base=2), [copy(J)]))],
        "positions 0 to 10",
    ),
    "parallel inside": (
        lambda: [loop(loop(copy(J), index=J, kind=LoopKind.PARALLEL))],
        "PARALLEL loops are outermost",
    ),
    "lanes in lanes": (
        lambda: [
            loop(loop(copy(H, J), index=J, kind=LoopKind.VECTORIZED), kind=LoopKind.VECTORIZED)
        ],
        "inside a loop over lanes",
    ),
    "lanes collide": (
        lambda: [loop(Store(Y, at(), Load(X, at(H))), kind=LoopKind.VECTORIZED)],
        "store to one element",
    ),
    "not begun": (lambda: [loop(Update(TOTAL, unit()))], "total is updated, and not begun here"),
    "read before begun": (lambda: [Store(Y, at(), TOTAL), Begin(TOTAL)], "total is read"),
    "begun in another loop": (
        lambda: [loop(Begin(TOTAL)), loop(Store(Y, at(H), TOTAL))],
        "not begun here",
    ),
    "begun on the first thread": (
        lambda: [Begin(TOTAL), loop(Update(TOTAL, unit()), kind=LoopKind.PARALLEL)],
        "not begun here",
    ),
    "read while lanes update it": (
        lambda: [
            Begin(TOTAL),
            loop(Update(TOTAL, unit()), Store(Y, at(H), TOTAL), kind=LoopKind.VECTORIZED),
        ],
        "read in the loop over lanes that updates it",
    ),
    "update of another type": (
        lambda: [Begin(TOTAL), Update(TOTAL, unit(Type.F64))],
        "total is of float32, not float64",
    ),
    "argmax without position": (
        lambda: [
            Begin(best := Accumulator(ReduceOp.ARGMAX, Type.I64, "best")),
            Update(best, unit()),
        ],
        "needs a position",
    ),
    "last over lanes": (
        lambda: [
            Begin(last := Accumulator(ReduceOp.LAST, F32, "last")),
            loop(Update(last, unit()), kind=LoopKind.VECTORIZED),
        ],
        "no last value in a loop over lanes",
    ),
    "sum of halves": (lambda: [Begin(Accumulator(ReduceOp.SUM, Type.F16))], "cast to float32"),
    "any of numbers": (lambda: [Begin(Accumulator(ReduceOp.ANY, F32))], "ANY of float32"),
    "operands of two types": (
        lambda: [Store(Y, at(), Apply(Scalar.ADD, (unit(), unit(Type.F64)), F32))],
        "ADD of float32, float64",
    ),
    "result of another type": (
        lambda: [Store(Y, at(), Apply(Scalar.LT, (unit(), unit()), F32))],
        "LT gives bool",
    ),
    "arithmetic on halves": (
        lambda: [
            Store(
                Y, at(), Apply(Scalar.CAST, (Apply(Scalar.NEG, (unit(Type.F16),), Type.F16),), F32)
            )
        ],
        "no NEG on float16",
    ),
    "exp of integers": (
        lambda: [Store(W, at(), Apply(Scalar.EXP, (unit(Type.I64),), Type.I64))],
        "no EXP on int64",
    ),
    "bits of floats": (
        lambda: [Store(Y, at(), Apply(Scalar.AND, (unit(), unit()), F32))],
        "no AND on float32",
    ),
    "count of operands": (
        lambda: [Store(Y, at(), Apply(Scalar.ADD, (unit(),), F32))],
        "ADD of 1 operands",
    ),
    "bitcast of another size": (
        lambda: [Store(Y, at(), Apply(Scalar.BITCAST, (unit(Type.F64),), F32))],
        "BITCAST of float",
    ),
    "computed position of floats": (
        lambda: [Store(Y, at(), Load(X, at(), ((unit(), 1),)))],
        "computed position of float32",
    ),
    "mask of integers": (
        lambda: [Store(Y, at(), unit(), mask=unit(Type.I64))],
        "under a mask of int64",
    ),
    "a moves along the column": (lambda: [product(at(J), at(J), [])], "a moves along the column"),
    "b moves along the rows": (lambda: [product(at(H), at(H), [])], "b moves along the row i"),
    "depth after the sum": (
        lambda: [product(at(H, K), at(K, J), [Store(Y, at(K), TOTAL)])],
        "index k is not",
    ),
    "outside of the buffer": (lambda: [Store(Y, at(base=10), unit())], "positions 10 to 10 of y"),
    "before the buffer": (
        lambda: [loop(Store(Y, Affine(3, ((H, -1),)), unit()))],
        "positions -6 to 3 of y",
    ),
    "too much on the stack": (
        lambda: [Store(Buffer(F32, "big", local=20_000), at(), unit())],
        "80000 bytes of local",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(VerifyError, match=message) as raised:
        verify(Kernel("bad", [X, Y, W], make()), {X: 10, Y: 10, W: 10})
    assert str(raised.value).startswith("kernel bad")


def test_local_buffers_are_no_arguments() -> None:
    scratch = Buffer(F32, "scratch", local=4)
    with pytest.raises(VerifyError, match="leave it out"):
        verify(Kernel("bad", [scratch], [Store(scratch, at(), unit())]))


def test_legal_kernels_pass() -> None:
    position = Apply(Scalar.CAST, (IndexValue(at(H)),), F32)
    inner = loop(Store(Y, at(J), position), index=J, kind=LoopKind.VECTORIZED)
    total = [Begin(TOTAL), loop(Update(TOTAL, Load(X, at(K))), index=K, kind=LoopKind.VECTORIZED)]
    body = [loop(inner, *total, Store(Y, at(H), TOTAL), kind=LoopKind.PARALLEL),
            product(at(H), at(J), [Store(Y, at(H, J), TOTAL)])]
    verify(Kernel("good", [X, Y], body), {X: 10, Y: 10})


def test_what_is_asked_for_ahead_may_lie_outside() -> None:
    """But its indices are those of loops around, and its buffer is an argument."""
    x, i, other = Buffer(Type.F32, "x"), Index("i"), Index("j")
    ahead = Prefetch(x, Affine(100, ((i, 16),)))
    store = Store(x, Affine(0, ((i, 1),)), Constant(Type.F32, 1))
    kernel = Kernel("ahead", [x], [Loop(i, 4, [ahead, store], LoopKind.PARALLEL)])
    verify(kernel, {x: 4})
    actual = np.zeros(4, np.float32)
    interpret(kernel, [actual])
    compile_kernel(kernel).run([again := np.zeros(4, np.float32)])
    assert actual.tolist() == again.tolist() == [1] * 4
    assert "prefetch x[i * 16 + 100]" in format_kernel(kernel)
    plain = Kernel("plain", [x], [Loop(i, 4, [store], LoopKind.PARALLEL)])
    assert fingerprint(plain) != fingerprint(kernel)
    ahead.at = Affine(0, ((other, 1),))
    with pytest.raises(VerifyError, match="not that of a loop around"):
        verify(kernel)
    ahead.buffer, ahead.at = Buffer(Type.F32, "y"), Affine()
    with pytest.raises(VerifyError, match="not an argument"):
        verify(kernel)
