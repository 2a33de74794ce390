"""Max unpooling: write maxima back to their original positions, zeros elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ....tensor.determinism import alert_not_deterministic
from ....tensor.dtypes import FROM_NUMPY
from ....tensor.promotion import legacy_name
from ....tensor.tensor import Tensor
from ...core.operator import Array
from ...core.output_layout import Layout
from ...core.registry import opaque
from ...core.sample_inputs import Rng, Sample
from ...native import gather_scatter
from .flat_indices import gather_flat
from .pool_checks import Pooling
from .ranks import publish_for_ranks


def _samples(n: int) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        indices = np.stack([rng.permutation(4**n)[: 2**n].reshape((2,) * n) for _ in range(2)])
        yield (rng.normal(size=(1, 2, *(2,) * n)), indices[None], (4,) * n), {}

    return samples


def _reference(x: np.ndarray, indices: np.ndarray, spatial: tuple[int, ...]) -> np.ndarray:
    result = np.zeros((*x.shape[: -len(spatial)], *spatial))
    flat = result.reshape(*x.shape[: -len(spatial)], -1)
    for position in np.ndindex(*x.shape):
        flat[(*position[: -len(spatial)], indices[position])] = x[position]
    return result


def _declare(n: int) -> Any:
    @opaque(linear_in="input", layout=Layout.CHANNELS_LAST if n < 3 else Layout.CONTIGUOUS,
            name=f"_max_unpool{n}d", expose=(), ref=_reference, samples=_samples(n),
            node="SqueezeBackward1" if n == 1 else f"MaxUnpool{n}DBackward0")
    def unpool(input: Array, indices: Array, spatial: Any) -> Array:
        """Write the elements to flat indices of images, zeros elsewhere."""
        alert_not_deterministic(f"max_unpooling{max(n, 2)}d_forward_out")
        size = int(np.prod(spatial))
        # As unsigned numbers, negative indices are large.
        if indices.size and int(indices.view(np.uint64).max()) >= size:
            invalid = indices[(indices < 0) | (indices >= size)].flat[0]
            volume = (*spatial, 1) if n == 1 else spatial
            raise RuntimeError(f"Found an invalid max index: {invalid} (output volumes are of size "
                               f"{'x'.join(map(str, volume))})")
        lead = input.shape[:-n]
        images = prod(lead)
        flat_indices, values = (a.reshape(images, prod(a.shape[-n:])) for a in (indices, input))
        result = np.empty((images, size), input.dtype)
        if not gather_scatter.put(result, 1, flat_indices, values, False, True):
            result.fill(0)
            if input.size:
                np.put_along_axis(result, flat_indices, values, -1)
        return result.reshape(*lead, *spatial)

    @unpool.vjp("input")
    def _(g: Tensor, indices: Tensor) -> Tensor:
        return gather_flat(g, indices, n)

    return unpool


_OPERATORS = {n: _declare(n) for n in (1, 2, 3)}


def _choose_output(n: int, input: Tensor, kernel: Any, stride: Any, padding: Any,
                   size: Any) -> tuple[int, ...]:
    """Return the output's lengths: the requested ones, if the pooling could have come from them."""
    name = f"max_unpool{n}d"
    kernel = Pooling(name, n, False).expand(kernel, "kernel_size")
    has_stride = stride is not None and stride not in ((), [])
    stride = Pooling(name, n, False).expand(stride, "stride") if has_stride else kernel
    pads = Pooling(name, n, False).expand(padding, "padding")
    spatial = input._array.shape[-n:]
    usual = [(m - 1) * s + k - 2 * p
             for m, s, k, p in zip(spatial, stride, kernel, pads, strict=True)]
    if size is None:
        return tuple(usual)
    size = tuple(size)
    if len(size) == n + 2:
        size = size[2:]
    if len(size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(size)}'"
        )
    for axis, (m, u, s) in enumerate(zip(size, usual, stride, strict=True)):
        if not u - s < m < u + s:
            raise ValueError(
                f'invalid output_size "{list(size)}" (dim {axis} must be between {u - s} and '
                f"{u + s})"
            )
    return size


def _check(n: int, input: Tensor, indices: Tensor, spatial: Sequence[int]) -> None:
    shape, rank = input._array.shape, max(n, 2)
    width = (1,) if n == 1 else ()  # one axis is a plane of width 1
    planes = [*shape, *width]
    if indices._array.dtype != np.int64:
        type_name = legacy_name(FROM_NUMPY[indices._array.dtype])
        described = "" if n == 3 else f" but got: {type_name}"
        raise RuntimeError(f"elements in indices should be type int64{described}")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got "
            f"a tensor with {len(planes)} dimensions."
        )
    if indices._array.shape != shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({planes}) but got indices tensor with shape: {[*indices.shape, *width]}"
        )
    for axis in range(1, len(shape)):
        if shape[axis] == 0:
            raise RuntimeError(
                f"max_unpooling{rank}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {planes} with dimension {axis} being empty."
            )


@publish_for_ranks("max_unpool{n}d")
def _unpool(
    input: Tensor, indices: Tensor, kernel_size: Sequence[int],
    stride: Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None, *, n: int
) -> Tensor:
    """Write maxima to the indices that max_pool{n}d returned, zeros elsewhere.

    `output_size` selects one of the sizes that pool to the input's size.

    >>> x = torch.tensor([1., 3., 2., 0.]).reshape{row}
    >>> y, indices = torch.nn.functional.max_pool{n}d(x, {pair}, return_indices=True)
    >>> torch.nn.functional.max_unpool{n}d(y, indices, {pair}).flatten()
    tensor([0., 3., 2., 0.])
    """
    spatial = _choose_output(n, input, kernel_size, stride, padding, output_size)
    _check(n, input, indices, spatial)
    result: Tensor = _OPERATORS[n](input, indices, spatial)
    return result
