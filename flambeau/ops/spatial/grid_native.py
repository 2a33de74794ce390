"""Images sampled at points, and both gradients, in machine code; None until it is compiled.

Few points use kernels after CALLS_BEFORE_USE calls.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import CallCounts, KernelPolicy
from ...native.runtime.eager_kernels import EagerKernel
from ...native.runtime.fast_call import call_kernel
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import (
    MAX_RESAMPLING_FORMS, MIN_GRID_ROW_POINTS, MIN_SAMPLED_VALUES, SAMPLED_POINTS_PER_BLOCK,
)
from ...tensor.dtypes import FLOATS
from ..native.route import native_route

Array = np.ndarray


_small_calls = CallCounts(MAX_RESAMPLING_FORMS)


def _can_sample(builder: EagerKernel, input: Array, grid: Array, *settings: str) -> bool:
    """Whether a kernel pays off for these arrays, and supports them. Calls on few points count."""
    if not (input.__class__ is np.ndarray and grid.__class__ is np.ndarray
            and input.dtype in FLOATS and grid.dtype == input.dtype and KernelPolicy.allowed
            and prod(input.shape[2:]) < 1 << 31):
        return False
    return input.shape[1] * prod(grid.shape[:-1]) >= MIN_SAMPLED_VALUES \
        or _small_calls.should_request((builder, input.dtype, grid.shape[-1], *settings))


def _pack_parameters(sizes: tuple[int, ...], align: bool, kind: np.dtype) -> tuple[Array, Array]:
    """The kernel's parameters for the image's axes: floats (see `NUMBERS`), and strides in
    pixels."""
    rows = [((n - 1) / 2, 0, n - 1, 0, n - 1) if align else (n / 2, -0.5, n - 1, -0.5, n)
            for n in sizes]
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return np.array(rows, kind), np.array(steps, np.int64)


def _split_into_lines(batch: int, points: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that points are worked on in."""
    rows, columns = prod(points[:-1]), points[-1]
    if columns < MIN_GRID_ROW_POINTS and batch >= POOL.threads():
        return 1, rows * columns
    return rows, columns


def _run_over_points(
    builder: EagerKernel, input: Array, grid: Array, mode: str, padding: str, align: bool,
    *others: Array,
) -> bool:
    """Call a kernel that goes through the points in rows."""
    (n, c, *sizes), points = input.shape, grid.shape[1:-1]
    kernel = builder.address(input.dtype, mode, padding, len(sizes))
    if kernel is None:
        return False
    (rows, columns), count, pixels = _split_into_lines(n, points), prod(points), prod(sizes)
    *before, result = others
    numbers = _pack_parameters(tuple(sizes), align, input.dtype)
    arrays = [np.ascontiguousarray(x) for x in (input, *before, grid)]
    call_kernel(
        kernel, n * c * count * len(sizes), *arrays, *numbers, result, n, rows, columns, c, pixels,
        c * pixels, count * len(sizes), columns * len(sizes), c * count, count,
    )
    return True


@native_route
def sample(input: Array, grid: Array, mode: str, padding: str, align: bool) -> Array | None:
    """Sample input (n, c, *sizes) at the points of grid (n, *points, axes): (n, c, *points)."""
    if not _can_sample(kernels.GRID_SAMPLE, input, grid, mode, padding):
        return None
    y = np.empty((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    done = _run_over_points(kernels.GRID_SAMPLE, input, grid, mode, padding, align, y)
    return y if done else None


@native_route
def compute_points_adjoint(
    g: Array, input: Array, grid: Array, mode: str, padding: str, align: bool
) -> Array | None:
    """Return the cotangent of the grid."""
    if g.dtype != input.dtype \
            or not _can_sample(kernels.GRID_BACKWARD, input, grid, mode, padding):
        return None
    result = np.empty(grid.shape, grid.dtype)
    done = _run_over_points(kernels.GRID_BACKWARD, input, grid, mode, padding, align, g, result)
    return result if done else None


@native_route
def compute_image_adjoint(
    g: Array, input: Array, grid: Array, mode: str, padding: str, align: bool
) -> Array | None:
    """Return the cotangent of the input."""
    (n, c, *sizes), axes = input.shape, grid.shape[-1]
    if g.dtype != input.dtype \
            or not _can_sample(kernels.IMAGE_BACKWARD, input, grid, mode, padding):
        return None
    kernel = kernels.IMAGE_BACKWARD.address(input.dtype, mode, padding, axes)
    if kernel is None:
        return None
    count, pixels, parts = prod(grid.shape[1:-1]), prod(sizes), _split_channels(n, c)
    result = np.zeros(input.shape, input.dtype)
    numbers = _pack_parameters(tuple(sizes), align, input.dtype)
    above = np.ascontiguousarray(g).reshape(n, c, count)
    points = np.ascontiguousarray(grid).reshape(n, count, axes)
    blocked = count - count % SAMPLED_POINTS_PER_BLOCK
    block = SAMPLED_POINTS_PER_BLOCK
    for start, blocks, size in ((0, blocked // block, block), (blocked, 1, count - blocked)):
        if blocks and size:
            call_kernel(
                kernel, n * c * count * axes, above[:, :, start:], points[:, start:], *numbers,
                result, n, parts, blocks, size, c // parts, c * count, count, count * axes,
                size * axes, c * pixels, pixels, c // parts * count, c // parts * pixels,
            )
    return result


def _split_channels(n: int, c: int) -> int:
    """Into how many parts channels are split, so that all threads have as much to do."""
    threads = POOL.threads()
    return next((p for p in range(1, threads + 1) if c % p == 0 and n * p % threads == 0), 1)
