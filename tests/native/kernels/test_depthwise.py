"""Depthwise convolutions of any size against NumPy in float64 and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels import conv_static, depthwise_nhwc, depthwise_plan
from flambeau.native.loop_ir.ir import Type
from flambeau.ops.spatial import depthwise_nhwc as depthwise_last
from flambeau.ops.spatial.conv_reference import Window
from flambeau.ops.spatial.pooling.pool_native import list_pixel_sizes

from ..conftest import poisoned, unharmed
from ..contractions.test_direct_conv import expected, shapes

# images, channels, (h, w), outputs of each, kernel; then stride, padding, dilation
CASES = {
    "padded": ((2, 5, (9, 37), 1, (3, 3)), {}),
    "one of all": ((1, 2, (1, 1), 1, (1, 1)), {"padding": (0, 0)}),
    "many images": ((37, 3, (7, 7), 1, (3, 3)), {}),
    "strided": ((2, 6, (9, 40), 2, (3, 3)), {"stride": (2, 2)}),
    "strides apart": ((3, 2, (13, 11), 1, (5, 4)), {"stride": (3, 1), "padding": (2, 0)}),
    "long strides": ((2, 2, (17, 23), 3, (3, 3)), {"stride": (4, 5), "padding": (2, 0)}),
    "dilated": ((1, 3, (12, 35), 1, (3, 2)), {"padding": (2, 1), "dilation": (2, 3)}),
    "dilated, few": ((1, 2, (5, 6), 1, (3, 2)), {"padding": (2, 1), "dilation": (2, 3)}),
    "dilated and strided": ((2, 2, (15, 16), 1, (3, 3)), {"dilation": (3, 2), "stride": (2, 3)}),
    "beyond the stride": ((1, 2, (6, 9), 1, (1, 2)), {"stride": (3, 3), "padding": (0, 0)}),
    "beyond the image": ((2, 2, (4, 5), 1, (7, 7)), {"padding": (3, 3)}),
    "wide padding": ((1, 2, (3, 3), 2, (2, 3)), {"padding": (4, 5)}),
    "several blocks": ((2, 2, (90, 83), 1, (3, 5)), {"padding": (1, 2)}),
    "several blocks of strides": ((1, 2, (190, 83), 1, (3, 5)), {"stride": (2, 3)}),
    "long lines": ((1, 3, (1, 7001), 1, (1, 9)), {"padding": (0, 4)}),
    "long lines, strided": ((1, 2, (1, 7001), 2, (1, 9)), {"padding": (0, 4), "stride": (1, 2)}),
}
SMALL = ["one of all", "dilated, few", "beyond the stride", "wide padding"]


def geometry(case: str, type: Type) -> conv_static.Geometry:
    return sized(type, *CASES[case])


def sized(type: Type, shape: tuple, settings: dict) -> conv_static.Geometry:
    batch, channels, spatial, each, kernel = shape
    settings = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), **settings}
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, kernel, settings["stride"], settings["padding"],
                                 settings["dilation"], strict=True)
    )
    outputs = channels * each
    sizes = ((batch, channels, *spatial), (outputs, 1, *kernel), (batch, outputs, *output))
    x, weight, y = (conv_static.strides_of(size, False) for size in sizes)
    return conv_static.Geometry(type, batch, channels, spatial, outputs, output, kernel, **settings,
                                groups=channels, x=x, weight=weight, y=y)


def passes(g: conv_static.Geometry):
    """Each direction: its call, the arrays that it takes around the table, and what it gives."""
    rng, kind = np.random.default_rng(4), np.dtype(g.type.value)
    x, w, gy = (rng.normal(size=s).astype(kind) for s in shapes(g))
    bias, zeros = rng.normal(size=g.outputs).astype(kind), np.zeros(g.channels, kind)
    y, gx, gw = expected(g, x, w, gy)
    yield depthwise_plan.plan_forward(g), [x, w, bias], y + bias[:, None, None]
    yield depthwise_plan.plan_backward_data(g), [gy, w, zeros], gx
    yield depthwise_plan.plan_backward_weight(g), [x, gy], gw


@pytest.mark.parametrize("type", [Type.F32, Type.F64])
@pytest.mark.parametrize("case", CASES)
def test_directions(case: str, type: Type) -> None:
    g = geometry(case, type)
    near = 2e-5 if type is Type.F32 else 1e-12
    for call, (x, *others), want in passes(g):
        function = compile_kernel(call.builder(type, call.step))
        inputs = [x, call.offsets, *others]
        for threads in (1, 3):
            empty = np.full(want.size, np.nan, x.dtype)
            memories = [poisoned(a) for a in [*inputs, empty]]
            function.run([inside for _, inside in memories], call.sizes, threads)
            for (memory, inside), array in zip(memories, [*inputs, want], strict=True):
                assert unharmed(memory, inside.dtype.itemsize)
                np.testing.assert_allclose(inside, array.reshape(-1), 0, near * np.abs(want).max())


LAST = [name for name, case in CASES.items() if case[0][3] == 1 and "long" not in name]


@pytest.mark.parametrize("case", LAST)
def test_channels_innermost(check, case: str) -> None:
    """More channels than a vector has, and the interpreter's results where there is little."""
    (batch, _, spatial, _, kernel), settings = CASES[case]
    channels = 35 if case != "several blocks" else 3
    g = sized(Type.F32, (batch, channels, spatial, 1, kernel), settings)
    sizes = zip(g.stride, g.output, g.dilation, kernel, spatial, g.padding, strict=True)
    ends = [s * (o - 1) + d * (k - 1) + 1 - n - p for s, o, d, k, n, p in sizes]
    pads = tuple((p, max(end, 0)) for p, end in zip(g.padding, ends, strict=True))
    window = Window(kernel, g.stride, pads, g.dilation)
    rng = np.random.default_rng(5)
    x, w, gy = (rng.normal(size=s).astype(np.float32) for s in shapes(g))
    bias = rng.normal(size=channels).astype(np.float32)
    y, gx, gw = expected(g, x, w, gy)
    images = [np.moveaxis(a, 1, -1) for a in (x, gy, y + bias[:, None, None], gx)]
    entries, entry_gradients = (a.transpose(2, 3, 1, 0) for a in (w, gw))
    there, back = (
        depthwise_last._build_tables(window, spatial, channels, b) for b in (False, True)
    )
    zeros = np.zeros_like(bias)
    for kernel_, source, t, others, want in (
        (depthwise_nhwc.build_forward, x, there, (entries, bias), images[2]),
        (depthwise_nhwc.build_forward, gy, back, (entries, zeros), images[3]),
        (depthwise_nhwc.build_weight_gradient, x, there, (images[1],), entry_gradients),
    ):
        inputs = [np.moveaxis(source, 1, -1), t.rows, t.columns, *others]
        empty = np.full(want.shape, np.nan, np.float32)
        memories = [poisoned(np.ascontiguousarray(a)) for a in (*inputs, empty)]
        sizes = list_pixel_sizes(source.shape, t)
        compile_kernel(kernel_(Type.F32)).run([inside for _, inside in memories], sizes, 3)
        assert all(unharmed(memory, inside.dtype.itemsize) for memory, inside in memories)
        near = 2e-5 * np.abs(want).max()
        np.testing.assert_allclose(memories[-1][1], want.reshape(-1), 0, near)
        if case in SMALL:
            check(kernel_(Type.F32), [*inputs, empty], sizes, 1e-4, 1e-5, (2,))


@pytest.mark.parametrize("case", SMALL)
def test_what_the_interpreter_gives(check, case: str) -> None:
    """It defines what the kernels mean."""
    g = geometry(case, Type.F32)
    for call, (x, *others), want in passes(g):
        arrays = [x, call.offsets, *others, np.zeros(want.shape, np.float32)]
        actual = check(call.builder(g.type, call.step), arrays, call.sizes, 1e-4, 1e-5, (2,))
        np.testing.assert_allclose(actual[-1], want, 1e-4, 1e-5)


def test_few_kernels_serve_all() -> None:
    """By the stride along rows, where that is 1 or 2."""
    builders = {(call.builder, call.step) for case in CASES
            for call, _, _ in passes(geometry(case, Type.F32))}
    assert len(builders) == 9


def test_what_no_room_is_for_has_no_call() -> None:
    padding = {"stride": (1, 1), "padding": (0, 0), "dilation": (140, 140)}
    strides = conv_static.strides_of((1, 2, 300, 300), False)
    g = conv_static.Geometry(Type.F32, 1, 2, (300, 300), 2, (20, 20), (3, 3), **padding, groups=2,
                             x=strides, weight=strides, y=strides)
    assert depthwise_plan.plan_forward(g) is None
    assert depthwise_plan.plan_backward_data(g) is None
