"""Pooling in machine code against NumPy, between poison."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.native.compiled import compiled
from flambeau.native.kernels import pool
from flambeau.native.kernels.conv import strides_of
from flambeau.native.loops import Kernel, Type

# batch, channels, (h, w), kernel, stride, padding, dilation
CASES = {
    "by two": (2, 19, (8, 6), (2, 2), (2, 2), (0, 0), (1, 1)),
    "one": (1, 1, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    "with a rest": (2, 3, (7, 37), (2, 3), (2, 3), (0, 0), (1, 1)),
    "overlapping": (2, 5, (9, 11), (3, 3), (2, 2), (1, 1), (1, 1)),
    "every place": (1, 17, (5, 6), (3, 2), (1, 1), (1, 0), (1, 1)),
    "gaps": (2, 4, (11, 9), (2, 2), (3, 3), (0, 1), (1, 1)),
    "dilated": (2, 3, (10, 12), (2, 3), (2, 1), (1, 1), (2, 2)),
}


def pooling(case: str, last: bool, type: Type = Type.F32) -> pool.Pooling:
    n, c, spatial, kernel, stride, padding, dilation = CASES[case]
    output = tuple(
        (m + 2 * p - d * (k - 1) - 1) // s + 1
        for m, k, s, p, d in zip(spatial, kernel, stride, padding, dilation, strict=True)
    )
    return pool.Pooling(type, n, c, spatial, output, kernel, stride, padding, dilation,
                        strides_of((n, c, *spatial), last), strides_of((n, c, *output), last))


def windows(p: pool.Pooling, x: np.ndarray, outside: float) -> tuple[np.ndarray, np.ndarray]:
    """What each entry meets (entries, n, c, oh, ow), and its place in the image or -1."""
    (top, left), (h, w) = p.padding, p.spatial
    size = [2 * m + q + k * d for m, q, k, d in zip(p.spatial, p.padding, p.kernel, p.dilation,
                                                    strict=True)]
    image = np.full((p.batch, p.channels, *size), outside)
    place = np.full(size, -1)
    image[:, :, top : top + h, left : left + w] = x
    place[top : top + h, left : left + w] = np.arange(h * w).reshape(h, w)
    values, places = [], []
    for i, j in np.ndindex(*p.kernel):
        at = tuple(slice(e * d, e * d + s * (m - 1) + 1, s) for e, d, s, m in
                   zip((i, j), p.dilation, p.stride, p.output, strict=True))
        values.append(image[(slice(None), slice(None), *at)])
        places.append(place[at])
    return np.array(values), np.array(places)


def laid(x: np.ndarray, last: bool) -> np.ndarray:
    return (x.transpose(0, 2, 3, 1) if last else x).reshape(-1)


@pytest.fixture
def runs(compare):
    def check(kernel: Kernel, given: list[np.ndarray], want: list[np.ndarray]) -> None:
        before = [*given, *(np.full(a.size, -77, a.dtype) for a in want)]
        compare(compiled(kernel), kernel, before, (), [*given, *want], 1e-6, 1e-6, (1, 2, 5))

    return check


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_maxima(runs, case: str, last: bool) -> None:
    p = pooling(case, last)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, (p.batch, p.channels, *p.spatial)).astype(np.float32)  # with ties
    values, places = windows(p, x, -np.inf)
    y = values.max(0).astype(np.float32)
    chosen = values.argmax(0)
    where = np.take_along_axis(np.broadcast_to(places[:, None, None], values.shape), chosen[None],
                               0)[0]
    flat = [laid(a, last) for a in (x, y, where.astype(np.int64))]
    runs(pool.maxima(p), flat[:1], flat[1:2])
    runs(pool.maxima(p, places=True), flat[:1], flat[1:])
    g = rng.normal(size=y.shape).astype(np.float32)
    gx = np.zeros((p.batch, p.channels, p.spatial[0] * p.spatial[1]), np.float32)
    for n, c in np.ndindex(p.batch, p.channels):
        np.add.at(gx[n, c], where[n, c].reshape(-1), g[n, c].reshape(-1))
    runs(pool.maxima_backward(p), [*flat[:2], laid(g, last)], [laid(gx.reshape(x.shape), last)])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_averages(runs, case: str, last: bool, counted: bool) -> None:
    p = pooling(case, last)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(p.batch, p.channels, *p.spatial)).astype(np.float32)
    values, places = windows(p, x, 0.0)
    divisors = np.full(p.output, 7.0) if counted else np.maximum((places >= 0).sum(0), 1)
    divisors = divisors.astype(np.float32)
    extra = [] if counted else [divisors.reshape(-1)]
    y = (values.sum(0) / divisors).astype(np.float32)
    runs(pool.averages(p, 7.0 if counted else None), [laid(x, last), *extra], [laid(y, last)])
    g = rng.normal(size=y.shape).astype(np.float32)
    gx = np.zeros((p.batch, p.channels, p.spatial[0] * p.spatial[1] + 1))
    for place in places:
        for n, c in np.ndindex(p.batch, p.channels):
            np.add.at(gx[n, c], place.reshape(-1), (g[n, c] / divisors).reshape(-1))
    gx = gx[..., :-1].reshape(x.shape).astype(np.float32)
    runs(pool.averages_backward(p, 7.0 if counted else None), [laid(g, last), *extra],
         [laid(gx, last)])


def test_nan_and_infinity(runs) -> None:
    p = pooling("by two", False)
    x = np.zeros((p.batch, p.channels, *p.spatial), np.float32)
    x[0, 0, 0, 1], x[0, 1, :2, :2] = np.nan, -np.inf
    values, _ = windows(p, x, -np.inf)
    y = values.max(0).astype(np.float32)
    runs(pool.maxima(p), [laid(x, False)], [laid(y, False)])
