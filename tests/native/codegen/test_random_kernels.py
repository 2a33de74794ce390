"""Kernels that hypothesis makes up: nests of loops over rows and columns, with stages in a row."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.native.jit.kernel_function import KernelFunction, compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.numpy_forms import dtype_of
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Begin, Buffer, Constant, Expression, Extent, Index, IndexValue,
    Kernel, Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type, Update,
)
from flambeau.native.loop_ir.printer import format_kernel
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS, emit_assembly
from flambeau.native.loop_ir.verify import verify

BOOL, I64 = Type.BOOL, Type.I64
COMPARISONS = (Scalar.LT, Scalar.GE, Scalar.EQ, Scalar.NE)
BINARY = (Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.MAXIMUM, Scalar.MINIMUM)
UNARY = (Scalar.NEG, Scalar.ABS)
MARGIN = 70


class Maker:
    """Draws a kernel over `rows` x `columns`, and arrays for its arguments."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rows, self.columns = random.choice([1, 2, 5]), random.choice([1, 3, 16, 21, 40, 70])
        self.type = random.choice([Type.F32, Type.F64, Type.I32, Type.I64])
        self.buffers: list[Buffer] = []
        self.arrays: list[np.ndarray] = []
        self.sizes: list[Size] = []
        self.values: list[int] = []
        self.row = Index("row")
        self.local: Buffer | None = None
        self.sums: list[Accumulator] = []

    def extent(self, value: int) -> Extent:
        """A number, or a size that has it when the kernel runs."""
        if self.random.random() < 0.7:
            return value
        self.sizes.append(Size("n"))
        self.values.append(value)
        return self.sizes[-1]

    def buffer(self, type: Type, count: int) -> Buffer:
        buffer = Buffer(type, f"b{len(self.buffers)}")
        whole = np.array([self.random.randint(-8, 8) for _ in range(31)])
        values = np.resize(whole * 0.25 if type.floating else whole, count)
        self.buffers.append(buffer)
        self.arrays.append(values.astype(dtype_of(type)))
        return buffer

    def load(self, column: Index) -> Expression:
        """An element of the kernel's type, at one of many kinds of place."""
        rows, columns, row = self.rows, self.columns, self.row
        kind = self.random.choice(["full", "row", "column", "turned", "across", "taken", "masked"])
        type = self.random.choice([self.type, self.type, Type.F16, Type.U8, Type.BF16])
        indirect: tuple = ()
        mask = None
        count = rows * columns
        at = Affine(0, ((row, self.extent(columns)), (column, 1)))
        if kind == "row":
            at, count = Affine(0, ((row, 1),)), rows
        elif kind == "column":
            at, count = Affine(0, ((column, 1),)), columns
        elif kind == "turned":
            at = Affine(columns - 1, ((row, columns), (column, -1)))
        elif kind == "across":
            at = Affine(0, ((row, 1), (column, self.extent(rows))))
        elif kind == "taken":
            places = self.buffer(I64, columns)
            self.arrays[-1] = np.abs(self.arrays[-1]) % columns
            indirect = ((Load(places, Affine(0, ((column, 1),))), 1),)
            at, count = Affine(0, ((row, columns),)), rows * columns
        elif kind == "masked":
            position = IndexValue(Affine(0, ((self.random.choice([row, column]), 1),)))
            limit = Constant(I64, self.random.randint(-1, 22))
            mask = Apply(self.random.choice(COMPARISONS), (position, limit), BOOL)
        buffer = self.buffer(type, count)
        value: Expression = Load(buffer, at, indirect, mask)
        return value if type is self.type else Apply(Scalar.CAST, (value,), self.type)

    def expression(self, column: Index, depth: int) -> Expression:
        choice = self.random.random()
        if depth == 0 or choice < 0.2:
            return self.leaf(column)
        if choice < 0.35:
            scalar = self.random.choice(UNARY)
            return Apply(scalar, (self.expression(column, depth - 1),), self.type)
        if choice < 0.5:
            pair = (self.load(column), self.load(column))
            test = Apply(self.random.choice(COMPARISONS), pair, BOOL)
            shared = self.expression(column, depth - 1)
            other = Apply(Scalar.ADD, (shared, self.leaf(column)), self.type)
            return Apply(Scalar.WHERE, (test, shared, other), self.type)
        operation = self.random.choice(BINARY)
        operands = self.expression(column, depth - 1), self.expression(column, depth - 1)
        return Apply(operation, operands, self.type)

    def leaf(self, column: Index) -> Expression:
        choice = self.random.random()
        if choice < 0.15:
            return Constant(self.type, self.random.randint(-3, 3))
        if choice < 0.25:
            position = IndexValue(Affine(self.random.randint(-2, 2), ((self.row, 1), (column, 3))))
            return Apply(Scalar.CAST, (position,), self.type)
        if choice < 0.45 and self.sums:
            return self.random.choice(self.sums)
        if choice < 0.55 and self.local is not None:
            return Load(self.local, Affine(0, ((column, 1),)))
        return self.load(column)

    def stage(self, number: int) -> list[Statement]:
        """One loop over the columns: a reduction, or stores."""
        column = Index(f"column{number}")
        kind = self.random.choice([LoopKind.VECTORIZED, LoopKind.VECTORIZED, LoopKind.SERIAL])
        value = self.expression(column, 3)
        if self.random.random() < 0.5:
            fold = self.random.choice([ReduceOp.SUM, ReduceOp.MAXIMUM, ReduceOp.MINIMUM])
            total = Accumulator(fold, self.type, f"sum{number}")
            body: list[Statement] = [Update(total, value)]
            before: list[Statement] = [Begin(total)]
            after = total
        else:
            out = self.buffer(self.type, self.rows * self.columns)
            where = Affine(0, ((self.row, self.columns), (column, 1)))
            body = [Store(out, where, value, add=self.random.random() < 0.3)]
            if self.local is None and self.random.random() < 0.5:
                self.local = Buffer(self.type, "local", local=self.columns)
                body.append(Store(self.local, Affine(0, ((column, 1),)), value))
            before, after = [], None
        loop = Loop(column, self.extent(self.columns), body, kind)
        if after is not None:
            self.sums.append(after)
        return [*before, loop]

    def kernel(self) -> Kernel:
        body = [statement for number in range(self.random.randint(1, 3))
                for statement in self.stage(number)]
        if self.sums:
            out = self.buffer(self.type, self.rows)
            body.append(Store(out, Affine(0, ((self.row, 1),)), self.sums[-1]))
        kind = self.random.choice([LoopKind.PARALLEL, LoopKind.SERIAL])
        nest = Loop(self.row, self.extent(self.rows), body, kind)
        return Kernel("made", self.buffers, [nest], self.sizes)


def guarded(array: np.ndarray) -> np.ndarray:
    memory = np.full((array.size + 2 * MARGIN) * array.itemsize, 0xFF, np.uint8)
    memory.view(array.dtype)[MARGIN : MARGIN + array.size] = array
    return memory.view(array.dtype)


def run_guarded(maker: Maker, kernel: Kernel, run: Callable[[list[np.ndarray]], None]) -> None:
    """Runs a kernel between margins; its memories are the interpreter's."""
    expected = [array.copy() for array in maker.arrays]
    interpret(kernel, expected, maker.values)
    memories = [guarded(array) for array in maker.arrays]
    inside = [memory[MARGIN:-MARGIN] for memory in memories]
    run(inside)
    for memory, actual, want in zip(memories, inside, expected, strict=True):
        edges = np.concatenate([memory[:MARGIN], memory[-MARGIN:]]).view(np.uint8)
        assert (edges == 0xFF).all(), format_kernel(kernel)
        with np.errstate(all="ignore"):
            scale = 1e-5 * (1 + np.abs(want.astype(np.float64)).max(initial=0))
        np.testing.assert_allclose(actual.astype(np.float64), want.astype(np.float64), 1e-5, scale)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_kernels(random: Random) -> None:
    maker = Maker(random)
    kernel = maker.kernel()
    counts = {b: a.size for b, a in zip(kernel.buffers, maker.arrays, strict=True)}
    verify(kernel, counts)
    function = compile_kernel(kernel)
    run_guarded(maker, kernel, lambda arrays: function.run(arrays, maker.values, threads=2))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_kernels_for_narrower_vectors(random: Random) -> None:
    """As they are made for AVX2, with what is left over one by one; they run here too."""
    maker = Maker(random)
    kernel = maker.kernel()
    text = emit(kernel, TARGETS["avx2"], name="narrow")
    function = KernelFunction(kernel, "narrow", load(text, ["narrow"])["narrow"])
    run_guarded(maker, kernel, lambda arrays: function.run(arrays, maker.values))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_random_kernels_become_assembly_for_every_target(random: Random, name: str) -> None:
    assert "made" in emit_assembly(emit(Maker(random).kernel(), TARGETS[name]), TARGETS[name])
