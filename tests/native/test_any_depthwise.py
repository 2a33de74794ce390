"""Depthwise convolutions of any size against NumPy in float64 and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.compiled import compiled
from flambeau.native.kernels import conv, depthwise_calls
from flambeau.native.loops import Type

from .conftest import poisoned, unharmed
from .test_conv import expected, shapes

# images, channels, (h, w), outputs of each, kernel; then stride, padding, dilation
CASES = {
    "padded": ((2, 5, (9, 37), 1, (3, 3)), {}),
    "one of all": ((1, 2, (1, 1), 1, (1, 1)), {"padding": (0, 0)}),
    "many images": ((37, 3, (7, 7), 1, (3, 3)), {}),
    "strided": ((2, 6, (9, 40), 2, (3, 3)), {"stride": (2, 2)}),
    "strides apart": ((3, 2, (13, 11), 1, (5, 4)), {"stride": (3, 1), "padding": (2, 0)}),
    "long strides": ((2, 2, (17, 23), 3, (3, 3)), {"stride": (4, 5), "padding": (2, 0)}),
    "dilated": ((1, 3, (12, 35), 1, (3, 2)), {"padding": (2, 1), "dilation": (2, 3)}),
    "dilated and strided": ((2, 2, (15, 16), 1, (3, 3)), {"dilation": (3, 2), "stride": (2, 3)}),
    "beyond the stride": ((1, 2, (6, 9), 1, (1, 2)), {"stride": (3, 3), "padding": (0, 0)}),
    "beyond the image": ((2, 2, (4, 5), 1, (7, 7)), {"padding": (3, 3)}),
    "wide padding": ((1, 2, (3, 3), 2, (2, 3)), {"padding": (4, 5)}),
    "several blocks": ((2, 2, (90, 83), 1, (3, 5)), {"padding": (1, 2)}),
    "several blocks of strides": ((1, 2, (190, 83), 1, (3, 5)), {"stride": (2, 3)}),
    "long lines": ((1, 3, (1, 7001), 1, (1, 9)), {"padding": (0, 4)}),
    "long lines, strided": ((1, 2, (1, 7001), 2, (1, 9)), {"padding": (0, 4), "stride": (1, 2)}),
}  # fmt: skip
SMALL = ["one of all", "dilated", "beyond the stride", "wide padding"]


def geometry(case: str, type: Type) -> conv.Geometry:
    (batch, channels, spatial, each, kernel), settings = CASES[case]
    settings = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), **settings}
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, kernel, settings["stride"], settings["padding"],
                                 settings["dilation"], strict=True)
    )  # fmt: skip
    outputs = channels * each
    sizes = ((batch, channels, *spatial), (outputs, 1, *kernel), (batch, outputs, *output))
    x, weight, y = (conv.strides_of(size, False) for size in sizes)
    return conv.Geometry(type, batch, channels, spatial, outputs, output, kernel, **settings,
                         groups=channels, x=x, weight=weight, y=y)  # fmt: skip


def passes(g: conv.Geometry):
    """Each direction: its call, the arrays that it takes around the table, and what it gives."""
    rng, kind = np.random.default_rng(4), np.dtype(g.type.value)
    x, w, gy = (rng.normal(size=s).astype(kind) for s in shapes(g))
    bias, zeros = rng.normal(size=g.outputs).astype(kind), np.zeros(g.channels, kind)
    y, gx, gw = expected(g, x, w, gy)
    yield depthwise_calls.forward(g), [x, w, bias], y + bias[:, None, None]
    yield depthwise_calls.backward_data(g), [gy, w, zeros], gx
    yield depthwise_calls.backward_weight(g), [x, gy], gw


@pytest.mark.parametrize("type", [Type.F32, Type.F64])
@pytest.mark.parametrize("case", CASES)
def test_directions(case: str, type: Type) -> None:
    g = geometry(case, type)
    near = 2e-5 if type is Type.F32 else 1e-12
    for call, (x, *others), want in passes(g):
        function = compiled(call.builder(type, call.step))
        given = [x, call.offsets, *others]
        for threads in (1, 3):
            empty = np.full(want.size, np.nan, x.dtype)
            memories = [poisoned(a) for a in [*given, empty]]
            function.run([inside for _, inside in memories], call.sizes, threads)
            for (memory, inside), one in zip(memories, [*given, want], strict=True):
                assert unharmed(memory, inside.dtype.itemsize)
                np.testing.assert_allclose(inside, one.reshape(-1), 0, near * np.abs(want).max())


@pytest.mark.parametrize("case", SMALL)
def test_what_the_interpreter_gives(check, case: str) -> None:
    """It defines what the kernels mean."""
    g = geometry(case, Type.F32)
    for call, (x, *others), want in passes(g):
        arrays = [x, call.offsets, *others, np.zeros(want.shape, np.float32)]
        found = check(call.builder(g.type, call.step), arrays, call.sizes, 1e-4, 1e-5, (2,))
        np.testing.assert_allclose(found[-1], want, 1e-4, 1e-5)


def test_few_kernels_serve_all() -> None:
    """By the stride along rows, where that is 1 or 2."""
    made = {(call.builder, call.step) for case in CASES
            for call, _, _ in passes(geometry(case, Type.F32))}  # fmt: skip
    assert len(made) == 9


def test_what_no_room_is_for_has_no_call() -> None:
    padding = {"stride": (1, 1), "padding": (0, 0), "dilation": (140, 140)}
    strides = conv.strides_of((1, 2, 300, 300), False)
    g = conv.Geometry(Type.F32, 1, 2, (300, 300), 2, (20, 20), (3, 3), **padding, groups=2,
                      x=strides, weight=strides, y=strides)  # fmt: skip
    assert depthwise_calls.forward(g) is None
    assert depthwise_calls.backward_data(g) is None
