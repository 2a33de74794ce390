"""Pooling in machine code against NumPy and the interpreter, between poison."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from flambeau.native.kernels import pool, pool_nhwc
from flambeau.native.loop_ir.ir import Type
from flambeau.ops.spatial.pooling import pool_native, pool_index_tables
from flambeau.ops.spatial.conv_reference import Window

# shape (images, channels, axes...), kernel, stride, padding, dilation
CASES = {
    "by two": ((1, 19, 4, 6), (2, 2), (2, 2), (0, 0), (1, 1)),
    "one": ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    "with a rest": ((2, 3, 7, 37), (2, 3), (2, 3), (0, 0), (1, 1)),
    "overlapping": ((2, 2, 9, 11), (3, 3), (2, 2), (1, 1), (1, 1)),
    "every place": ((1, 33, 5, 6), (3, 2), (1, 1), (1, 0), (1, 1)),
    "gaps": ((2, 4, 11, 9), (2, 2), (3, 3), (0, 1), (1, 1)),
    "dilated": ((1, 3, 8, 9), (2, 3), (2, 1), (1, 1), (2, 2)),
    "larger than the image": ((1, 2, 3, 4), (5, 7), (2, 1), (2, 3), (1, 1)),
    "one axis": ((3, 2, 35), (4,), (2,), (1,), (1,)),
    "three axes": ((1, 2, 5, 4, 7), (2, 3, 3), (2, 1, 2), (1, 1, 0), (1, 1, 1)),
    "several blocks": ((1, 1, 2, 2100), (2, 3), (1, 3), (0, 1), (1, 1)),
}
LAST = [name for name, case in CASES.items() if len(case[0]) > 3 and name != "several blocks"]


def window_of(case: str) -> tuple[tuple[int, ...], Window]:
    shape, kernel, stride, padding, dilation = CASES[case]
    return shape, Window(kernel, stride, tuple((p, p) for p in padding), dilation)


def met(x: np.ndarray, window: Window, outside: float) -> np.ndarray:
    """What each entry of a window meets: (entries, n, c, output...)."""
    output = window.output(x.shape[2:])
    image = np.pad(x, ((0, 0), (0, 0), *window.padding), constant_values=outside)
    windows = []
    for at in np.ndindex(*window.kernel):
        part = [slice(e * d, e * d + s * (m - 1) + 1, s) for e, d, s, m in
                zip(at, window.dilation, window.stride, output, strict=True)]
        windows.append(image[(slice(None), slice(None), *part)])
    return np.array(windows)


def spread(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The gradient of maxima: each window's at the first of its equals."""
    at = np.arange(prod(x.shape[2:]), dtype=float).reshape(1, 1, *x.shape[2:])
    places = met(at, window, -1)[:, 0, 0].astype(int)
    chosen = met(x, window, -np.inf).argmax(0)
    where = np.take_along_axis(places[:, None, None], chosen[None], 0)[0]
    scattered = np.zeros((*x.shape[:2], prod(x.shape[2:])), x.dtype)
    for n, c in np.ndindex(*x.shape[:2]):
        np.add.at(scattered[n, c], where[n, c].reshape(-1), g[n, c].reshape(-1))
    return scattered.reshape(x.shape), where


def rows_call(shape, axes, maxima=True):
    t = pool_index_tables.build_row_tables(axes, maxima)
    sizes = pool_native._list_row_sizes(prod(shape[2:]), shape[-1], prod(shape[:2]), t)
    return t, sizes


def values(shape, kind=np.float32) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 9, shape).astype(kind)  # with ties


def runs(check, kernel, arrays, sizes, want, count: int = 1) -> None:
    """The last `count` arrays become what is wanted."""
    empty = [np.full(actual.shape, -77, actual.dtype) for actual in want]
    results = check(kernel, [*arrays, *empty], sizes, threads=(1, 3))[-count:]
    for actual, right in zip(results, want, strict=True):
        np.testing.assert_allclose(actual, right, 2e-6, 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_maxima_of_rows(check, case: str) -> None:
    shape, window = window_of(case)
    x = values(shape)
    t, sizes = rows_call(shape, pool_index_tables.list_windows(window, shape[2:]))
    y = met(x, window, -np.inf).max(0)
    g = np.random.default_rng(4).normal(size=y.shape).astype(np.float32)
    gx, where = spread(x, g, window)
    f32 = Type.F32
    runs(check, pool.maxima(f32, t.step), [x, *t.tables], sizes, [y])
    runs(check, pool.places(f32, t.step), [x, *t.tables], sizes, [y, where], 2)
    runs(check, pool.maxima_backward(f32, t.step), [x, *t.tables, g], sizes, [gx])
    tangent = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    flat = tangent.reshape(*shape[:2], -1)
    pushed = np.take_along_axis(flat, where.reshape(*shape[:2], -1), -1).reshape(y.shape)
    runs(check, pool.maxima_with_tangents(f32, t.step), [x, *t.tables, tangent], sizes,
         [y, pushed], 2)


@pytest.mark.parametrize("case", LAST)
def test_maxima_of_channels(check, case: str) -> None:
    shape, window = window_of(case)
    x = values(shape)
    t = pool_index_tables.build_pixel_tables(pool_index_tables.list_windows(window, shape[2:]))
    y = met(x, window, -np.inf).max(0)
    g = np.random.default_rng(4).normal(size=y.shape).astype(np.float32)
    gx, _ = spread(x, g, window)
    tables = [np.where(a < 0, -1, a * shape[1]) for a in (t.rows, t.columns)]
    sizes = pool_native.list_pixel_sizes(shape, t)
    x, y, g, gx = (np.moveaxis(a, 1, -1) for a in (x, y, g, gx))
    runs(check, pool_nhwc.maxima(Type.F32), [x, *tables], sizes, [y])
    runs(check, pool_nhwc.maxima_backward(Type.F32), [x, *tables, y, g], sizes, [gx])


@pytest.mark.parametrize("kind", [Type.F32, Type.F64])
@pytest.mark.parametrize("case", [name for name in CASES if name != "dilated"])
def test_sums(check, case: str, kind: Type) -> None:
    """And their gradient, which are sums over the windows that an element is in."""
    shape, window = window_of(case)
    x = values(shape, kind.value)
    y = met(x, window, 0).sum(0)
    g = values(y.shape, kind.value)
    back = np.pad(np.zeros(shape), ((0, 0), (0, 0), *((lo, lo + 9) for lo, _ in window.padding)))
    for entry in np.ndindex(*window.kernel):
        part = [slice(e, e + s * (m - 1) + 1, s)
                for e, s, m in zip(entry, window.stride, y.shape[2:], strict=True)]
        back[(slice(None), slice(None), *part)] += g
    inside = [slice(lo, lo + n) for n, (lo, _) in zip(shape[2:], window.padding, strict=True)]
    gx = back[(slice(None), slice(None), *inside)].astype(kind.value)
    axes = pool_index_tables.list_windows(window, shape[2:])
    turned = tuple(pool_index_tables.turn_tables(axis) for axis in axes)
    for source, reach, want in ((x, axes, y), (g, turned, gx)):
        t, sizes = rows_call(source.shape, reach, False)
        by = pool_index_tables.compute_divisors(np.dtype(kind.value), t.form, ones, t.output)
        want = want / 2
        runs(check, pool.sums(kind, t.step), [source, *t.tables, *by], sizes, [want])
        if case not in LAST:
            continue
        t = pool_index_tables.build_pixel_tables(reach)
        by = pool_index_tables.compute_divisors(np.dtype(kind.value), t.form, ones, t.output)
        tables = [np.where(a < 0, -1, a * shape[1]) for a in (t.rows, t.columns)]
        source, want = (np.moveaxis(a, 1, -1) for a in (source, want))
        sizes = pool_native.list_pixel_sizes((*shape[:2], *source.shape[1:-1]), t)
        runs(check, pool_nhwc.sums(kind), [source, *tables, *by], sizes, [want])


def ones(output: tuple[int, ...]) -> list[np.ndarray]:
    return [np.full(n, 2.0 if axis == 0 else 1.0) for axis, n in enumerate(output)]


@pytest.mark.parametrize("length, count", [(13, 5), (7, 7), (5, 13), (12, 4), (1, 3), (9, 1)])
def test_even_windows(check, length: int, count: int) -> None:
    """Adaptive ones, whose sizes differ by one, and what each element is in."""
    x = values((3, 2, 4, length))
    axes = pool_index_tables.list_adaptive_windows((4, length), (3, count))
    want = np.zeros((3, 2, 3, count), np.float32)
    top = want.copy()
    for i, j in np.ndindex(3, count):
        cell = [slice(k * n // m, -(-(k + 1) * n // m))
                for k, n, m in ((i, 4, 3), (j, length, count))]
        part = x[(slice(None), slice(None), *cell)]
        want[..., i, j], top[..., i, j] = part.sum((2, 3)) / 2, part.max((2, 3))
    t, sizes = rows_call(x.shape, axes, False)
    by = pool_index_tables.compute_divisors(np.dtype(np.float32), t.form, ones, t.output)
    runs(check, pool.sums(Type.F32, t.step), [x, *t.tables, *by], sizes, [want])
    t, sizes = rows_call(x.shape, axes)
    runs(check, pool.maxima(Type.F32, t.step), [x, *t.tables], sizes, [top])
    back = tuple(pool_index_tables.turn_tables(table) for table in axes)
    g = values(want.shape)
    matrix = [(table.indices[:, :, None] == np.arange(n)).any(1) for table, n in
              zip(axes, (4, length), strict=True)]
    gx = np.einsum("ncij,ih,jw->nchw", g, *matrix).astype(np.float32) / 2
    t, sizes = rows_call(g.shape, back, False)
    by = pool_index_tables.compute_divisors(np.dtype(np.float32), t.form, ones, t.output)
    runs(check, pool.sums(Type.F32, t.step), [g, *t.tables, *by], sizes, [gx])


def test_nan_and_infinity(check) -> None:
    shape, window = window_of("overlapping")
    x = values(shape)
    x[0, 0, 0, 1], x[0, 1], x[1, 0, 3:6, 3:6] = np.nan, -np.inf, np.inf
    t, sizes = rows_call(shape, pool_index_tables.list_windows(window, shape[2:]))
    y = met(x, window, -np.inf).max(0)
    runs(check, pool.maxima(Type.F32, t.step), [x, *t.tables], sizes, [y])
    g = np.ones(y.shape, np.float32)
    actual = check(pool.maxima_backward(Type.F32, t.step),
                   [x, *t.tables, g, np.zeros(shape, np.float32)], sizes)[-1]
    assert actual.sum() == g.sum()
    assert actual[0, 0, 0, 1] == 2  # each window that holds it
