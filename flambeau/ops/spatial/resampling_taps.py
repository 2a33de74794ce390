"""Taps of interpolation: the input elements, and their weights, whose sum is a result's element.

Eight-bit images are resampled in fixed point, as in PyTorch: weights are rounded to multiples of
a power of two, and every axis is rounded to eight bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np


class Taps(NamedTuple):
    """For each of `out` results along an axis: ascending input indices (taps, out), and weights."""

    axis: int
    indices: np.ndarray
    weights: np.ndarray | None  # None: one tap of weight 1


class _Resize(NamedTuple):
    """An axis of length n that is resampled to length `out`.

    align: whether the centers of the corner pixels are aligned, instead of their edges.
    factor: how much longer it gets, if the caller gave that.
    real: the type of the arithmetic, float32 or float64.
    """

    n: int
    out: int
    align: bool
    factor: float | None
    real: Any

    def step(self) -> Any:
        """Return how far apart results lie in the input, as PyTorch rounds it."""
        if self.align:
            return self.real(self.n - 1) / self.real(self.out - 1) if self.out > 1 else self.real(0)
        if self.factor:
            return self.real(1.0 / self.factor)
        return self.real(self.n) / self.real(self.out)

    def list_results(self) -> np.ndarray:
        """Return the results' indices, 0 to out - 1, in the type of the arithmetic."""
        return np.arange(self.out).astype(self.real)

    def locate_sources(self) -> np.ndarray:
        """Return where each result lies in the input."""
        if self.align:
            return self.list_results() * self.step()
        half = self.real(0.5)
        return self.step() * (self.list_results() + half) - half


_IndicesAndWeights = tuple[np.ndarray, np.ndarray | None]


def _nearest(resize: _Resize) -> _IndicesAndWeights:
    sources = np.floor(resize.list_results() * resize._replace(align=False).step())
    return np.minimum(sources, resize.n - 1)[None].astype(int), None


def _nearest_exact(resize: _Resize) -> _IndicesAndWeights:
    step = resize._replace(align=False).step()
    sources = np.floor((resize.list_results() + resize.real(0.5)) * step)
    return np.clip(sources, 0, resize.n - 1)[None].astype(int), None


def _linear(resize: _Resize) -> _IndicesAndWeights:
    sources = np.maximum(resize.locate_sources(), 0)
    first = np.minimum(sources.astype(int), resize.n - 1)
    weight = np.clip(sources - first.astype(resize.real), 0, 1)
    return np.stack((first, np.minimum(first + 1, resize.n - 1))), np.stack((1 - weight, weight))


def cubic_weights(t: Any, a: float = -0.75) -> tuple:
    """Return the weights of four neighbors at distance t beyond the second (Keys, 1981)."""

    def inner(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return outer(t + 1), inner(t), inner(1 - t), outer(2 - t)


def cubic_slopes(t: Any, a: float = -0.75) -> tuple:
    """Return the derivatives of `cubic_weights` in t."""

    def inner(x: Any) -> Any:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def outer(x: Any) -> Any:
        return (3 * a * x - 10 * a) * x + 8 * a

    return outer(t + 1), inner(t), -inner(1 - t), -outer(2 - t)


def _cubic(resize: _Resize) -> _IndicesAndWeights:
    sources = resize.locate_sources()
    first = np.floor(sources)
    weights = np.stack(cubic_weights(sources - first)).astype(resize.real)
    indices = first.astype(int) + np.arange(-1, 3)[:, None]
    return np.clip(indices, 0, resize.n - 1), weights


def _area(resize: _Resize) -> _IndicesAndWeights:
    i, n, out = np.arange(resize.out), resize.n, resize.out
    starts, ends = i * n // out, -(-(i + 1) * n // out)
    indices = starts + np.arange((ends - starts).max(initial=1))[:, None]
    weights = (indices < ends) / (ends - starts)
    return np.minimum(indices, n - 1), weights.astype(resize.real)


def _widen(
    resize: _Resize, filter: Callable[[np.ndarray], np.ndarray], reach: float
) -> _IndicesAndWeights:
    """Return the taps of a filter that widens with the step, so that downsampling averages."""
    step, real = resize.step(), resize.real
    support = real(reach) * step if step >= 1 else real(reach)
    inverse = real(1) / step if step >= 1 else real(1)
    centers = step * (resize.list_results() + real(0.5))
    starts = np.maximum((centers - support + real(0.5)).astype(int), 0)
    ends = np.minimum((centers + support + real(0.5)).astype(int), resize.n)
    indices = starts + np.arange((ends - starts).max(initial=1))[:, None]
    weights = filter((indices - centers + real(0.5)) * inverse) * (indices < ends)
    return np.minimum(indices, resize.n - 1), (weights / weights.sum(0)).astype(real)


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _keys(x: np.ndarray) -> np.ndarray:
    x, a = np.abs(x), -0.5
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


TAPS: dict[str, Callable[[_Resize], _IndicesAndWeights]] = {
    "nearest": _nearest, "nearest-exact": _nearest_exact, "linear": _linear, "bilinear": _linear,
    "trilinear": _linear, "bicubic": _cubic, "area": _area,
}
SMOOTH_TAPS: dict[str, Callable[[_Resize], _IndicesAndWeights]] = {
    "bilinear": partial(_widen, filter=_triangle, reach=1.0),
    "bicubic": partial(_widen, filter=_keys, reach=2.0),
    "lanczos": partial(_widen, filter=_lanczos, reach=3.0),
}


@lru_cache(maxsize=256)
def compute_taps(
    axis: int, n: int, out: int, mode: str, align: bool, factor: float | None, smooth: bool,
    kind: Any, fixed_point: bool = False,
) -> Taps:
    """Return the taps along an axis of length n that is resampled to `out`.

    smooth: whether to average where the result is shorter. fixed_point: whether the image has
    eight-bit values; `kind` is float64 then.
    """
    choose_taps = (SMOOTH_TAPS if smooth else TAPS)[mode]
    indices, weights = choose_taps(_Resize(n, out, align, factor, kind))
    if fixed_point and weights is not None:
        weights = _round_weights(indices, weights)
    return Taps(axis, indices, weights)


def _round_weights(
    indices: np.ndarray, weights: np.ndarray, weight_bits: int = 15, max_fraction_bits: int = 22
) -> np.ndarray:
    """Round weights to multiples of a power of two, after adding those of equal indices.

    weight_bits: bits of the largest weight, beside its sign. max_fraction_bits: most bits below the
    point. Return float32 if sums of 255 times the weights are exact in it, else float64.
    """
    weights = weights.copy()
    for k in range(len(weights) - 1, 0, -1):
        is_repeated = indices[k] == indices[k - 1]
        weights[k - 1] += np.where(is_repeated, weights[k], 0)
        weights[k][is_repeated] = 0
    largest, bits = weights.max(initial=0), 0
    while bits < max_fraction_bits and int(0.5 + largest * 2.0 ** (bits + 1)) < 1 << weight_bits:
        bits += 1
    numbers = np.trunc(weights * 2.0**bits + np.copysign(0.5, weights))
    is_exact = 256 * np.abs(numbers).sum(0).max(initial=0) < 1 << 24
    return (numbers * 2.0**-bits).astype(np.float32 if is_exact else np.float64)
