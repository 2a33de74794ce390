"""Philox-4x32-10: the published test vectors, and the same in the interpreter and machine code."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Index, IndexValue, Kernel, Load, Loop, LoopKind, Scalar, Store,
    Type,
)
from flambeau.native.loop_ir.philox import philox, philox_word, philox_words
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS
from flambeau.native.loop_ir.verify import VerifyError, verify

# Random123's kat_vectors: counter, key and result, word by word.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def pairs(words: str) -> list[int]:
    """Words two by two, the first of each below."""
    each = [int(word, 16) for word in words.split()]
    return [low | high << 32 for low, high in zip(each[::2], each[1::2], strict=True)]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_published_vectors(counter: str, key: str, result: str) -> None:
    inputs = [np.array([n], np.uint64) for n in (*pairs(counter), *pairs(key))]
    assert [f"{int(word[0]):08x}" for word in philox_words(*inputs)] == result.split()
    assert int(philox(*inputs)[0]) == pairs(result)[0]
    actual = np.zeros(1, np.uint64)
    compile_kernel(kernel(1)).run([*inputs, actual])
    assert int(actual[0]) == pairs(result)[0]


def kernel(count: int) -> Kernel:
    """y[i] = PHILOX(x[i], stream, key) over `count` elements, in lanes."""
    x, stream, key, y = (Buffer(Type.U64, name) for name in ("x", "stream", "key", "y"))
    i = Index("i")
    at = Affine(0, ((i, 1),))
    value = Apply(Scalar.PHILOX, (Load(x, at), Load(stream, Affine()), Load(key, Affine())),
                  Type.U64)
    body = [Loop(i, count, [Store(y, at, value)], LoopKind.VECTORIZED)]
    return Kernel(f"philox{count}", [x, stream, key, y], body)


@pytest.mark.parametrize("count", [1, 3, 8, 37, 129])
def test_machine_code_and_interpreter_agree(count: int) -> None:
    draw = np.random.default_rng(count)
    x, stream, key = (draw.integers(0, 1 << 64, n, np.uint64) for n in (count, 1, 1))
    expected = philox(x, stream, key)
    kernel_ = kernel(count)
    plain = emit(kernel_, TARGETS["avx2"], kernel_.name)
    for run in (lambda a: interpret(kernel_, a), compile_kernel(kernel_).run):
        y = np.zeros(count, np.uint64)
        run([x, stream, key, y])
        np.testing.assert_array_equal(y, expected)
    assert load(plain, [kernel_.name])[kernel_.name]


@pytest.mark.parametrize("base", [0, 16, 5])
@pytest.mark.parametrize("columns", [1, 16, 48, 64, 144, 29])
def test_words_by_index(base: int, columns: int) -> None:
    """Rows of words, whose first place may be any."""
    stream, key, y = Buffer(Type.U64, "stream"), Buffer(Type.U64, "key"), Buffer(Type.U32, "y")
    i, j = Index("i"), Index("j")
    at = ((i, columns), (j, 1))
    place = Apply(Scalar.CAST, (IndexValue(Affine(base, at)),), Type.U64)
    value = Apply(Scalar.PHILOX_WORD, (place, Load(stream, Affine()), Load(key, Affine())),
                  Type.U32)
    store = Store(y, Affine(0, at), value)
    kernel_ = Kernel(f"words{base}_{columns}", [stream, key, y],
                     [Loop(i, 3, [Loop(j, columns, [store], LoopKind.VECTORIZED)])])
    verify(kernel_)
    index = np.arange(base, base + 3 * columns, dtype=np.uint64)
    inputs = [np.array([n], np.uint64) for n in (7, 1 << 40 | 3)]
    expected = philox_word(index, *inputs)
    for run in (lambda a: interpret(kernel_, a), compile_kernel(kernel_).run):
        y = np.zeros(3 * columns, np.uint32)
        run([*inputs, y])
        np.testing.assert_array_equal(y, expected)


def test_words_of_neighbours_are_those_of_counters_in_turn() -> None:
    key = np.uint64(5)
    words = philox_words(np.arange(8), np.uint64(1), key)
    actual = philox_word(np.arange(32), np.uint64(1), key).reshape(2, 4, 4)
    for which, word in enumerate(words):
        np.testing.assert_array_equal(actual[:, which], word.reshape(2, 4))


def test_only_on_64_bits() -> None:
    y, i = Buffer(Type.U32, "y"), Index("i")
    number = Constant(Type.U32, 1)
    value = Apply(Scalar.PHILOX, (number, number, number), Type.U32)
    with pytest.raises(VerifyError, match="PHILOX on uint32"):
        verify(Kernel("k", [y], [Loop(i, 4, [Store(y, Affine(0, ((i, 1),)), value)])]))
