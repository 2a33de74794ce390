"""Kernels on memory that ends, or begins, at a page that nobody may touch: nothing is read beyond.

In a process of their own: a read outside ends it.
"""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from itertools import product as combinations
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels import conv
from flambeau.native.kernels.byte_products import (
    ByteProductForm, build_byte_product, panel_columns, quantize_bytes,
)
from flambeau.native.kernels.gemm import GemmForm, build_sized_product
from flambeau.native.kernels.transpose import build_row_copy, build_transpose
from flambeau.native.kernels.softmax_and_layer_norm import reduce_rows
from flambeau.native.loop_ir.ir import ReduceOp, Type

from .test_implicit_gemm import placed
from .test_direct_conv import geometry, shapes
from .test_gemm import matrix_product

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect")
ROOT = Path(__file__).resolve().parents[3]
PAGE = mmap.PAGESIZE
LAYOUTS = list(combinations((True, False), repeat=2))
EXTENTS = [(3, 5, 7), (7, 23, 33), (31, 49, 17), (9, 8, 130), (14, 26, 64), (3, 17, 1)]
_live_blocks: list[mmap.mmap] = []


def fenced(array: np.ndarray, after: bool) -> np.ndarray:
    """A copy of an array that ends where a page of no access begins; or begins where one ends."""
    pages = -(-array.nbytes // PAGE) + 2
    memory = mmap.mmap(-1, pages * PAGE)
    _live_blocks.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages - 1):
        done = ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0)
        assert done == 0
    offset = (pages - 1) * PAGE - array.nbytes if after else PAGE
    inside = np.frombuffer(memory, array.dtype, array.size, offset)
    inside[...] = array.reshape(-1)
    return inside


def run(kernel, shapes: list[tuple[int, ...]], sizes: list[int], kind=np.float32) -> None:
    """The kernel's last buffer is its result, of ones that are multiplied."""
    function = compile_kernel(kernel)
    for after in (False, True):
        arrays = [fenced(np.ones(shape, kind), after) for shape in shapes]
        function.run(arrays, sizes, 2)
        assert np.isfinite(arrays[-1].astype(np.float32)).all()


def products() -> None:
    """Of every form, and of shapes that are known."""
    for layout, near in combinations(LAYOUTS, (False, True)):
        for m, n, k in EXTENTS:
            a, b = ((m, k) if layout[0] else (k, m)), ((n, k) if layout[1] else (k, n))
            sizes = [m, n, k, a[1], b[1]]
            run(build_sized_product(GemmForm(Type.F32, *layout, near=near)), [a, b, (m, n)], sizes)
            run(build_sized_product(GemmForm(Type.BF16, *layout, near=near)), [a, b, (m, n)], sizes,
                bfloat16)
    for layout, (m, n, k) in combinations(LAYOUTS, EXTENTS[:3]):
        a, b = ((m, k) if layout[0] else (k, m)), ((n, k) if layout[1] else (k, n))
        run(build_sized_product(GemmForm(Type.F32, *layout, rows=m)), [a, b, (m, n)],
            [m, n, k, a[1], b[1]])
        flipped = not layout[0], layout[1]
        run(matrix_product(m, n, k, flipped), [a, b, (m, n)], [])


def copies() -> None:
    """Of transposed arrays, by squares that are turned in registers."""
    for axes, inner, shape in ((2, 0, (9, 17)), (2, 0, (16, 8)), (3, 1, (2, 11, 19))):
        steps = [int(np.prod(shape[k + 1 :])) for k in range(axes)]
        apart = [1 if k == inner else steps[k] * shape[inner] // steps[inner] for k in range(axes)]
        apart[-1] = shape[inner]
        for k in range(inner):
            apart[k] = steps[k]
        sizes = [number for each in zip(shape, apart, steps, strict=True) for number in each]
        run(build_transpose(Type.F32, axes, inner), [shape, shape], sizes)


def rows_in_steps() -> None:
    """Copies and sums of rows whose elements lie two apart, backwards, or as far as is said."""
    for columns, after in combinations((1, 2, 7, 15, 16, 17, 31, 33, 64, 130), (False, True)):
        for of_x, of_y in ((2, 1), (1, 2), (2, 2), (-1, 1), (None, 1), (1, None), (0, 1)):
            steps = [3 if step is None else step for step in (of_x, of_y)]
            far = [max(1, abs(step)) * columns for step in steps]
            kernel = build_row_copy(Type.F32, of_x, of_y)
            x, y = (fenced(np.arange(2 * far[k] + abs(steps[k]) * (columns - 1) + 1.0, dtype="f"),
                           after) for k in (0, 1))
            y[...] = -1
            first = x[columns - 1 :] if of_x == -1 else x
            sizes = [columns, *[3 for step in (of_x, of_y) if step is None], *[1, 0, 0] * 3]
            compile_kernel(kernel).run([first, y], [*sizes, 3, *far], 2)
            each = [np.add.outer(np.arange(3) * far[k], np.arange(columns) * steps[k])
                    for k in (0, 1)]
            np.testing.assert_array_equal(y[each[1]], first[0] + each[0])
            assert np.count_nonzero(y == -1) == y.size - 3 * columns
        x, y = fenced(np.ones(6 * columns - 1, np.float32), after), np.empty(3, np.float32)
        compile_kernel(reduce_rows(Type.F32, ReduceOp.SUM, "same", 2)).run(
            [x, y], [3, columns, 2 * columns]
        )
        np.testing.assert_array_equal(y, columns)


def convolutions() -> None:
    """Of any size, in both layouts: each direction; windows from rows, two apart, gathered."""
    cases = ("primes", "narrow", "groups", "kernel beyond the image", "long strides", "strided",
             "strided between rows", "wide padding", "tiles across rows")
    for case, last in combinations(cases, (False, True)):
        g = geometry(case, last, last)
        x, w, y = shapes(g)
        windows, gradient = conv.build_window_sums(Type.F32), conv.weight(Type.F32)
        runs = [(windows, conv.plan_forward_calls, [x, w, (g.outputs,), y]),
                (windows, conv.plan_data_calls, [y, w, (g.channels,), x]),
                (gradient, conv.weight_calls, [x, y, w])]
        for (kernel, calls, each), after in combinations(runs, (False, True)):
            arrays = [fenced(np.ones(shape, np.float32), after) for shape in each]
            for call in calls(g):
                compile_kernel(kernel).run(placed(arrays, call), call.sizes, 2)
            assert np.isfinite(arrays[-1]).all()


def bytes_in_panels() -> None:
    """Products of bytes: full panels and one that is not, of few rows and of any number."""
    columns = panel_columns()
    forms = combinations((None, 3), (False, True), (False, True))
    for (rows, integers, whole), after in combinations(forms, (False, True)):
        for m, n, quads in ((3, 2 * columns, 5), (3, columns, 300), (3, columns - 1, 1)):
            if whole != (n % columns == 0) or m != (rows or m):
                continue
            form = ByteProductForm(columns, rows, False, integers, whole)
            panels = -(-n // columns)
            a = fenced(np.full((m, quads * 4), 1, np.uint8), after)
            b = fenced(np.full((panels, quads, columns, 4), 1, np.int8), after)
            each = [fenced(np.zeros(n, np.int32), after)]
            if not integers:
                each += [fenced(np.ones(n, np.float32), after), fenced(np.zeros(n, "f"), after)]
            c = fenced(np.zeros((m, n), np.int32 if integers else np.float32), after)
            sizes = [m, quads, n, panels, quads * columns, n]
            compile_kernel(build_byte_product(form)).run([a, b, *each, c], sizes, 2)
            np.testing.assert_array_equal(c, 4 * quads)
        x, y = fenced(np.ones((2, 37), "f"), after), fenced(np.zeros((2, 40), np.uint8), after)
        compile_kernel(quantize_bytes()).run([x, np.ones(2, np.float32), y], [2, 37, 40])


@pytest.mark.parametrize(
    "name", ["products", "copies", "rows_in_steps", "convolutions", "bytes_in_panels"])
def test_nothing_is_read_beyond(name: str) -> None:
    code = f"from tests.native.contractions import test_guard_pages; test_guard_pages.{name}()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"
