"""Convolutions whose sizes are known at run time, against NumPy and the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.kernels import conv as any_conv, conv_static
from flambeau.native.kernels.conv import KernelCall
from flambeau.native.loop_ir.ir import Kernel, Type

from ..conftest import poisoned, unharmed
from .test_direct_conv import CASES, expected, geometry, laid, shapes

# beside those of test_conv
MORE = {
    "a panel": ((1, 6, (4, 4), 6, (3, 3)), {}),
    "a panel and one": ((1, 7, (1, 17), 7, (1, 3)), {"padding": (0, 1)}),
    "narrow": ((5, 4, (3, 2), 9, (3, 3)), {}),
    "rows of a vector less one": ((4, 9, (5, 7), 12, (3, 3)), {}),
    "several blocks": ((3, 5, (30, 31), 20, (3, 3)), {}),
    "kernel beyond the image": ((2, 3, (4, 5), 7, (7, 7)), {"padding": (3, 3)}),
    "long strides": ((2, 3, (17, 23), 5, (3, 3)), {"stride": (4, 5), "padding": (2, 0)}),
    "every second element": ((3, 4, (13, 33), 10, (3, 3)), {"stride": (1, 2)}),
    "strided between rows": ((3, 4, (9, 17), 10, (5, 5)), {"stride": (2, 2), "padding": (3, 2)}),
    "dilated and strided": ((2, 4, (15, 16), 8, (3, 3)), {"dilation": (3, 2), "stride": (2, 3)}),
    "two groups": ((3, 6, (8, 9), 14, (3, 3)), {"groups": 2, "stride": (2, 1)}),
    "many groups": ((2, 12, (8, 8), 12, (3, 3)), {"groups": 6}),
}
CASES.update(MORE)
LAYOUTS = [(False, False), (True, True), (True, False)]


def placed(arrays: list[np.ndarray], call: KernelCall) -> list[np.ndarray]:
    return [array[at:] for array, at in zip(arrays, call.places, strict=True)]


def check(kernel: Kernel, calls: list[KernelCall], arrays: list[np.ndarray], want: np.ndarray,
          threads: int) -> None:
    """Runs calls between poison: the last array becomes `want`, the others stay."""
    function = compile_kernel(kernel)
    memories = [poisoned(a) for a in [*arrays, np.full(want.size, np.nan, arrays[0].dtype)]]
    for call in calls:
        function.run(placed([inside for _, inside in memories], call), call.sizes, threads)
    for (memory, inside), array in zip(memories, [*arrays, want], strict=True):
        assert unharmed(memory, inside.dtype.itemsize)
        near = (1e-5 if inside.itemsize == 4 else 1e-12) * max(float(np.abs(array).max()), 1e-6)
        np.testing.assert_allclose(inside, array, 0, near)


@pytest.mark.parametrize("last", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_all_shapes_take_the_same_kernels(case: str, last: tuple[bool, bool]) -> None:
    g = geometry(case, *last)
    rng = np.random.default_rng(1)
    x, w, gy = (rng.normal(size=s).astype(np.float32) for s in shapes(g))
    bias, none = rng.normal(size=g.outputs).astype(np.float32), np.zeros(g.channels, np.float32)
    y, gx, gw = expected(g, x, w, gy)
    images, weight = [laid(a, last[0]) for a in (x, gy)], laid(w, last[1])
    shifted = laid(y + bias[:, None, None], last[0])
    for grouped, threads in ((False, 1), (False, 3), (True, 2)):
        windows, gradient = any_conv.build_window_sums(Type.F32, grouped), any_conv.weight(Type.F32,
                                                                                           grouped)
        forward, data, back = (list(calls(g, grouped)) for calls in (
            any_conv.plan_forward_calls, any_conv.plan_data_calls, any_conv.weight_calls))
        check(windows, forward, [images[0], weight, bias], shifted, threads)
        check(windows, data, [images[1], weight, none], laid(gx, last[0]), threads)
        check(gradient, back, images, laid(gw, last[1]), threads)


@pytest.mark.parametrize("case", ["primes", "strides apart", "groups", "narrow"])
def test_double_precision(case: str) -> None:
    g = replace(geometry(case, False, False), type=Type.F64)
    rng = np.random.default_rng(2)
    x, w, gy = (rng.normal(size=s) for s in shapes(g))
    y, gx, gw = (array.reshape(-1) for array in expected(g, x, w, gy))
    x, w, gy = (array.reshape(-1) for array in (x, w, gy))
    windows, none = any_conv.build_window_sums(Type.F64), np.zeros(max(g.channels, g.outputs))
    check(windows, list(any_conv.plan_forward_calls(g)), [x, w, none], y, 2)
    check(windows, list(any_conv.plan_data_calls(g)), [gy, w, none], gx, 2)
    check(any_conv.weight(Type.F64), list(any_conv.weight_calls(g)), [x, gy], gw, 2)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_what_the_interpreter_gives(grouped: bool, last: bool) -> None:
    """It defines what the kernels mean."""
    spatial, kernel, output = (5, 4), (2, 3), (2, 4)
    sizes = [(2, 4, *spatial), (6, 2, *kernel), (2, 6, *output)]
    g = conv_static.Geometry(Type.F32, 2, 4, spatial, 6, output, kernel, (2, 1), (0, 1), (2, 1), 2,
                             *[conv_static.strides_of(shape, last) for shape in sizes])
    rng = np.random.default_rng(3)
    x, w, gy = (rng.normal(size=s).astype(np.float32) for s in sizes)
    bias = np.zeros(6, np.float32)
    y, gx, gw = expected(g, x, w, gy)
    windows, gradient = any_conv.build_window_sums(Type.F32, grouped), any_conv.weight(Type.F32,
                                                                                       grouped)
    a, b, c = (laid(array, last) for array in (x, w, gy))
    for kernel_, calls, inputs, want in (
        (windows, any_conv.plan_forward_calls, [a, b, bias], y),
        (windows, any_conv.plan_data_calls, [c, b, bias], gx),
        (gradient, any_conv.weight_calls, [a, c], gw),
    ):
        memories = [*inputs, np.zeros(want.size, np.float32)]
        for call in calls(g, grouped):
            interpret(kernel_, placed(memories, call), call.sizes)
        np.testing.assert_allclose(memories[-1], laid(want, last), 1e-4, 1e-5)
