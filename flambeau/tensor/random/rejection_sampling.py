"""Poisson, binomial, gamma and Dirichlet numbers by rejection sampling.

The number of words that an element uses depends on the words, so elements are drawn in sequence:
few in a Python loop (about a microsecond per draw), many in a kernel with the same results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType

import numpy as np

from ...native.loop_ir.stirling_tail import STIRLING_TAIL
from . import native
from .distributions import BFLOAT16, require, unit64
from .generator import Generator, default_generator

_WHOLE = 2.0**53  # below this, float64 represents every integer


class _Draws:
    """Draws float64 numbers one at a time; on exit the generator is positioned exactly after the
    last one used."""

    def __init__(self, generator: Generator | None) -> None:
        self._source = default_generator if generator is None else generator
        self._ahead: list[float] = []  # drawn ahead, in reverse order

    def __enter__(self) -> _Draws:
        self._source.lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.give_back(2 * len(self._ahead))
        self._source.lock.release()

    def uniform(self) -> float:
        """Draw a uniform number on [0, 1)."""
        if not self._ahead:
            count = max(self._source.spare_words() // 2, 1)
            self._ahead = unit64(self._source.words(2 * count))[::-1].tolist()
        return self._ahead.pop()

    def normal(self) -> float:
        """Draw a standard normal number; the generator keeps the second of each pair."""
        spare = self._source.next_normal
        if spare is not None:
            self._source.next_normal = None
            return spare
        first, second = self.uniform(), self.uniform()
        radius = math.sqrt(-2.0 * math.log1p(-second))
        angle = 2.0 * math.pi * first
        self._source.next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)


def poisson(rates: np.ndarray, generator: Generator | None = None) -> np.ndarray:
    """Draw a Poisson count for each rate, in the dtype and shape of `rates`."""
    dtype = rates.dtype
    require(dtype, dtype.kind == "f" or dtype == BFLOAT16, "poisson_cpu")
    widened = rates.astype(np.float64)
    kernel = native.make_sequential_drawer("poisson", widened.dtype, widened.size)
    if kernel is not None and ((widened >= 0) & (widened < _WHOLE)).all():
        spending = (widened > 0).astype(np.int64) + (widened >= 10)
        return _draw_by_kernel(kernel, [widened], spending, generator).astype(dtype)
    with _Draws(generator) as draws:
        counts = [_draw_poisson(rate, draws) for rate in widened.ravel().tolist()]
    return np.array(counts, np.float64).astype(dtype).reshape(rates.shape)


def _draw_poisson(rate: float, draws: _Draws) -> int:
    if not rate >= 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    if rate >= 10:
        return _draw_poisson_by_rejection(rate, draws)
    if rate == 0:
        return 0
    count, product, bound = 0, 1.0, math.exp(-rate)
    while True:
        product *= draws.uniform()
        if product <= bound:
            return count
        count += 1


def _draw_poisson_by_rejection(rate: float, draws: _Draws) -> int:
    """Draw by Hoermann, "The transformed rejection method for generating Poisson random
    variables", 1993."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    log_rate = math.log(rate)
    while True:
        u = draws.uniform() - 0.5
        v = draws.uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= quick:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        density = -rate + k * log_rate - math.lgamma(k + 1)
        if (
            v == 0.0
            or math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= density
        ):
            return k


def binomial(
    counts: np.ndarray, probabilities: np.ndarray, generator: Generator | None = None
) -> np.ndarray:
    """Draw the successes among `counts` trials of the given probabilities. Both must be float32 or
    both float64; they broadcast."""
    dtype = counts.dtype
    if probabilities.dtype != dtype:
        raise RuntimeError(
            f"binomial: Found dtype {probabilities.dtype.name} but expected {dtype.name}"
        )
    require(dtype, dtype.kind == "f" and dtype.itemsize > 2, "binomial_cpu")
    counts, probabilities = np.broadcast_arrays(counts, probabilities)
    kernel = native.make_sequential_drawer("binomial", dtype, counts.size)
    if kernel is not None and (np.abs(counts) < _WHOLE).all():
        spending = ((counts > 0) & (probabilities > 0) & (probabilities < 1)).astype(np.int64)
        return _draw_by_kernel(kernel, [counts, probabilities], spending, generator)
    rounded = float if dtype == np.float64 else _to_single
    with _Draws(generator) as draws:
        drawn = [
            _draw_binomial(count, p, rounded, draws)
            for count, p in zip(counts.ravel().tolist(), probabilities.ravel().tolist(),
                                strict=True)
        ]
    return np.array(drawn, np.float64).astype(dtype).reshape(counts.shape)


def _to_single(x: float) -> float:
    return float(np.float32(x))


def _draw_binomial(
    count: float, p: float, rounded: Callable[[float], float], draws: _Draws
) -> float:
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return count
    if math.isnan(count) or math.isnan(p):
        return math.nan if math.isnan(count) else 0.0
    if p <= 0.5:
        method = _draw_binomial_by_rejection if rounded(
            count * p
        ) >= 10 else _draw_binomial_by_waiting
        return method(count, p, rounded, draws)
    q = rounded(1.0 - p)
    method = _draw_binomial_by_rejection if rounded(count * q) >= 10 else _draw_binomial_by_waiting
    return count - method(count, q, rounded, draws)


def _draw_binomial_by_waiting(
    count: float, p: float, rounded: Callable[[float], float], draws: _Draws
) -> float:
    """Draw by summing geometric waiting times until they exceed `count`."""
    log_failure = rounded(math.log1p(-p))
    waited, successes = 0.0, 0.0
    while True:
        u = draws.uniform()
        waited += math.ceil(math.log(u) / log_failure) if u > 0 else math.inf
        if waited > count:
            return successes
        successes += 1


def _draw_binomial_by_rejection(
    count: float, p: float, rounded: Callable[[float], float], draws: _Draws
) -> float:
    """Draw by Hoermann's BTRS, "The generation of binomial random variates", 1993."""
    failure = rounded(1 - p)
    mean = rounded(count * p)
    deviation = rounded(math.sqrt(rounded(mean * failure)))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = mean + 0.5
    quick = 0.92 - 4.2 / b
    odds = rounded(p / failure)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = float(math.floor(rounded(rounded(count + 1) * p)))
    log, tail = math.log, _stirling_tail
    while True:
        u = draws.uniform() - 0.5
        v = draws.uniform()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = float(math.floor((2 * a / us + b) * u + c))
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= quick:
            return k
        bound = (
            (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * log(odds * (count - k + 1) / (k + 1))
            + tail(mode) + tail(count - mode) - tail(k) - tail(count - k)
        )
        if v == 0.0 or log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def _stirling_tail(k: float) -> float:
    if k < len(STIRLING_TAIL):
        return STIRLING_TAIL[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


def standard_gamma(shapes: np.ndarray, generator: Generator | None = None) -> np.ndarray:
    """Draw gamma numbers of unit scale with these shape parameters, float32 or float64."""
    dtype = shapes.dtype
    require(dtype, dtype.kind == "f" and dtype.itemsize > 2, "gamma_cpu")
    kernel = native.make_sequential_drawer("gamma", dtype, shapes.size)
    if kernel is not None:  # per element a uniform, and per two elements a pair for normals
        return _draw_by_kernel(kernel, [shapes], 2 * (shapes != 0), generator, spared=1)
    rounded = float if dtype == np.float64 else _to_single
    tiny = float(np.finfo(dtype).tiny)
    with _Draws(generator) as draws:
        drawn = [
            max(tiny, rounded(_draw_gamma(a, rounded, draws))) for a in shapes.ravel().tolist()
        ]
    return np.array(drawn, np.float64).astype(dtype).reshape(shapes.shape)


def _draw_by_kernel(
    kernel: Callable[..., None], parameters: list[np.ndarray], min_words: np.ndarray,
    generator: Generator | None, spared: int = 0,
) -> np.ndarray:
    """Call a kernel with more uniform numbers until it has drawn all elements.

    `min_words`: minimum of numbers that each element uses; all together may use `spared` fewer.
    """
    source = default_generator if generator is None else generator
    ordered = [np.ascontiguousarray(array) for array in parameters]
    drawn = np.empty(ordered[0].shape, ordered[0].dtype)
    # Minimum of numbers used by the elements from each position on.
    from_here = np.append(np.cumsum(min_words.reshape(-1)[::-1])[::-1], 0)
    with source.lock:
        waits = source.next_normal is not None
        place = np.array([0, 0, waits, 0, drawn.size], np.int64)
        waiting = np.array([source.next_normal or 0.0])
        uniforms = np.empty(0)
        while place[1] < drawn.size:
            # The rest was not enough for one element, so that element uses all of it and more.
            rest = uniforms[place[0] :]
            if from_here[place[1]]:
                surely = int(from_here[place[1]]) - spared - rest.size
                new = _draw_to_block_end(source, max(surely, 1))
                uniforms = np.concatenate((rest, new))
            place[0], place[3] = 0, uniforms.size
            kernel(place, waiting, uniforms, *ordered, drawn)
        source.give_back(2 * int(uniforms.size - place[0]))
        source.next_normal = float(waiting[0]) if place[2] else None
    return drawn.reshape(parameters[0].shape)


def _draw_to_block_end(source: Generator, count: int) -> np.ndarray:
    """Draw at least `count` uniform numbers, up to the end of the last one's block."""
    words = source.words(2 * count)
    return unit64(np.concatenate((words, source.words(source.spare_words() // 2 * 2))))


def _draw_gamma(alpha: float, rounded: Callable[[float], float], draws: _Draws) -> float:
    """Draw by Marsaglia and Tsang, "A simple method for generating gamma variables", 2000."""
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = (1 - draws.uniform()) ** rounded(1.0 / alpha)
        alpha = rounded(alpha + 1.0)
    d = rounded(alpha - _to_single(1.0 / 3.0))
    c = 1.0 / math.sqrt(9.0 * d)
    squeeze = _to_single(0.0331)
    while True:
        y = 0.0
        while y <= 0:
            x = draws.normal()
            y = 1.0 + c * x
        v = y * y * y
        u = 1 - draws.uniform()
        xx = x * x
        if u < 1.0 - squeeze * xx * xx:
            return scale * d * v
        if math.log(u) < 0.5 * xx + d * (1.0 - v + math.log(v)):
            return scale * d * v


def dirichlet(concentrations: np.ndarray, generator: Generator | None = None) -> np.ndarray:
    """Draw Dirichlet vectors along the last axis, float32 or float64."""
    dtype = concentrations.dtype
    require(dtype, dtype.kind == "f" and dtype.itemsize > 2, "dirichlet")
    gammas = standard_gamma(concentrations.astype(np.float64), generator)
    shares = (gammas / gammas.sum(axis=-1, keepdims=True)).astype(dtype)
    below_one = np.nextafter(dtype.type(1), dtype.type(0))
    bounded: np.ndarray = np.minimum(below_one, np.maximum(np.finfo(dtype).tiny, shares))
    return bounded
