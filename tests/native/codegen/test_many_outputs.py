"""Kernels of up to forty outputs of mixed types: nothing is written beyond the last element.

Many live vectors make LLVM spill masks, and outputs narrower than the kernel's widest type make it
widen them; both together have touched memory past the end of an output.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Expression, Index, Kernel, Load, Loop, LoopKind, Scalar, Store,
    Type,
)

FUNCTIONS = [
    Scalar.EXP, Scalar.LOG, Scalar.SIN, Scalar.COS, Scalar.TANH, Scalar.SQRT, Scalar.ABS,
    Scalar.NEG,
]
NARROW = [Type.BOOL, Type.U8, Type.I8, Type.I16, Type.I32, Type.F32]
ELEMENTS = [1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 33, 47, 68]


def value_of(x: Expression, number: int, source: Type) -> Expression:
    """Output `number` as an expression of the source type: no two outputs are the same."""
    shift = Constant(source, number * 0.125)
    moved = Apply(Scalar.ADD, (Apply(Scalar.ABS, (x,), source), shift), source)
    return Apply(FUNCTIONS[number % len(FUNCTIONS)], (moved,), source)


def many_outputs(count: int, source: Type, elements: int, narrow: Type) -> Kernel:
    """`count` outputs of `source`, each third one as `narrow` instead."""
    i = Index("i")
    at = Affine(0, ((i, 1),))
    x = Buffer(source, "x")
    outputs, body = [], []
    for number in range(count):
        value = value_of(Load(x, at), number, source)
        kind = narrow if number % 3 == 2 or count == 1 else source
        if kind is Type.BOOL:
            value = Apply(Scalar.LT, (value, Constant(source, 0.5)), Type.BOOL)
        elif kind is not source:
            value = Apply(Scalar.CAST, (value,), kind)
        outputs.append(Buffer(kind, f"y{number}"))
        body.append(Store(outputs[-1], at, value))
    return Kernel("many", [x, *outputs], [Loop(i, elements, body, LoopKind.PARALLEL)])


def run(check, count: int, source: Type, elements: int, narrow: Type) -> None:
    kernel = many_outputs(count, source, elements, narrow)
    rng = np.random.default_rng(elements)
    arrays = [rng.uniform(-3, 3, elements).astype(dtype_of(source))]
    arrays += [np.zeros(elements, dtype_of(buffer.type)) for buffer in kernel.buffers[1:]]
    check(kernel, arrays, rtol=1e-5, atol=1e-5, threads=(1,))


@pytest.mark.parametrize("narrow", NARROW, ids=lambda type: type.value)
@pytest.mark.parametrize(("count", "elements"), [(1, 7), (5, 12), (17, 33), (34, 68)])
def test_outputs_of_mixed_types(check, count: int, elements: int, narrow: Type) -> None:
    run(check, count, Type.F64, elements, narrow)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", NARROW, ids=lambda type: type.value)
@pytest.mark.parametrize("source", [Type.F32, Type.F64], ids=lambda type: type.value)
def test_every_count_and_tail(check, source: Type, narrow: Type) -> None:
    for count, elements in product(range(1, 41), ELEMENTS):
        if (count + elements) % 5 == 0:
            run(check, count, source, elements, narrow)
