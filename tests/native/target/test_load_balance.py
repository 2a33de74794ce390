"""How work is cut for many threads: from sizes alone, so that it needs no such machine."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.codegen.conv import direct_blocking
from flambeau.native.codegen.winograd import plan as winograd_plan, weight_gradient
from flambeau.native.codegen.conv.direct_blocking import Unsupported
from flambeau.native.codegen.gemm.blocking import choose_tile
from flambeau.native.kernels import conv_static
from flambeau.native.loop_ir.ir import Contract, Kernel, Type
from flambeau.native.target.load_balance import utilization
from flambeau.native.target.machine import host
from flambeau.ops.native.matmul import choose_row_blocks

THREAD_COUNTS = (3, 7, 16)
# batch, channels, outputs, image, kernel, stride, padding
LAYERS = [
    (32, 3, 64, 32, 3, 1, 1), (32, 64, 64, 32, 3, 1, 1), (32, 64, 128, 32, 3, 2, 1),
    (32, 64, 128, 32, 1, 2, 0), (32, 128, 256, 16, 3, 2, 1), (32, 256, 512, 8, 3, 2, 1),
    (64, 1, 32, 28, 3, 1, 0), (64, 32, 64, 26, 3, 1, 0),
]


def geometry(batch: int, channels: int, outputs: int, image: int, kernel: int, stride: int,
             padding: int) -> conv_static.Geometry:
    side = (image + 2 * padding - kernel) // stride + 1
    return conv_static.Geometry(
        Type.F32, batch, channels, (image, image), outputs, (side, side), (kernel, kernel),
        stride=(stride, stride), padding=(padding, padding), dilation=(1, 1), groups=1,
        x=conv_static.strides_of((batch, channels, image, image), True),
        weight=conv_static.strides_of((outputs, channels, kernel, kernel), True),
        y=conv_static.strides_of((batch, outputs, side, side), True),
    )


def kernels(layer: tuple, shares: int) -> list[Kernel]:
    """All three directions, cut for so many threads."""
    g = geometry(*layer)
    result = [conv_static.build_forward(g), conv_static.build_backward_data(g),
              conv_static.build_backward_weight(g)]
    for kernel in result:
        for statement in kernel.body:
            if isinstance(statement, Contract):
                statement.shares = shares
    return result


def pieces(contract: Contract) -> int:
    """Of how many pieces each thread takes its share."""
    for plan in (
        winograd_plan.plan_winograd,
        weight_gradient.plan_winograd_weight,
        direct_blocking.plan_direct_conv,
    ):
        try:
            cut = plan(contract, host())
        except Unsupported:
            continue
        if isinstance(cut, weight_gradient.WinogradWeightPlan):
            return 1 << 20  # rectangles, by a grid
        return -(-cut.count // cut.panels) * cut.units
    return 1 << 20


@pytest.mark.parametrize("threads", THREAD_COUNTS)
@pytest.mark.parametrize("layer", LAYERS)
def test_threads_have_about_as_much_to_do(layer: tuple, threads: int) -> None:
    *others, weight = kernels(layer, threads)
    # Gradients of weights as small as those of a few channels are made in parts by programs.
    for kernel in [*others, weight] if layer[1] > 3 else others:
        for statement in kernel.body:
            if isinstance(statement, Contract):
                share = utilization(pieces(statement), threads)
                assert share > 0.74, (kernel.name, pieces(statement))


@pytest.mark.parametrize("layer", LAYERS)
def test_two_threads_have_what_they_had(layer: tuple) -> None:
    """Cutting for two is what is done where nothing is known."""
    for kernel in kernels(layer, 2):
        contracts = [s for s in kernel.body if isinstance(s, Contract)]
        assert all(contract.shares == 2 for contract in contracts)
        assert Contract.shares == 2


@pytest.mark.parametrize("shares", [3, 7, 16])
@pytest.mark.parametrize("layer", [
    (4, 3, 20, 12, 3, 1, 1), (4, 18, 33, 11, 3, 2, 1), (3, 32, 64, 9, 3, 1, 1),
    (2, 40, 48, 6, 1, 2, 0),
])
def test_what_is_cut_for_many_is_what_is_cut_for_two(layer: tuple, shares: int) -> None:
    rng = np.random.default_rng(0)
    for kernel, two in zip(kernels(layer, shares), kernels(layer, 2), strict=True):
        g = geometry(*layer)
        x, y = (g.batch, g.channels, *g.spatial), (g.batch, g.outputs, *g.output)
        w = (g.outputs, g.channels, *g.kernel)
        shapes = {"x": x, "gx": x, "weight": w, "gw": w, "y": y, "gy": y}
        arrays = [rng.standard_normal(shapes[b.name]).astype("f").ravel() for b in kernel.buffers]
        want = [array.copy() for array in arrays]
        compile_kernel(two).run(want, (), 1)
        for threads in (1, 2, 5, shares):
            actual = [array.copy() for array in arrays[:-1]] + [np.full_like(arrays[-1], np.nan)]
            compile_kernel(kernel).run(actual, (), threads)
            np.testing.assert_allclose(actual[-1], want[-1], 1e-4, 1e-4)


@pytest.mark.parametrize("threads", THREAD_COUNTS)
def test_small_products_have_tiles_for_all(threads: int) -> None:
    """A layer of a perceptron: 64 rows, 256 columns."""
    rows, vectors = choose_tile(64, 256, 784, 16, 32, threads)
    groups, panels = -(-64 // rows), -(-16 // vectors)
    largest = min(-(-groups // (threads // across)) * -(-panels // across)
                  for across in range(1, threads + 1))
    assert 4 * 16 / (largest * rows / 16 * vectors * threads) > 0.7
    assert choose_tile(64, 256, 784, 16, 32, 2) == choose_tile(64, 256, 784, 16, 32, 2, True)


@pytest.mark.parametrize(("count", "rows", "threads", "blocks"), [
    (8, 512, 2, 1), (8, 512, 16, 2), (12, 512, 16, 4), (128, 512, 16, 1), (3, 512, 16, 4),
    (8, 100, 16, 1), (1, 128, 16, 2), (21, 512, 7, 1),
])
def test_rows_of_stacked_products_are_cut(count: int, rows: int, threads: int, blocks: int
                                          ) -> None:
    assert choose_row_blocks(count, rows, threads) == blocks


def test_evenness() -> None:
    assert [utilization(n, 4) for n in (0, 1, 4, 5, 8)] == [1.0, 0.25, 1.0, 5 / 8, 1.0]
