"""Fractional max pooling: windows at random, roughly even positions (Graham, 2014)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...core.operator import Array
from ...core.registry import opaque
from ...core.sample_inputs import Rng, Sample
from ...creation.random import rand
from .flat_indices import scatter_add_flat
from .pool_checks import Pooling
from .ranks import publish_for_ranks


def _place_windows(samples: Array, length: int, output: int, pool: int) -> Array:
    """Return the windows' starts along one axis, (n, c, output), from a number for each (n, c)."""
    numbers = np.arange(output, dtype=samples.dtype)
    result = np.empty((*samples.shape, output), np.int64)
    if output > 1:
        alpha = samples.dtype.type(length - pool) / samples.dtype.type(output - 1)
        u = samples[..., None]
        result[...] = ((numbers + u) * alpha).astype(np.int64) - (u * alpha).astype(np.int64)
    result[..., -1:] = length - pool
    return result


def _find_maxima(x: Array, samples: Array, pool: tuple, output: tuple) -> tuple[Array, Array]:
    """Return the windows' maxima and their flat indices."""
    n = len(pool)
    spatial = x.shape[-n:]
    # two axes take their random numbers from the last one on, three from the first one on
    order = list(reversed(range(n))) if n == 2 else list(range(n))
    starts = [
        _place_windows(samples[..., order[i]], spatial[i], output[i], pool[i]) for i in range(n)
    ]  # each (batch, c, output)
    y = np.full((*x.shape[:2], *output), -np.inf, x.dtype)
    indices = np.zeros(y.shape, np.int64)
    if not x.size or not y.size:
        return y, indices
    flat = x.reshape(*x.shape[:2], -1)
    for offset in np.ndindex(*pool):
        flat_index = np.zeros((*x.shape[:2], *(1,) * n), np.int64)
        for axis in range(n):
            line = starts[axis] + offset[axis]
            shape = [1] * n
            shape[axis] = output[axis]
            flat_index = flat_index * spatial[axis] + line.reshape(*x.shape[:2], *shape)
        part = np.take_along_axis(flat, flat_index.reshape(*x.shape[:2], -1), -1).reshape(y.shape)
        better = (part > y) | (part != part)
        y, indices = np.where(better, part, y), np.where(better, flat_index, indices)
    return y, indices


def _samples(n: int) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.permutation(2 * 5**n).reshape(1, 2, *(5,) * n) / 7.0
        yield (x, rng.random((1, 2, n)), (2,) * n, (3,) * n), {}

    return samples


def _declare(n: int) -> Any:
    @opaque(name=f"_fractional_max_pool{n}d", node=f"FractionalMaxPool{n}DBackward0", expose=(),
            constant_outputs=(1,), ref=None, samples=_samples(n))
    def pool(input: Array, random: Array, kernel: Any, output: Any) -> tuple[Array, Array]:
        """Maxima of windows that `random` places, and their flat indices."""
        return _find_maxima(input, random, kernel, output)

    @pool.vjp("input")
    def _(gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...]) -> Tensor:
        return scatter_add_flat(gs[0], ys[1], input_shape[-n:])

    return pool


_OPERATORS = {n: _declare(n) for n in (2, 3)}


def _expand_setting(value: Any, n: int, name: str, argument: str) -> tuple[int, ...]:
    """Return a setting for each of n axes, from one number or n. A tuple must have n of them."""
    if hasattr(value, "__len__") and len(value) != n:
        raise RuntimeError(f"{name}: {argument} must either be a single Int or tuple of "
                           f"{'three Ints' if n == 3 else 'Ints'}")
    return Pooling(name, n, False).expand(value, argument)


def _check_shape(n: int, caller: str, shape: tuple[int, ...]) -> None:
    rank = len(shape)
    if rank <= n:
        low, high = (-rank, rank - 1) if rank else (-1, 0)
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but "
                         f"got {-n - 1})")
    if rank > n + 2:
        raise RuntimeError(f"{caller}: Expected {n + 1}D or {n + 2}D tensor, but got: "
                           f"{list(shape)}")
    for axis in range(rank - n - 1, rank):
        if shape[axis] == 0:
            raise RuntimeError(f"{caller}: Expected input to have non-zero size for non-batch "
                               f"dimensions, but got{list(shape)} with dimension {axis} being "
                               "empty.")


def _choose_sizes(n: int, input: Tensor, kernel: Any, size: Any, ratio: Any) -> tuple[tuple, tuple]:
    name = f"fractional_max_pool{n}d"
    kernel = _expand_setting(kernel, n, name, "kernel_size")
    shape = input._array.shape
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if size is None:
        ratio = ratio if hasattr(ratio, "__len__") else (ratio,) * n
        if len(ratio) != n:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of "
                             "Ints.")
        if any(not 0 < r < 1 for r in ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {tuple(ratio)})")
        size = [int(k * r) for k, r in zip(shape[-n:], ratio, strict=True)]
    output = _expand_setting(size, n, name, "output_size")
    _check_shape(n, f"{name}{'_out' * (n == 3)}()", shape)
    axes = ("time", "height", "width")[-n:]
    for axis, window, count, length in zip(axes, kernel, output, shape[-n:], strict=True):
        if count < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {count}: "
                               f"{[*shape[:-n], *output]}")
        if count + window - 1 > length:
            raise RuntimeError(
                f"{name}{'_out' * (n == 3)}(): pool {axis} {window} too large relative to input "
                f"{axis} {length}"
            )
    return kernel, output


def _check_samples(n: int, x: Tensor, random: Tensor) -> None:
    if random.dim() != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {random.dim()}")
    if random.size(0) < x.size(0):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if random.size(1) != x.size(1):
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if random.size(2) != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n}; got {random.size(2)}.")
    if random.dtype is not x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")


@publish_for_ranks("fractional_max_pool{n}d_with_indices", (2, 3))
def _pool_with_indices(
    input: Tensor, kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None, *, n: int
) -> Any:
    """Fractional max pooling, with the flat indices of the maxima.

    >>> x = torch.zeros(1, 3, *[8] * {n})
    >>> y, indices = torch.nn.functional.fractional_max_pool{n}d_with_indices(x, 2, 5)
    >>> indices.shape == (1, 3, *[5] * {n}), indices.dtype
    (True, torch.int64)
    """
    kernel, output = _choose_sizes(n, input, kernel_size, output_size, output_ratio)
    x = input if input.dim() == n + 2 else input.unsqueeze(0)
    random = _random_samples
    if random is None:
        random = rand(x.size(0), x.size(1), n, dtype=input.dtype)
    _check_samples(n, x, random)
    random = random[: x.size(0)]  # each image takes its own numbers; there may be more
    y, indices = _OPERATORS[n](x, random, kernel, output)
    return (y, indices) if x is input else (y.squeeze(0), indices.squeeze(0))


@publish_for_ranks("fractional_max_pool{n}d", (2, 3))
def _pool(
    input: Tensor, kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None, *, n: int
) -> Any:
    """Largest elements of windows placed at random, nearly evenly.

    input (batch, c, {axes}) or (c, {axes}). The result has `output_size`, or `output_ratio`
    times the input's size; the windows may overlap. With `return_indices` also the maxima's flat
    indices. Graham, Fractional Max-Pooling, 2014.

    >>> x = torch.zeros(1, 3, *[8] * {n})
    >>> torch.nn.functional.fractional_max_pool{n}d(x, 2, output_size=5).shape[-1]
    5
    """
    result = _pool_with_indices(input, kernel_size, output_size, output_ratio, return_indices,
                                _random_samples, n=n)
    return result if return_indices else result[0]
