"""Adaptive pooling: a requested number of windows, spread evenly over the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....tensor.dtypes import BOOL, INTEGER
from ....tensor.layout import get_strides, is_channels_last
from ....tensor.layout import contiguous_format
from ....tensor.layout import memory_format as MemoryFormat
from ....tensor.meta import MetaArray, meta_array
from ....tensor.promotion import build_missing_kernel_error
from ....tensor.tensor import Tensor
from ...core.arguments.checks import freeze_integers
from ...core.errors import explain_attribute_error
from ...core.operator import Array
from ...core.output_layout import Layout, lay_out_again
from ...core.promotion import compute_dtype
from ...core.registry import opaque
from ...core.sample_inputs import Rng, Sample
from ...creation.copies import in_format
from . import array_pooling, pool_native
from .flat_indices import scatter_add_flat
from .pool_index_tables import Reach, list_adaptive_windows, turn_tables
from .ranks import publish_for_ranks

ARRAYS_COME_FROM_SHAPES = True  # for arrays passed to operators here: tensor/capture_marks.py


def _split_axis(n: int, m: int) -> list[tuple[int, int]]:
    """Return the m windows of an axis of n elements, which may overlap by one."""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _count_elements(spatial: Sequence[int], output: Sequence[int]) -> list[Array]:
    return [item.counts for item in list_adaptive_windows(spatial, output)]


def _turn_windows(spatial: Sequence[int], output: Sequence[int]) -> tuple[Reach, ...]:
    return tuple([turn_tables(item) for item in list_adaptive_windows(spatial, output)])


def _count_as_one(spatial: Sequence[int], output: Sequence[int]) -> list[Array]:
    return [np.ones(n) for n in spatial]


@lru_cache(maxsize=256)
def _measure_windows(spatial: tuple[int, ...], output: tuple[int, ...]) -> Array:
    """Return the number of elements of each window. Cached: do not write to it."""
    result = np.ones((), np.int64)
    for count in _count_elements(spatial, output):
        result = result[..., None] * count
    return result


def _spread(g: Array, spatial: tuple[int, ...], output: tuple[int, ...]) -> Array:
    """Distribute each window's cotangent to its elements."""
    shares = np.divide(g, _measure_windows(spatial, output).astype(compute_dtype(g.dtype)))
    n, count = len(spatial), prod(g.shape[: -len(spatial)]) * prod(spatial)
    if not g.size:
        return np.zeros((*g.shape[:-n], *spatial), g.dtype)
    native = pool_native.sum_windows(shares, n, count, _count_as_one, _turn_windows, spatial,
                                     output)
    if native is not None:
        return native
    return array_pooling.sum_windows(shares, n, _turn_windows, spatial, output)


def _average_windows(x: Array, output: tuple[int, ...]) -> Array:
    n = len(output)
    spatial = x.shape[-n:]
    if not all(output):
        return np.zeros((*x.shape[:-n], *output), x.dtype)
    native = pool_native.sum_windows(x, n, 0, _count_elements, list_adaptive_windows, spatial,
                                     output)
    if native is not None:
        return native
    inside = compute_dtype(x.dtype)
    total = array_pooling.sum_windows(
        x.astype(inside, copy=False), n, list_adaptive_windows, spatial, output)
    return (total / _measure_windows(spatial, output).astype(inside)).astype(x.dtype, copy=False)


def _samples(n: int) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        for size, out in ((4, 2), (5, 3)):
            x = rng.permutation(2 * size**n).reshape(1, 2, *(size,) * n) / 7.0
            yield (x, (out,) * n), {}

    return samples


def _reference(pick: Any) -> Callable[..., Any]:
    def ref(x: np.ndarray, output: tuple[int, ...]) -> np.ndarray:
        n = len(output)
        result = np.empty((*x.shape[:-n], *output))
        cells = [_split_axis(k, m) for k, m in zip(x.shape[-n:], output, strict=True)]
        for element in np.ndindex(*output):
            cell: Any = (Ellipsis, *[slice(*cells[i][j]) for i, j in enumerate(element)])
            result[(Ellipsis, *element)] = pick(x[cell], tuple(range(-n, 0)))
        return result

    return ref


def _declare_average(n: int) -> Any:
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveAvgPool{n}DBackward0"

    @opaque(linear_in="input", examples=("input",),
            layout=Layout.CHANNELS_LAST if n < 3 else Layout.CONTIGUOUS,
            name=f"_adaptive_avg_pool{n}d", node=node, expose=(), ref=_reference(np.mean),
            samples=_samples(n))
    def pool(input: Array, output: Any) -> Array:
        """Average over evenly spread windows."""
        if input.__class__ is MetaArray:
            return meta_array((*input.shape[:-n], *output), input.dtype)
        return _average_windows(input, output)

    @pool.vjp("input")
    def _(g: Tensor, input_shape: tuple[int, ...], output: Any, input_format: MemoryFormat
          ) -> Tensor:
        _check_cotangent("avg", g)
        form = input_format if n < 3 else contiguous_format
        return in_format(adjoint(g, input_shape[-n:], output), form)

    @opaque(linear_in="g", layout=Layout.FREE, examples=("g",),
            name=f"_adaptive_avg_pool{n}d_backward", expose=(), ref=None, samples=None)
    def adjoint(g: Array, spatial: Any, output: Any) -> Array:
        """The cotangent of the input."""
        return _spread(g, tuple(spatial), tuple(output)).astype(g.dtype, copy=False)

    @adjoint.vjp("g")
    def _(g: Tensor, output: Any) -> Tensor:
        return pool(g, output)

    return pool


def _find_maxima(input: Array, output: tuple[int, ...]) -> tuple[Array, Array]:
    n = len(output)
    spatial = input.shape[-n:]
    if not all(output):
        shape = (*input.shape[:-n], *output)
        return np.zeros(shape, input.dtype), np.zeros(shape, np.int64)
    native = pool_native.max_windows_with_indices(input, n, list_adaptive_windows, spatial, output)
    if native is not None:
        return native
    return array_pooling.find_maxima(input, n, list_adaptive_windows, spatial, output)


def _declare_largest(n: int) -> Any:
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveMaxPool{n}DBackward0"

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.CONTIGUOUS, examples=("input",),
            name=f"_adaptive_max_pool{n}d", node=node, expose=(), constant_outputs=(1,),
            ref=_reference(np.max), samples=_samples(n))
    def pool(input: Array, output: Any) -> tuple[Array, Array]:
        """Maxima of evenly spread windows, and their flat indices."""
        return _find_maxima(input, output)

    @pool.vjp("input")
    def _(gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...],
          input_format: MemoryFormat) -> Tensor:
        _check_cotangent("max", gs[0])
        form = input_format if n < 3 else contiguous_format
        return in_format(scatter_add_flat(gs[0], ys[1], input_shape[-n:]), form)

    return pool


_AVERAGES = {n: _declare_average(n) for n in (1, 2, 3)}
_MAXIMA = {n: _declare_largest(n) for n in (1, 2, 3)}


# --------------------------------------------------------------------------- public functions


def _read_sizes(name: str, n: int, size: Any) -> tuple:
    """Return requested lengths, of which some may be None; one number stands for n."""
    if not hasattr(size, "__iter__"):
        return (freeze_integers(name, "output_size", size),) * n
    freeze_integers(name, "output_size", [0 if m is None else m for m in size])
    sizes = tuple(size)
    return sizes * n if len(sizes) == 1 else sizes


def _choose_output(kind: str, n: int, input: Tensor, size: Any) -> tuple[int, ...]:
    """Return the requested lengths, those of the input for None. `kind`: "avg" or "max"."""
    name, is_max = f"adaptive_{kind}_pool{n}d", kind == "max"
    try:
        shape = input._array.shape
    except AttributeError as error:
        raise explain_attribute_error(
            error, name, _pool_averages, (input, size), {"n": n}) from None
    if n > 1 and isinstance(size, (tuple, list)) and len(shape) <= len(size):
        raise ValueError(f"Input dimension should be at least {len(size) + 1}")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}"
            if is_max else
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(shape)}"
        )
    sizes = _read_sizes(name, n, size)
    if len(sizes) != n:
        if n == 1:
            raise RuntimeError(
                f"{name}() argument 'output_size' should contain one int (got {len(sizes)})"
            )
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {n}"
                           if is_max else f"{name}: output_size must be {n}")
    result = tuple([k if m is None else int(m) for k, m in zip(shape[-n:], sizes, strict=True)])
    if min(result) < 0:
        raise RuntimeError(_describe_negative(name, n, shape, result, is_max))
    first = 1 if is_max or n == 3 else len(shape) - n  # means allow no channels
    if 0 in shape[first:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input "
            f"has sizes {list(shape)} with dimension {shape.index(0, first)} being empty"
        )
    if is_max or set(result) != {1}:  # means of whole images have a refusal of their own
        _check_dtype(name, n, input)
    return result


def _describe_negative(name: str, n: int, shape: tuple[int, ...], output: tuple[int, ...],
                       is_max: bool) -> str:
    if not is_max:
        return (f"{name}: elements of output_size must be greater than or equal to 0 but received "
                f"{{{', '.join(map(str, output))}}}")
    outer = [*(shape[:-n] if len(shape) > n + 1 else (1, *shape[:-n])), *[1] * (n == 1)]
    return f"Trying to create tensor with negative dimension {min(output)}: {[*outer, *output]}"


def _check_dtype(name: str, n: int, input: Tensor) -> None:
    if input.dtype.category in (BOOL, INTEGER):
        kernel = f"{name[:-2]}{max(n, 2)}d{'_cpu' if n > 2 else ''}"
        raise build_missing_kernel_error(kernel, input.dtype)


def _check_cotangent(kind: str, g: Any) -> None:
    """Raise RuntimeError for a cotangent that has an empty non-batch axis."""
    if g is None or g._array.size or 0 not in g._array.shape[1:]:
        return
    n = max(g._array.ndim - 2, 2)
    shape = list(g.shape) if g._array.ndim > 3 else [*g.shape[:-1], 1, *g.shape[-1:]]
    empty = shape.index(0, 1)
    raise RuntimeError(
        f"adaptive_{kind}_pool{n}d_backward(): Expected grad_output to have non-zero size for "
        f"non-batch dimensions, but grad_output has sizes {shape} with dimension {empty} being "
        "empty"
    )


def _average_images(input: Tensor, n: int) -> Tensor:
    """Return the mean of each image; if the input is channels last, the result is too."""
    result = input.mean(list(range(-n, 0)), True)
    array = result._array
    if n == 2 and array.__class__ is np.ndarray and array.ndim == 4 \
            and is_channels_last(input._array.shape, get_strides(input._array)):
        channels = array.shape[1]
        result._array = lay_out_again(array, (channels, 1, channels, channels))
    return result


@publish_for_ranks("adaptive_avg_pool{n}d", torch_ranks=(1,))
def _pool_averages(
    input: Tensor, output_size: int | Sequence[int | None] | None, *, n: int
) -> Tensor:
    """Means of `output_size` windows spread evenly.

    Input (batch, c, {axes}) or (c, {axes}). None keeps an axis as it is.

    >>> x = torch.tensor([0., 2., 4., 6.]).reshape{row}
    >>> torch.nn.functional.adaptive_avg_pool{n}d(x, {half}).flatten()
    tensor([1., 5.])
    """
    output = _choose_output("avg", n, input, output_size)
    if set(output) == {1} and (n > 1 or input.dtype.category in (BOOL, INTEGER)):
        return _average_images(input, n)
    result: Tensor = _AVERAGES[n](input, output)
    return result


@publish_for_ranks("adaptive_max_pool{n}d_with_indices")
@publish_for_ranks("adaptive_max_pool{n}d", (1,), ("torch",))
def _pool_maxima_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False,
    *, n: int
) -> Any:
    """Largest elements of evenly spread windows, and their indices in the flattened image.

    Input (batch, c, {axes}) or (c, {axes}). None keeps an axis as it is.

    >>> x = torch.tensor([0., 2., 4., 6.]).reshape{row}
    >>> y, indices = torch.nn.functional.adaptive_max_pool{n}d_with_indices(x, {half})
    >>> indices.flatten()
    tensor([1, 3])
    """
    return _MAXIMA[n](input, _choose_output("max", n, input, output_size))


@publish_for_ranks("adaptive_max_pool{n}d")
def _pool_maxima(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False,
    *, n: int
) -> Any:
    """Largest elements of `output_size` windows spread evenly.

    With `return_indices` also their indices in the flattened image.
    Input (batch, c, {axes}) or (c, {axes}). None keeps an axis as it is.

    >>> x = torch.tensor([0., 2., 4., 6.]).reshape{row}
    >>> torch.nn.functional.adaptive_max_pool{n}d(x, {half}).flatten()
    tensor([2., 6.])
    """
    result = _pool_maxima_with_indices(input, output_size, n=n)
    return result if return_indices else result[0]
