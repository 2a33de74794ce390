"""Matrix products: every transposition and edge, between poisoned margins, against NumPy."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from itertools import product as combinations

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.codegen.loops.work_partition import split_tiles
from flambeau.native.codegen.llvm.address import constant
from flambeau.native.loop_ir.ir import (
    Accumulator, Affine, Apply, Axis, Begin, Buffer, Constant, Contract, Expression, Index, Kernel,
    Load, Loop, LoopKind, ReduceOp, Scalar, Size, Statement, Store, Type,
)
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS, emit_assembly

from ..conftest import poisoned, unharmed

HALVES = (Type.F16, Type.BF16)
Epilogue = Callable[[Accumulator, Index, Index], tuple[Expression, list[Buffer]]]


def matrix_product(
    m: int, n: int, k: int, flipped: tuple[bool, bool] = (False, False), type: Type = Type.F32,
    batch: int = 0, epilogue: Epilogue | None = None, sized: bool = False, pad: int = 0,
) -> Kernel:
    """c = a @ b; `flipped`: which operands lie transposed. `pad`: elements between rows."""
    row, column, depth, number = (Index(name) for name in "ijkp")
    total = Type.F32 if type in HALVES else type
    a, b, c = Buffer(type, "a"), Buffer(type, "b"), Buffer(total, "c")
    shapes = [(k, m) if flipped[0] else (m, k), (n, k) if flipped[1] else (k, n), (m, n)]
    extents, widths, sizes = [m, n, k], [s[1] + pad for s in shapes], []
    if sized:
        sizes = [Size(name) for name in ("m", "n", "k", "a_row", "b_row", "c_row")]
        extents, widths = sizes[:3], sizes[3:]
    pairs = [(depth, row) if flipped[0] else (row, depth),
             (column, depth) if flipped[1] else (depth, column), (row, column)]
    places = []
    for (outer, inner), width, shape in zip(pairs, widths, shapes, strict=True):
        terms = ((outer, width), (inner, 1))
        places.append(((number, shape[0] * (shape[1] + pad)), *terms) if batch else terms)
    sums = Accumulator(ReduceOp.SUM, total)
    value, extra = epilogue(sums, row, column) if epilogue else (sums, [])
    contract: Statement = Contract(
        (Axis(row, extents[0]),), Axis(column, extents[1]), (Axis(depth, extents[2]),),
        Load(a, Affine(0, places[0])), Load(b, Affine(0, places[1])), sums,
        [Store(c, Affine(0, places[2]), value)],
    )
    body = [Loop(number, batch, [contract], LoopKind.PARALLEL)] if batch else [contract]
    return Kernel("product", [a, b, c, *extra], body, sizes)


def dtype(type: Type) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if type is Type.BF16 else type.value)


def check(
    m: int, n: int, k: int, flipped: tuple[bool, bool] = (False, False), type: Type = Type.F32,
    batch: int = 0, epilogue: Epilogue | None = None, sized: bool = False, pad: int = 0,
    threads: int = 1, finish: Callable[..., np.ndarray] = lambda y: y,
) -> None:
    """Runs a product on numbers between poisoned margins and compares with float64."""
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    kernel = matrix_product(m, n, k, flipped, type, batch, epilogue, sized, pad)
    function = compile_kernel(kernel)
    exact, stored = [], []
    for shape, turn in zip(((m, k), (k, n)), flipped, strict=True):
        values = (rng.normal(size=(max(batch, 1), *shape)) * 4).astype(dtype(type))
        exact.append(values.astype(np.float64))
        values = values.swapaxes(1, 2) if turn else values
        wide = np.full((*values.shape[:2], values.shape[2] + pad), -1).astype(dtype(type))
        wide.view(np.uint8)[...] = 0xFF  # NaN between the rows too
        wide[..., : values.shape[2]] = values
        stored.append(wide)
    extra = [rng.normal(size=n).astype(np.float32) for _ in kernel.buffers[3:]]
    out = np.full((max(batch, 1), m, n + pad), 7, dtype(kernel.buffers[2].type))
    memories = [poisoned(x) for x in (*stored, out, *extra)]
    sizes = [m, n, k, stored[0].shape[2], stored[1].shape[2], n + pad] if sized else []
    function.run([inside for _, inside in memories], sizes, threads)
    for memory, inside in memories:
        assert unharmed(memory, inside.dtype.itemsize)
    actual = memories[2][1].reshape(out.shape)
    assert (actual[..., n:] == 7).all()
    wanted = finish(exact[0] @ exact[1], *extra)
    scale = 2e-6 * (16 * np.sqrt(k + 1) + 1)
    if type is Type.F64:
        scale *= 1e-8
    np.testing.assert_allclose(actual[..., :n].astype(np.float64), wanted, 1e-5, scale)


def bias_relu(sums: Accumulator, row: Index, column: Index) -> tuple[Expression, list[Buffer]]:
    bias = Buffer(Type.F32, "bias")
    value = Apply(Scalar.ADD, (sums, Load(bias, Affine(0, ((column, 1),)))), Type.F32)
    return Apply(Scalar.MAXIMUM, (value, Constant(Type.F32, 0.0)), Type.F32), [bias]


def bias_tanh(sums: Accumulator, row: Index, column: Index) -> tuple[Expression, list[Buffer]]:
    bias = Buffer(Type.F32, "bias")
    value = Apply(Scalar.ADD, (sums, Load(bias, Affine(0, ((column, 1),)))), Type.F32)
    return Apply(Scalar.TANH, (value,), Type.F32), [bias]


FLIPS = list(combinations((False, True), repeat=2))
SHAPES = [(1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 50, 7), (50, 1, 7), (8, 48, 16),
          (9, 49, 17), (7, 47, 15), (13, 10, 100), (33, 65, 31), (17, 129, 64)]


@pytest.mark.parametrize("flipped", FLIPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_known_extents(shape: tuple[int, int, int], flipped: tuple[bool, bool]) -> None:
    check(*shape, flipped)
    check(*shape, flipped, threads=3)


@pytest.mark.parametrize("flipped", FLIPS)
@pytest.mark.parametrize("shape", [*SHAPES, (100, 100, 2100), (70, 20, 4500)])
def test_extents_that_only_the_call_knows(
    shape: tuple[int, int, int], flipped: tuple[bool, bool]
) -> None:
    check(*shape, flipped, sized=True)
    check(*shape, flipped, sized=True, threads=4)


@pytest.mark.parametrize("flipped", FLIPS)
def test_a_long_depth_is_cut(flipped: tuple[bool, bool]) -> None:
    check(5, 3, 5003, flipped)
    check(20, 100, 4096, flipped, threads=2)


@pytest.mark.parametrize("flipped", FLIPS)
def test_operands_that_are_packed(flipped: tuple[bool, bool]) -> None:
    check(300, 200, 520, flipped)
    check(97, 70, 130, flipped, pad=30)
    check(41, 70, 37, flipped, pad=3, sized=True)


@pytest.mark.parametrize("shape", [(1, 10, 784), (2, 17, 33), (3, 8, 16), (5, 3, 5), (6, 1, 64),
                                   (7, 40, 130), (13, 33, 200), (23, 9, 300)])
def test_few_rows_are_dot_products(shape: tuple[int, int, int]) -> None:
    check(*shape, (False, True))
    check(*shape, (False, True), threads=3, pad=5)
    check(*shape, (False, True), epilogue=bias_tanh, finish=lambda y, b: np.tanh(y + b))


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("flipped", FLIPS)
@pytest.mark.parametrize("type", [Type.F64, Type.F16, Type.BF16])
def test_types(type: Type, flipped: tuple[bool, bool], sized: bool) -> None:
    check(17, 35, 29, flipped, type, sized=sized)


@pytest.mark.parametrize("type", [Type.I8, Type.U8, Type.I32, Type.I64])
def test_integers_wrap(type: Type) -> None:
    kernel = matrix_product(5, 21, 40, type=type)
    rng = np.random.default_rng(0)
    info = np.iinfo(type.value)
    a, b = (rng.integers(info.min, info.max, shape, dtype(type), endpoint=True)
            for shape in ((5, 40), (40, 21)))
    c = np.empty((5, 21), dtype(type))
    compile_kernel(kernel).run([a, b, c])
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("flipped", FLIPS)
def test_batches(flipped: tuple[bool, bool]) -> None:
    check(17, 35, 20, flipped, batch=5)
    check(32, 64, 32, flipped, batch=3, threads=2)
    check(64, 130, 300, flipped, batch=2, threads=2)


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("shape", [(8, 48, 16), (12, 32, 16), (17, 53, 29), (3, 5, 0)])
def test_epilogues(shape: tuple[int, int, int], sized: bool) -> None:
    check(*shape, epilogue=bias_relu, sized=sized, finish=lambda y, b: np.maximum(y + b, 0))
    check(*shape, epilogue=bias_tanh, sized=sized, finish=lambda y, b: np.tanh(y + b))


def test_an_epilogue_runs_once_for_each_element_where_it_adds() -> None:
    kernel = matrix_product(19, 37, 11)
    contract = kernel.body[0]
    assert isinstance(contract, Contract)
    store = contract.body[0]
    assert isinstance(store, Store)
    store.add = True
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(19, 11)).astype("f"), rng.normal(size=(11, 37)).astype("f")
    c = np.ones((19, 37), "f")
    compile_kernel(kernel).run([a, b, c], threads=3)
    np.testing.assert_allclose(c, 1 + a @ b, 1e-5, 1e-5)


def loops(text: str) -> list[list[str]]:
    """The instructions of each innermost loop: from a label to the branch back to it."""
    lines = [line.strip() for line in text.splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.match(r"\.L\w+:$", line)}
    bodies = []
    for i, line in enumerate(lines):
        jump = re.match(r"(?:j\w+|b\.\w+|cbn?z\s+\w+,|tbn?z\s.*,)\s+(\.L\w+)$", line)
        if jump and labels.get(jump[1], i) < i:
            body = lines[labels[jump[1]] + 1 : i + 1]
            if not any(re.match(r"\.L\w+:$", line) for line in body):
                bodies.append(body)
    return bodies


@pytest.mark.parametrize(("name", "fma", "stack"), [
    ("avx512", "vfmadd", r"\(%rsp\)"), ("avx2", "vfmadd", r"\(%rsp\)"),
    ("neon", "fmla", r"\[sp(, #\d+)?\]"),
])
@pytest.mark.parametrize("flipped", FLIPS)
def test_inner_loops_keep_their_sums_in_registers(
    name: str, fma: str, stack: str, flipped: tuple[bool, bool]
) -> None:
    target = TARGETS[name]
    text = emit_assembly(emit(matrix_product(96, 96, 96, flipped), target), target)
    inner = [loop for loop in loops(text) if any(fma in line for line in loop)]
    assert inner
    for loop in inner:
        assert sum(fma in line for line in loop) >= 8
        assert not [line for line in loop if re.search(stack, line)]


def test_a_vector_times_a_matrix() -> None:
    for flip in (False, True):
        kernel = matrix_product(1, 37, 50, (False, flip))
        contract = kernel.body[0]
        assert isinstance(contract, Contract)
        contract.rows = ()
        store = contract.body[0]
        assert isinstance(store, Store)
        contract.a.at = Affine(0, contract.a.at.terms[1:])
        store.at = Affine(0, store.at.terms[1:])
        rng = np.random.default_rng(0)
        a = rng.normal(size=50).astype("f")
        b = rng.normal(size=(37, 50) if flip else (50, 37)).astype("f")
        c = np.empty(37, "f")
        compile_kernel(kernel).run([a, b, c], threads=2)
        np.testing.assert_allclose(c, a @ (b.T if flip else b), 1e-4, 1e-4)


def stepped(m: int, n: int, k: int, flipped: tuple[bool, bool] = (True, False)) -> Kernel:
    """A weight's gradient c = a.T @ b, and the update w -= s * c that is made with it."""
    kernel = matrix_product(m, n, k, flipped)
    contract = kernel.body[0]
    assert isinstance(contract, Contract)
    store = contract.body[0]
    assert isinstance(store, Store)
    weight, rate = Buffer(Type.F32, "w"), Buffer(Type.F64, "s")
    step = Apply(Scalar.CAST, (Load(rate, Affine(0)),), Type.F32)
    scaled = Apply(Scalar.MUL, (store.value, step), Type.F32)
    new, at = Accumulator(ReduceOp.SUM, Type.F32), store.at
    value = Apply(Scalar.SUB, (Load(weight, at), scaled), Type.F32)
    contract.body = [Begin(new, value), store, Store(weight, at, new)]
    kernel.buffers.extend([weight, rate])
    return kernel


@pytest.mark.parametrize("shape", [(130, 300, 20), (200, 330, 65), (96, 1030, 8)])
def test_a_gradient_and_the_update_of_its_weight(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b, c, w = (rng.normal(size=size).astype("f") for size in (
        (k, m), (k, n), (m, n), (m, n)))
    memories = [poisoned(x) for x in (a, b, c, w, np.array([0.25]))]
    compile_kernel(stepped(m, n, k)).run([inside for _, inside in memories], threads=2)
    for memory, inside in memories:
        assert unharmed(memory, inside.dtype.itemsize)
    np.testing.assert_allclose(memories[2][1].reshape(m, n), a.T @ b, 1e-4, 1e-4)
    np.testing.assert_allclose(memories[3][1].reshape(m, n), w - a.T @ b * 0.25, 1e-4, 1e-4)


def test_matrices_that_an_epilogue_reads_are_fetched_ahead() -> None:
    """Where they are too large to be near; one that is only written is waited for by nobody."""
    def fetched(kernel: Kernel, cache: int = 3) -> int:
        calls = rf"call void @.?llvm.prefetch.*i32 {cache}, i32 1\)"
        return len(re.findall(calls, emit(kernel, TARGETS["avx512"])))

    assert fetched(stepped(160, 480, 16))
    assert not fetched(stepped(32, 48, 16))
    assert not fetched(matrix_product(160, 480, 16, (True, False)))
    # What is packed is asked for too, where it is far.
    assert fetched(matrix_product(128, 512, 768, (True, False)), 2)
    assert not fetched(matrix_product(128, 64, 96, (True, False)), 2)


def test_what_is_the_same_for_all_elements_is_computed_once() -> None:
    text = emit(stepped(96, 96, 16), TARGETS["avx512"])
    assert len(re.findall(r"load double", text)) == 1


@pytest.mark.parametrize(("groups", "panels", "costs", "across"), [
    (8, 8, (1, 0, 0), 2), (8, 1, (1, 0, 0), 1), (4, 4, (24, 48, 8), 2), (24, 11, (24, 2, 1), 1),
    (22, 8, (24, 64, 6), 2), (85, 2, (24, 6, 640), 1),
])
def test_threads_stand_where_they_have_least_to_do(
    groups: int, panels: int, costs: tuple[int, int, int], across: int
) -> None:
    module = ir.Module()
    kind = ir.FunctionType(ir.IntType(64), [])
    b = ir.IRBuilder(ir.Function(module, kind, "two").append_basic_block())
    tiles = split_tiles(b, constant(1), constant(2), constant(groups), constant(panels), costs)
    b.ret(tiles.first_panel)
    address = load(str(module), ["two"])["two"]
    first = ctypes.CFUNCTYPE(ctypes.c_int64)(address)()
    assert (first > 0) == (across == 2)


def test_an_update_counts_denormal_numbers_as_zero_and_nothing_else_does() -> None:
    """A weight's moments shrink to such numbers where it has no gradient, at a high price."""
    tiny = np.float32(1e-40)
    a, b, c, w = (np.full(size, tiny) for size in ((4, 8), (4, 48), (8, 48), (8, 48)))
    rate = np.array([1.0])
    compile_kernel(stepped(8, 48, 4)).run([a, b, c, w, rate])
    assert (w == 0).all()
    assert tiny * np.float32(0.5) != 0  # as before outside
    ones = np.ones((8, 4), "f")
    compile_kernel(matrix_product(8, 48, 4)).run([ones, b, c])
    np.testing.assert_array_equal(c, 4 * tiny)
