"""Convolutions in machine code against NumPy in float64, at awkward sizes, between poison."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import KernelFunction, compile_kernel
from flambeau.native.codegen.winograd import plan as winograd_plan, weight_gradient
from flambeau.native.codegen.conv.direct_blocking import Unsupported, plan_direct_conv
from flambeau.native.codegen.kernel import emit
from flambeau.native.kernels import conv_static
from flambeau.native.loop_ir.ir import Apply, Contract, Kernel, Loop, Scalar, Type
from flambeau.native.jit.elf_loader import load
from flambeau.native.target.machine import TARGETS, emit_assembly, host

# batch, channels, (h, w), outputs, kernel; then stride, padding, dilation, groups
CASES = {
    "plain": ((2, 16, (8, 8), 32, (3, 3)), {}),
    "one of all": ((1, 1, (1, 1), 1, (1, 1)), {"padding": (0, 0)}),
    "primes": ((3, 5, (7, 11), 13, (3, 3)), {}),
    "valid": ((2, 3, (9, 10), 17, (3, 2)), {"padding": (0, 0)}),
    "few channels": ((5, 1, (14, 13), 33, (3, 3)), {}),
    "tiles across rows": ((7, 19, (4, 4), 50, (3, 3)), {}),
    "strided": ((2, 3, (11, 13), 64, (3, 3)), {"stride": (2, 2)}),
    "strides apart": ((2, 6, (9, 15), 20, (2, 3)), {"stride": (1, 3), "padding": (1, 0)}),
    "pointwise, strided": ((2, 19, (10, 9), 37, (1, 1)), {"stride": (2, 2), "padding": (0, 0)}),
    "dilated": ((2, 4, (12, 12), 9, (3, 3)), {"padding": (2, 2), "dilation": (2, 2)}),
    "groups": ((2, 8, (9, 9), 12, (3, 2)), {"groups": 4, "dilation": (2, 1)}),
    "kernel beyond the stride": ((1, 3, (6, 6), 5, (1, 2)), {"stride": (3, 3), "padding": (0, 0)}),
    "long depth": ((4, 300, (5, 5), 40, (5, 5)), {"padding": (2, 2)}),
    "gradient in blocks": ((3, 2, (43, 43), 40, (3, 3)), {}),
    "one channel": ((3, 1, (41, 40), 32, (3, 3)), {"padding": (0, 0)}),
    "long lines": ((2, 40, (1, 5003), 20, (1, 5)), {"padding": (0, 2)}),
    "sixteen places": ((12, 48, (8, 8), 32, (3, 3)), {}),
    "wide padding": ((2, 5, (3, 3), 6, (3, 3)), {"padding": (2, 3)}),
}
PLACES = {  # by Winograd's algorithm, worth it or not
    "whole vectors": ((2, 16, (8, 8), 32, (3, 3)), {}),
    "uneven": ((3, 37, (9, 7), 51, (3, 3)), {"padding": (1, 0)}),
    "several parts": ((2, 80, (6, 5), 136, (3, 3)), {"padding": (2, 1)}),
    "large weights": ((1, 520, (3, 4), 50, (3, 3)), {}),
    "two rows": ((3, 32, (4, 20), 16, (3, 3)), {"padding": (0, 0)}),
}
LAYOUTS = [(False, False), (True, True)]  # images, weight: channels innermost
EVERY = [(case, *layout) for case in CASES for layout in LAYOUTS]
EVERY += [(case, True, False) for case in ("plain", "strided", "gradient in blocks")]


def geometry(
    case: str, last: bool, weight_last: bool, type: Type = Type.F32
) -> conv_static.Geometry:
    (batch, channels, spatial, outputs, kernel), settings = {**CASES, **PLACES}[case]
    settings = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1, **settings}
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(spatial, kernel, settings["stride"], settings["padding"],
                                 settings["dilation"], strict=True)
    )
    return conv_static.Geometry(
        type, batch, channels, spatial, outputs, output, kernel, **settings,
        x=conv_static.strides_of((batch, channels, *spatial), last),
        weight=conv_static.strides_of(
            (outputs, channels // settings["groups"], *kernel), weight_last
        ),
        y=conv_static.strides_of((batch, outputs, *output), last),
    )


def shapes(g: conv_static.Geometry) -> tuple[tuple[int, ...], ...]:
    """Of x, the weight and y."""
    return ((g.batch, g.channels, *g.spatial), (g.outputs, g.inputs_each, *g.kernel),
            (g.batch, g.outputs, *g.output))


def laid(x: np.ndarray, last: bool) -> np.ndarray:
    """As it lies in memory."""
    return (x.transpose(0, 2, 3, 1) if last else x).reshape(-1)


def taps(g: conv_static.Geometry, x: np.ndarray):
    """(kernel entry, what it meets of the padded x: a view (n, c, oh, ow)) for each entry."""
    for i, j in np.ndindex(*g.kernel):
        at = [
            slice(e * d, e * d + s * (n - 1) + 1, s)
            for e, d, s, n in zip((i, j), g.dilation, g.stride, g.output, strict=True)
        ]
        yield (i, j), x[:, :, at[0], at[1]]


def expected(g: conv_static.Geometry, x: np.ndarray, w: np.ndarray, gy: np.ndarray):
    """y, and the gradients of x and of the weight, in float64."""
    (top, left), (h, v) = g.padding, g.spatial
    room = [s * (o - 1) + d * (k - 1) + 1 for s, o, d, k in
            zip(g.stride, g.output, g.dilation, g.kernel, strict=True)]
    image = np.zeros((g.batch, g.channels, max(room[0], h + top), max(room[1], v + left)))
    image[:, :, top : top + h, left : left + v] = x
    y, gw, gx = np.zeros(gy.shape), np.zeros(w.shape), np.zeros(image.shape)
    spread = list(taps(g, gx))
    for ((i, j), part), (_, back) in zip(taps(g, image), spread, strict=True):
        for n in range(g.groups):
            c = slice(n * g.inputs_each, (n + 1) * g.inputs_each)
            k = slice(n * g.outputs_each, (n + 1) * g.outputs_each)
            y[:, k] += np.einsum("nchw,kc->nkhw", part[:, c], w[k, :, i, j])
            gw[k, :, i, j] += np.einsum("nchw,nkhw->kc", part[:, c], gy[:, k])
            back[:, c] += np.einsum("nkhw,kc->nchw", gy[:, k], w[k, :, i, j])
    return y, gx[:, :, top : top + h, left : left + v], gw


@pytest.fixture
def runs(compare):
    """Checks that a kernel's last buffer becomes `want`, and that nothing else changes."""

    def check(kernel: Kernel, arrays: list[np.ndarray], want: np.ndarray, rtol: float) -> None:
        before = [*arrays, np.full(want.size, np.nan, arrays[0].dtype)]
        near = rtol * max(float(np.abs(want).max(initial=0)), 1e-6)
        compare(compile_kernel(kernel), kernel, before, (), [*arrays, want], rtol, near, (1, 2, 5))

    return check


@pytest.mark.parametrize(("case", "last", "weight_last"), EVERY)
def test_convolution_and_gradients(runs, case: str, last: bool, weight_last: bool) -> None:
    g = geometry(case, last, weight_last)
    rng = np.random.default_rng(1)
    x, w, gy = (rng.normal(size=s).astype(np.float32) for s in shapes(g))
    y, gx, gw = expected(g, x, w, gy)
    images, weight = [laid(a, last) for a in (x, gy)], laid(w, weight_last)
    runs(conv_static.build_forward(g), [images[0], weight], laid(y, last), 1e-5)
    runs(conv_static.build_backward_data(g), [images[1], weight], laid(gx, last), 1e-5)
    runs(conv_static.build_backward_weight(g), images, laid(gw, weight_last), 1e-5)


def test_double_precision_bias_and_relu(runs) -> None:
    g = geometry("primes", False, False, Type.F64)
    rng = np.random.default_rng(2)
    x, w, gy = (rng.normal(size=s) for s in shapes(g))
    bias = rng.normal(size=g.outputs)
    y = np.maximum(expected(g, x, w, gy)[0] + bias[:, None, None], 0)
    runs(
        conv_static.build_forward(g, True, True),
        [laid(x, False), laid(w, False), bias],
        laid(y, False),
        1e-13,
    )


@pytest.mark.parametrize("case", ["plain", "valid", "few channels", "tiles across rows", "groups"])
def test_long_work_on_the_sums_is_done_vector_by_vector(runs, case: str) -> None:
    g = geometry(case, True, True)
    rng = np.random.default_rng(5)
    x, w, gy = (rng.normal(size=s).astype(np.float32) / 4 for s in shapes(g))
    kernel = conv_static.build_forward(g)
    (contract,) = contracts(kernel)
    (store,) = contract.body
    store.value = Apply(Scalar.ERF, (store.value,), Type.F32)
    wanted = np.vectorize(math.erf, otypes=[np.float32])(expected(g, x, w, gy)[0])
    runs(kernel, [laid(x, True), laid(w, True)], laid(wanted, True), 1e-5)


def contracts(kernel: Kernel) -> list[Contract]:
    inside = [s for statement in kernel.body
              for s in (statement.body if isinstance(statement, Loop) else [statement])]
    return [s for s in inside if isinstance(s, Contract)]


def test_every_case_is_tiled() -> None:
    for case in CASES:
        for layout in LAYOUTS:
            g = geometry(case, *layout)
            for build in (
                conv_static.build_forward,
                conv_static.build_backward_data,
                conv_static.build_backward_weight,
            ):
                products = contracts(build(g))
                assert products
                for contract in products:
                    plan_direct_conv(contract, host())


PLANS = (
    winograd_plan.plan_winograd, winograd_plan.plan_winograd, weight_gradient.plan_winograd_weight,
)
BUILDS = (conv_static.build_forward, conv_static.build_backward_data,
          conv_static.build_backward_weight)


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize(("last", "weight_last"), [(True, False), (True, True), (False, False)])
def test_sixteen_places(
    compare, monkeypatch, case: str, last: bool, weight_last: bool
) -> None:
    """As exact as direct sums: no more than a few roundings of the largest result."""
    for plans in (winograd_plan, weight_gradient):
        monkeypatch.setattr(plans, "MAX_WINOGRAD_RELATIVE_COST", 1e9)
    g = geometry(case, last, weight_last)
    rng = np.random.default_rng(3)
    x, w, gy = (rng.normal(size=s).astype(np.float32) for s in shapes(g))
    wanted = expected(g, x, w, gy)
    x, gy, w = laid(x, last), laid(gy, last), laid(w, weight_last)
    inputs = ([x, w], [gy, w], [x, gy])
    wanted = laid(wanted[0], last), laid(wanted[1], last), laid(wanted[2], weight_last)
    for plan, build, arrays, want in zip(PLANS, BUILDS, inputs, wanted, strict=True):
        kernel = build(g)
        plan(contracts(kernel)[0], host())
        name = f"places_{case.replace(' ', '_')}_{build.__name__}_{last}_{weight_last}"
        function = KernelFunction(kernel, name, load(emit(kernel, name=name), [name])[name])
        before = [*arrays, np.full(want.size, np.nan, np.float32)]
        compare(function, kernel, before, (), [*arrays, want], 0, 2e-6 * np.abs(want).max(),
                (1, 2, 5))


def test_three_by_three_taps_are_made_in_sixteen_places() -> None:
    """Other taps cannot be, and few channels are not worth it."""
    for plan, build in zip(PLANS, BUILDS, strict=True):
        plan(contracts(build(geometry("sixteen places", True, True)))[0], host())
        for case, last in (("dilated", True), ("strided", False), ("valid", True)):
            with pytest.raises(Unsupported):
                plan(contracts(build(geometry(case, last, last)))[0], host())


def test_tiles_span_short_rows() -> None:
    """Four positions in a row would leave the units idle."""
    cut = plan_direct_conv(
        contracts(conv_static.build_forward(geometry("tiles across rows", True, True)))[0], host()
    )
    assert cut.shape.rows * cut.shape.vectors >= 8
    assert cut.shape.rows > 4


def test_threads_share_the_gradient_of_a_narrow_weight() -> None:
    """All rows are one tile: threads have nothing to share but panels."""
    case = "one channel"
    cut = plan_direct_conv(
        contracts(conv_static.build_backward_weight(geometry(case, True, False)))[0],
        TARGETS["avx512"]
    )
    assert cut.units == 1
    assert (cut.count, cut.panels) == (2, 1)


def test_long_depths_are_cut() -> None:
    """What is packed at a time stays in the caches."""
    for case, build in (
        ("long depth", conv_static.build_forward),
        ("gradient in blocks", conv_static.build_backward_weight),
    ):
        for layout in LAYOUTS:
            cut = plan_direct_conv(contracts(build(geometry(case, *layout)))[0], TARGETS["avx512"])
            assert cut.blocks > 1
            assert cut.steps * cut.width * 4 <= 1 << 20


@pytest.mark.parametrize(("target", "fused"), [("avx2", "vfmadd231ps"), ("neon", "fmla")])
def test_other_processors(target: str, fused: str) -> None:
    """Registers hold the sums: nothing of a tile's loop is spilled."""
    text = emit(conv_static.build_forward(geometry("plain", True, True)), TARGETS[target])
    loops = emit_assembly(text, TARGETS[target]).split("\n.L")
    most = max(loops, key=lambda part: part.count(fused))
    assert most.count(fused) >= 8
    assert not re.search(r"%rsp.*%ymm|%ymm.*%rsp|\bq\d+, .*\[sp", most)
