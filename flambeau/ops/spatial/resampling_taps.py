"""Taps of interpolation: the input places and weights that each place of a result is made of.

Eight-bit images are resampled in fixed point, as in PyTorch: weights are rounded to multiples of
a power of two, and every axis is rounded to eight bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Taps(NamedTuple):
    """For each of `out` places along an axis: ascending input places (taps, out), and weights."""

    axis: int
    places: np.ndarray
    weights: np.ndarray | None  # None: one tap of weight 1


def _scale(n: int, out: int, align: bool, factor: float | None, kind: Any) -> Any:
    """How far apart results lie in the input, as PyTorch rounds it."""
    if align:
        return kind(n - 1) / kind(out - 1) if out > 1 else kind(0)
    return kind(1.0 / factor) if factor else kind(n) / kind(out)


def _nearest(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
    scale = _scale(n, out, False, factor, kind)
    return np.minimum(np.floor(np.arange(out).astype(kind) * scale), n - 1)[None].astype(int), None


def _nearest_exact(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
    scale = _scale(n, out, False, factor, kind)
    sources = np.floor((np.arange(out).astype(kind) + kind(0.5)) * scale)
    return np.clip(sources, 0, n - 1)[None].astype(int), None


def _locate_sources(n: int, out: int, align: bool, factor: float | None, kind: Any) -> np.ndarray:
    scale, sources = _scale(n, out, align, factor, kind), np.arange(out).astype(kind)
    return sources * scale if align else scale * (sources + kind(0.5)) - kind(0.5)


def _linear(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
    sources = np.maximum(_locate_sources(n, out, align, factor, kind), 0)
    first = np.minimum(sources.astype(int), n - 1)
    weight = np.clip(sources - first.astype(kind), 0, 1)
    return np.stack((first, np.minimum(first + 1, n - 1))), np.stack((1 - weight, weight))


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


def _cubic(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
    sources = _locate_sources(n, out, align, factor, kind)
    first = np.floor(sources)
    weights = np.stack(cubic_weights(sources - first)).astype(kind)
    indices = first.astype(int) + np.arange(-1, 3)[:, None]
    return np.clip(indices, 0, n - 1), weights


def _area(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
    i = np.arange(out)
    starts, ends = i * n // out, -(-(i + 1) * n // out)
    indices = starts + np.arange((ends - starts).max(initial=1))[:, None]
    weights = (indices < ends) / (ends - starts)
    return np.minimum(indices, n - 1), weights.astype(kind)


def _create_antialias_taps(filter: Callable, reach: float) -> Callable:
    """Taps of a filter that widens with the scale, so that downsampling averages."""

    def taps(n: int, out: int, align: bool, factor: float | None, kind: Any) -> tuple:
        scale = _scale(n, out, align, factor, kind)
        support = kind(reach) * scale if scale >= 1 else kind(reach)
        inverse = kind(1) / scale if scale >= 1 else kind(1)
        centers = scale * (np.arange(out).astype(kind) + kind(0.5))
        starts = np.maximum((centers - support + kind(0.5)).astype(int), 0)
        ends = np.minimum((centers + support + kind(0.5)).astype(int), n)
        indices = starts + np.arange((ends - starts).max(initial=1))[:, None]
        weights = filter((indices - centers + kind(0.5)) * inverse) * (indices < ends)
        return np.minimum(indices, n - 1), (weights / weights.sum(0)).astype(kind)

    return taps


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _keys(x: np.ndarray) -> np.ndarray:
    x, a = np.abs(x), -0.5
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


TAPS = {
    "nearest": _nearest, "nearest-exact": _nearest_exact, "linear": _linear, "bilinear": _linear,
    "trilinear": _linear, "bicubic": _cubic, "area": _area,
}
SMOOTH_TAPS = {
    "bilinear": _create_antialias_taps(_triangle, 1.0),
    "bicubic": _create_antialias_taps(_keys, 2.0),
    "lanczos": _create_antialias_taps(_lanczos, 3.0),
}


@lru_cache(maxsize=256)
def compute_taps(
    axis: int, n: int, out: int, mode: str, align: bool, factor: float | None, smooth: bool,
    kind: Any, fixed_point: bool = False,
) -> Taps:
    """Return the taps along an axis of n places that is resampled to `out`.

    smooth: whether to average where the result has fewer places. fixed_point: whether the image
    has eight-bit values; `kind` is float64 then.
    """
    indices, weights = (SMOOTH_TAPS if smooth else TAPS)[mode](n, out, align, factor, kind)
    return Taps(axis, indices, _round_weights(indices, weights) if fixed_point else weights)


def _round_weights(
    indices: np.ndarray, weights: np.ndarray, weight_bits: int = 15, max_fraction_bits: int = 22
) -> np.ndarray:
    """Round weights to multiples of a power of two, after adding those of equal places.

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
