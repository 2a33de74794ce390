"""Adaptive pooling: a requested number of windows, spread evenly over the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...tensor.dtypes import BOOL, INTEGER
from ...tensor.layout import get_strides, is_channels_last
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.arguments.checks import freeze_integers
from ..core.errors import explain_attribute_error
from ..core.operator import Array, publish
from ..core.output_layout import Layout, lay_out_again
from ..core.promotion import compute_dtype
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from . import pool_native
from .flat_indices import scatter_add_flat
from .pool_index_tables import Reach, list_adaptive_windows, turn_tables

ARRAYS_COME_FROM_SHAPES = True  # for arrays passed to operators here: tensor/capture_marks.py


def _split_axis(n: int, m: int) -> list[tuple[int, int]]:
    """Return the m windows of an axis of n elements, which may overlap by one."""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


@lru_cache(maxsize=256)
def _list_elements(n: int, m: int) -> tuple[Array, Array]:
    """Return the elements of all m windows, one window after the other, and where each begins."""
    (windows,) = list_adaptive_windows((n,), (m,))
    indices = windows.indices
    return indices[indices >= 0], np.cumsum(windows.counts) - windows.counts


def _sum_windows(x: Array, axis: int, m: int) -> Array:
    """Sum the m windows along an axis. A window sees only its own elements: NaN and infinity
    elsewhere leave it alone."""
    if not m:
        return np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), x.dtype)
    elements, starts = _list_elements(x.shape[axis], m)
    return np.add.reduceat(x.take(elements, axis), starts, axis)


def _spread_along_axis(g: Array, axis: int, n: int) -> Array:
    """Add each window's number to its elements along an axis of n elements."""
    shape = (*g.shape[:axis], n, *g.shape[axis + 1 :])
    result = np.zeros(shape, g.dtype)
    m = g.shape[axis]
    if not m:
        return result
    elements, starts = _list_elements(n, m)
    counts = np.diff([*starts, elements.size])
    index: Any = (*(slice(None),) * axis, elements)
    np.add.at(result, index, g.take(np.repeat(np.arange(m), counts), axis))
    return result


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
    if g.size:
        native = pool_native.sum_windows(shares, n, count, _count_as_one, _turn_windows, spatial,
                                         output)
        if native is not None:
            return native
    for axis, length in enumerate(spatial, g.ndim - n):
        shares = _spread_along_axis(shares, axis, length)
    return shares


def _average_windows(x: Array, output: tuple[int, ...]) -> Array:
    n = len(output)
    spatial = x.shape[-n:]
    if all(output):
        native = pool_native.sum_windows(x, n, 0, _count_elements, list_adaptive_windows, spatial,
                                         output)
        if native is not None:
            return native
    inside = compute_dtype(x.dtype)
    values = x.astype(inside, copy=False)
    if all(m and k % m == 0 for k, m in zip(spatial, output, strict=True)):
        shape = [v for k, m in zip(spatial, output, strict=True) for v in (m, k // m)]
        axes = tuple(range(x.ndim - n + 1, x.ndim + n, 2))
        result = np.add.reduce(values.reshape(*x.shape[:-n], *shape), axes)
        size = 1
        for k, m in zip(spatial, output, strict=True):
            size *= k // m
        result /= inside.type(size)
    else:
        result = values
        for axis, m in enumerate(output, x.ndim - n):
            result = _sum_windows(result, axis, m)
        result = result / _measure_windows(spatial, output).astype(inside)
    return result.astype(x.dtype, copy=False)


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
    def _(g: Tensor, input_shape: tuple[int, ...], output: Any) -> Tensor:
        _check_cotangent("avg", g)
        return adjoint(g, input_shape[-n:], output)

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
    if all(output):
        native = pool_native.max_windows_with_indices(input, n, list_adaptive_windows, spatial,
                                                      output)
        if native is not None:
            return native
    flat = np.arange(int(np.prod(spatial))).reshape(spatial)
    lead = input.shape[:-n]
    y, indices = np.empty((*lead, *output), input.dtype), np.empty((*lead, *output), np.int64)
    cells = [_split_axis(k, m) for k, m in zip(spatial, output, strict=True)]
    for window in product(*[range(m) for m in output]):
        cell: Any = (Ellipsis, *[slice(*cells[i][j]) for i, j in enumerate(window)])
        element: Any = (Ellipsis, *window)
        part = input[cell]
        part = part.reshape(*lead, prod(part.shape[-n:]))
        best = part.argmax(-1)
        indices[element] = flat[cell].reshape(-1)[best]
        y[element] = np.take_along_axis(part, best[..., None], -1)[..., 0]
    return y, indices


def _declare_largest(n: int) -> Any:
    node = "SqueezeBackward1" if n == 1 else f"AdaptiveMaxPool{n}DBackward0"

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.CONTIGUOUS, examples=("input",),
            name=f"_adaptive_max_pool{n}d", node=node, expose=(), constant_outputs=(1,),
            ref=_reference(np.max), samples=_samples(n))
    def pool(input: Array, output: Any) -> tuple[Array, Array]:
        """Maxima of evenly spread windows, and their flat indices."""
        return _find_maxima(input, output)

    @pool.vjp("input")
    def _(gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...]) -> Tensor:
        _check_cotangent("max", gs[0])
        return scatter_add_flat(gs[0], ys[1], input_shape[-n:])

    return pool


# --------------------------------------------------------------------------- public functions


def _adaptive_pool(input: Tensor, output_size: Any) -> None:
    """The parameters of these functions, for error messages."""


def _read_sizes(name: str, n: int, size: Any) -> tuple:
    """Return requested lengths, of which some may be None; one number stands for n."""
    if not hasattr(size, "__iter__"):
        return (freeze_integers(name, "output_size", size),) * n
    freeze_integers(name, "output_size", [0 if m is None else m for m in size])
    sizes = tuple(size)
    return sizes * n if len(sizes) == 1 else sizes


def _choose_output(name: str, n: int, input: Tensor, size: Any) -> tuple[int, ...]:
    """Return the requested lengths, those of the input for None."""
    try:
        shape = input._array.shape
    except AttributeError as error:
        raise explain_attribute_error(error, name, _adaptive_pool, (input, size)) from None
    if n > 1 and isinstance(size, (tuple, list)) and len(shape) <= len(size):
        raise ValueError(f"Input dimension should be at least {len(size) + 1}")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}"
            if "max" in name else
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(shape)}"
        )
    sizes = _read_sizes(name, n, size)
    if len(sizes) != n:
        if n == 1:
            raise RuntimeError(
                f"{name}() argument 'output_size' should contain one int (got {len(sizes)})"
            )
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {n}"
                           if "max" in name else f"{name}: output_size must be {n}")
    result = tuple([k if m is None else int(m) for k, m in zip(shape[-n:], sizes, strict=True)])
    if "max" in name and any(m < 0 for m in result):
        outer = [*(shape[:-n] if len(shape) > n + 1 else (1, *shape[:-n])), *[1] * (n == 1)]
        raise RuntimeError("Trying to create tensor with negative dimension "
                           f"{min(result)}: {[*outer, *result]}")
    if any(m < 0 for m in result):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{', '.join(map(str, result))}}}"
        )
    first = 1 if "max" in name or n == 3 else len(shape) - n  # means allow no channels
    for axis in range(first, len(shape)):
        if shape[axis] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {axis} being empty"
            )
    _check_dtype(name, n, input)
    return result


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


def _describe(
    n: int, average_name: str, largest_name: str, avg_pool: Any, max_pool: Any, with_indices: Any
) -> None:
    """Set the docstrings of one rank's functions."""
    shape, axes = (1, 1, *(1,) * (n - 1), 4), {1: "length", 2: "h, w", 3: "d, h, w"}[n]
    shapes = f"""    Input (batch, c, {axes}) or (c, {axes}). None keeps an axis as it is.

    >>> x = torch.tensor([0., 2., 4., 6.]).reshape{shape}"""
    size = (*(None,) * (n - 1), 2) if n > 1 else 2
    avg_pool.__doc__ = f"""Means of `output_size` windows spread evenly.

{shapes}
    >>> torch.nn.functional.{average_name}(x, {size}).flatten()
    tensor([1., 5.])
    """
    max_pool.__doc__ = f"""Largest elements of `output_size` windows spread evenly.

    With `return_indices` also their indices in the flattened image.
{shapes}
    >>> torch.nn.functional.{largest_name}(x, {size}).flatten()
    tensor([2., 6.])
    """
    with_indices.__doc__ = f"""Largest elements of evenly spread windows, and their indices.

{shapes}
    >>> y, places = torch.nn.functional.{largest_name}_with_indices(x, {size})
    >>> places.flatten()
    tensor([1, 3])
    """


def _publish_functions(n: int) -> None:
    average, largest = _declare_average(n), _declare_largest(n)
    average_name, largest_name = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"

    def avg_pool(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
        output = _choose_output(average_name, n, input, output_size)
        if n > 1 and set(output) == {1}:
            return _average_images(input, n)
        return average(input, output)

    def max_pool(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:
        result = largest(input, _choose_output(largest_name, n, input, output_size))
        return result if return_indices else result[0]

    def with_indices(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:
        return largest(input, _choose_output(largest_name, n, input, output_size))

    _describe(n, average_name, largest_name, avg_pool, max_pool, with_indices)
    for function, name in ((avg_pool, average_name), (max_pool, largest_name),
                           (with_indices, f"{largest_name}_with_indices")):
        function.__name__ = function.__qualname__ = name
        publish(function, (name,), ("nn.functional",))
    if n == 1:
        publish(avg_pool, (average_name,), ("torch",))
        publish(with_indices, (largest_name,), ("torch",))


for _n in (1, 2, 3):
    _publish_functions(_n)
