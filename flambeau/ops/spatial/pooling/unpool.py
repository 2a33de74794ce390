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
from .pool_window import expand_to_axes
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
            raise RuntimeError(f"Found an invalid max index: {invalid} (output volumes are of size "
                               f"{'x'.join(map(str, spatial))})")
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
    kernel = expand_to_axes(kernel, n, name, "kernel_size")
    has_stride = stride is not None and stride not in ((), [])
    stride = expand_to_axes(stride, n, name, "stride") if has_stride else kernel
    pads = expand_to_axes(padding, n, name, "padding")
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
                f'invalid output_size "{size}" (dim {axis} must be between {u - s} and {u + s})'
            )
    return size


def _check(n: int, input: Tensor, indices: Tensor, spatial: Sequence[int]) -> None:
    shape = input._array.shape
    if indices._array.dtype != np.int64:
        type_name = legacy_name(FROM_NUMPY[indices._array.dtype])
        raise RuntimeError(f"elements in indices should be type int64 but got: {type_name}")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, but got a tensor "
            f"with {len(shape)} dimensions"
        )
    if indices._array.shape != shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) but "
            f"got indices tensor with shape: {list(indices.shape)}"
        )
    planes, rank = (*shape, 1) if n == 1 else shape, max(n, 2)  # one axis is a plane of width 1
    for axis in range(1, len(shape)):
        if shape[axis] == 0:
            raise RuntimeError(
                f"max_unpooling{rank}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {list(planes)} with dimension {axis} being empty."
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
