"""Products of any size by the kernel of their form: between poisoned margins, against NumPy."""

from __future__ import annotations

from itertools import product as combinations

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

from flambeau.native.jit.kernel_function import KernelFunction, compile_kernel
from flambeau.native.codegen.gemm import tile_kernel
from flambeau.native.codegen.kernel import emit
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.jit.object_code import compile_for
from flambeau.native.kernels.gemm import GemmForm, build_sized_product
from flambeau.native.jit.elf_loader import load_codes
from flambeau.native.loop_ir.ir import Type
from flambeau.native.loop_ir.printer import format_kernel
from flambeau.native.target.machine import TARGETS, emit_assembly, host

from ..conftest import poisoned, unharmed

LAYOUTS = list(combinations((True, False), repeat=2))
EXTENTS = [(1, 1, 1), (3, 2, 0), (0, 3, 2), (5, 24, 7), (4, 25, 64), (7, 23, 33), (31, 49, 17),
           (9, 8, 130), (64, 100, 50), (13, 65, 255)]


def operands(
    form: GemmForm, stack: tuple[int, ...], extents: tuple[int, int, int], pad: int
) -> tuple[list[np.ndarray], list[int], np.ndarray]:
    """a, b (and bias) with NaN between their rows, c; the sizes; what c is to be."""
    m, n, k = extents
    kind = np.dtype(ml_dtypes.bfloat16 if form.type is Type.BF16 else form.type.value)
    rng = np.random.default_rng(m * 101 + n * 11 + k)
    arrays, views = [], []
    for shape, along in (((m, k), form.a_along), ((n, k), form.b_along)):
        wide = np.full((*stack, *(shape if along else shape[::-1])), np.nan, kind)
        wide = np.concatenate([wide, np.full((*wide.shape[:-1], pad), np.nan, kind)], -1)
        values = rng.normal(size=(*stack, *shape)).astype(kind)
        wide[..., : shape[1] if along else shape[0]] = values if along else values.swapaxes(-1, -2)
        arrays.append(wide)
        views.append(values.astype(np.float64))
    wanted = views[0] @ views[1].swapaxes(-1, -2)
    sizes = [m, n, k, arrays[0].shape[-1], arrays[1].shape[-1]]
    steps = [m * n]
    for extent in reversed(stack[1:]):
        steps.insert(0, steps[0] * extent)
    for axis, step in zip(range(len(stack)), steps, strict=False):
        each = (int(np.prod(array.shape[axis + 1 :])) for array in arrays)
        sizes += [stack[axis], *each, step]
    if form.bias:
        arrays.append(rng.normal(size=n).astype(kind))
        wanted = wanted + arrays[-1].astype(np.float64)
    return [*arrays, np.full((*stack, m, n), 7, kind)], sizes, wanted


def check(
    form: GemmForm, stack: tuple[int, ...], extents: tuple[int, int, int], pad: int = 0
) -> None:
    """One product, on one thread and on several."""
    arrays, sizes, wanted = operands(form, stack, extents, pad)
    function = compile_kernel(build_sized_product(form))
    for threads in (1, 2, 5):
        memories = [poisoned(array) for array in arrays]
        function.run([inside for _, inside in memories], sizes, threads)
        assert all(unharmed(memory, inside.dtype.itemsize) for memory, inside in memories)
        actual = memories[-1][1].reshape(wanted.shape).astype(np.float64)
        loose = {Type.F64: 1e-13, Type.F32: 1e-5}.get(form.type, 0.01)
        np.testing.assert_allclose(actual, wanted, loose, loose * (extents[2] + 1) ** 0.5 * 4)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_edge(layout: tuple[bool, bool], near: bool) -> None:
    for extents in EXTENTS:
        check(GemmForm(Type.F32, *layout, near=near), (), extents, pad=3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_depth_is_cut(layout: tuple[bool, bool]) -> None:
    check(GemmForm(Type.F32, *layout), (), (10, 30, 4500))


def test_sums_of_a_cut_depth_are_kept_for_some_rows_at_a_time() -> None:
    check(GemmForm(Type.F32, True, False), (), (6200, 200, 1030))


@pytest.mark.parametrize("n", [10, 40, 100, 190, 500])
def test_the_tiles_of_a_group_ask_for_all_of_the_next_rows(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mark(b: ir.IRBuilder, place: ir.Value) -> None:
        b.store(ir.Constant(ir.FloatType(), 1.0), place, align=4)

    monkeypatch.setattr(tile_kernel, "_prefetch_line", mark)
    kernel, name = build_sized_product(GemmForm(Type.F32, True, False)), f"asking_{n}"
    address = load_codes({name: (name, *compile_for(kernel, name, host()))})[name]
    m, k, line = 31, 96, 16  # a depth whose rounds are shared out evenly
    a = np.zeros((m + 2 * line, k), np.float32)  # beyond the rows that there are is asked for too
    arrays = [a, np.ones((k, n), np.float32), np.empty((m, n), np.float32)]
    KernelFunction(kernel, name, address).run(arrays, [m, n, k, k, n])
    asked = a[:m].reshape(m, -1, line).any(-1)
    first = int(asked.any(-1).argmax())
    assert 0 < first < 10  # nobody asks for the first group's rows
    assert asked[first:].all()


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_rows_have_kernels_of_their_own(layout: tuple[bool, bool], rows: int) -> None:
    for n, k in ((1, 1), (24, 64), (50, 33), (7, 300)):
        check(GemmForm(Type.F32, *layout, rows=rows), (), (rows, n, k), pad=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_is_added(layout: tuple[bool, bool]) -> None:
    for extents in EXTENTS:
        check(GemmForm(Type.F32, *layout, bias=True), (), extents)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks(layout: tuple[bool, bool], near: bool) -> None:
    for stack in ((3,), (2, 3), (1, 5)):
        for extents in ((5, 24, 7), (31, 49, 17), (3, 0, 2)):
            check(GemmForm(Type.F32, *layout, len(stack), near=near), stack, extents, pad=2)


@pytest.mark.parametrize("type", [Type.F64, Type.F16, Type.BF16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_types(type: Type, layout: tuple[bool, bool]) -> None:
    check(GemmForm(type, *layout), (), (31, 49, 17))
    check(GemmForm(type, *layout, 1), (3,), (13, 20, 40))
    check(GemmForm(type, *layout, bias=True), (), (31, 49, 17))


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_code_for_it(name: str) -> None:
    for form in (
        GemmForm(Type.F32, True, True, bias=True),
        GemmForm(Type.F32, False, False, near=True),
    ):
        assert "products" in emit_assembly(emit(build_sized_product(form), TARGETS[name]),
                                           TARGETS[name])


def test_the_interpreter_says_the_same() -> None:
    form = GemmForm(Type.F32, True, False, 2, bias=True, near=True)
    arrays, sizes, wanted = operands(form, (2, 2), (3, 5, 4), 1)
    flat = [array.reshape(-1) for array in arrays]
    interpret(build_sized_product(form), flat, sizes)
    np.testing.assert_allclose(flat[-1].reshape(wanted.shape), wanted, 1e-5, 1e-5)
    assert "all near" in format_kernel(build_sized_product(form))
