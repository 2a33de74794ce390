"""Average pooling in one, two and three dimensions, and power-average pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....tensor.layout import contiguous_format
from ....tensor.layout import memory_format as MemoryFormat
from ....tensor.meta import MetaArray, meta_array
from ....tensor.promotion import build_missing_kernel_error
from ....tensor.tensor import Tensor
from ...core.arguments.checks import freeze_integers, require_bool, require_int
from ...core.autocast import Policy
from ...core.operator import PUBLIC, Array
from ...core.output_layout import Layout
from ...core.promotion import compute_dtype
from ...core.registry import composite, opaque
from ...core.sample_inputs import Rng, Sample
from ...creation.copies import in_format
from ...native.row_copies import fill
from ...native.rows import reduce_axes
from ..conv_reference import Window
from . import array_pooling, pool_native
from .pool_checks import Pooling
from .pool_index_tables import Reach, list_windows, turn_tables
from .pool_window import make_pooling_window
from .ranks import publish_for_ranks


class Average(NamedTuple):
    """Parameters of average pooling: the window, and how to compute the divisors of its sums."""

    window: Window
    pads: tuple[int, ...]  # as requested; `window.padding` also covers what ceil_mode adds
    count_include_pad: bool
    divisor: int | None

    def divisors(self, spatial: Sequence[int]) -> Array:
        """Return the divisor of each sum, or one for all. Cached: do not write to it."""
        return _compute_divisors(self, tuple(spatial))


def _count_elements(average: Average, spatial: Sequence[int]) -> list[Array]:
    """Return factors for each axis, whose products are the divisors of the sums."""
    window, result = average.window, []
    for n, k, s, p, m in zip(spatial, window.kernel, window.stride, average.pads,
                             window.output(spatial), strict=True):
        start = np.arange(m) * s - p
        end = np.minimum(start + k, n + p)
        if not average.count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        result.append(end - start)
    if average.divisor is not None:
        result = [np.ones_like(item) for item in result]
        result[0] *= average.divisor
    return result


@lru_cache(maxsize=256)
def _compute_divisors(average: Average, spatial: tuple[int, ...]) -> Array:
    if average.divisor is not None:
        return np.asarray(average.divisor, np.int64)
    result = np.ones((), np.int64)
    for count in _count_elements(average, spatial):
        result = result[..., None] * count
    first = result.flat[0]
    return np.asarray(first) if (result == first).all() else result


def _reach(average: Average, spatial: Sequence[int]) -> tuple[Reach, ...]:
    """Return the windows along each axis."""
    return list_windows(average.window, spatial)


def _reach_back(average: Average, spatial: Sequence[int], divisor: int) -> tuple[Reach, ...]:
    """Return, for each element along each axis, the windows that contain it. The divisor is
    unused: pool_native passes both callbacks the same settings."""
    return tuple([turn_tables(window) for window in list_windows(average.window, spatial)])


def _spread_divisor(average: Average, spatial: Sequence[int], divisor: int) -> list[Array]:
    """Return factors for each axis, whose products are all `divisor`; only the first axis' differ
    from 1."""
    return [np.full(n, divisor if axis == 0 else 1) for axis, n in enumerate(spatial)]


def _covers_image(average: Average, spatial: Sequence[int]) -> bool:
    """Return whether the only window is the whole image."""
    window = average.window
    return window.kernel == tuple(spatial) and not any(lo or hi for lo, hi in window.padding)


def _spread_natively(g: Array, spatial: tuple[int, ...], average: Average, divisors: Array
                     ) -> Array | None:
    """Return the input's cotangent, computed by a kernel, or None if there is none."""
    shape, divisor = (*g.shape[: -len(spatial)], *spatial), 1
    if divisors.ndim:
        g = np.divide(g, divisors.astype(compute_dtype(g.dtype)))
    else:
        divisor = int(divisors)
    if g.dtype.kind == "f" and g.size and _covers_image(average, spatial):
        result = np.empty(shape, g.dtype)
        fill(result, np.broadcast_to(np.divide(g, g.dtype.type(divisor)), shape))
        return result
    return pool_native.sum_windows(g, len(spatial), prod(shape), _spread_divisor, _reach_back,
                                   average,
                                   spatial, divisor)


def _average_windows(input: Array, average: Average) -> Array:
    n = len(average.pads)
    spatial = input.shape[-n:]
    if input.__class__ is MetaArray:
        return meta_array((*input.shape[:-n], *average.window.output(spatial)), input.dtype)
    inside = compute_dtype(input.dtype)
    if inside == input.dtype and inside.kind == "f" and _covers_image(average, spatial):
        axes = tuple(range(input.ndim - n, input.ndim))
        total = reduce_axes(np.add, input, axes, True)
        total = np.add.reduce(input, axes, keepdims=True) if total is None else total
        return np.divide(total, average.divisors(spatial).astype(inside), out=total)
    native = pool_native.sum_windows(input, n, 0, _count_elements, _reach, average, tuple(spatial))
    if native is not None:
        return native
    divisors = average.divisors(spatial)
    y = array_pooling.sum_windows(
        input.astype(inside, copy=False), n, _reach, average, tuple(spatial))
    if inside.kind == "i":
        signs = np.sign(y) * np.sign(divisors)  # towards zero, as in C
        return (signs * (np.abs(y) // np.abs(divisors))).astype(input.dtype)
    return np.divide(y, divisors.astype(inside), out=y).astype(input.dtype, copy=False)


def _samples(n: int) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        zeros, ones = (0,) * n, (1,) * n
        window = Window((2,) * n, (2,) * n, ((0, 0),) * n, ones)
        yield (rng.normal(size=(1, 2, *(4,) * n)), Average(window, zeros, True, None)), {}
        window = Window((3,) * n, (2,) * n, ((1, 1),) * n, ones)
        yield (rng.normal(size=(1, 2, *(5,) * n)), Average(window, ones, False, None)), {}

    return samples


def _reference(x: np.ndarray, average: Any) -> np.ndarray:
    n, window = len(average.pads), average.window
    result = []
    for values in (x, np.ones(x.shape)):
        padded = np.pad(values, [(0, 0)] * (x.ndim - n) + list(window.padding))
        axes = tuple(range(x.ndim - n, x.ndim))
        view = np.lib.stride_tricks.sliding_window_view(padded, window.kernel, axes)
        strided: Any = (Ellipsis, *[slice(None, None, s) for s in window.stride],
                        *[slice(None)] * n)
        view = view[strided]
        result.append(view.sum(tuple(range(-n, 0))))
    return result[0] / (np.prod(window.kernel) if average.count_include_pad else result[1])


def _declare(n: int) -> Any:
    node = "SqueezeBackward1" if n == 1 else f"AvgPool{n}DBackward0"

    @opaque(linear_in="input", examples=("input",),
            layout=Layout.CHANNELS_LAST if n < 3 else Layout.CONTIGUOUS,
            name=f"_avg_pool{n}d", node=node, expose=(), ref=_reference,
            samples=_samples(n))
    def pool(input: Array, average: Average) -> Array:
        """Average of windows."""
        if input.dtype.kind in "bc":
            raise build_missing_kernel_error(f"avg_pool{n}d_out_frame", input.dtype)
        return _average_windows(input, average)

    @pool.vjp("input")
    def _(g: Tensor, input_shape: tuple[int, ...], average: Average, input_format: MemoryFormat
          ) -> Tensor:
        form = input_format if n < 3 else contiguous_format
        return in_format(adjoint(g, input_shape[-n:], average), form)

    @opaque(linear_in="g", layout=Layout.FREE, name=f"_avg_pool{n}d_backward", expose=(),
            examples=("g",), ref=None, samples=None)
    def adjoint(g: Array, spatial: Any, average: Average) -> Array:
        """The cotangent of the input."""
        inside, divisors = compute_dtype(g.dtype), average.divisors(spatial)
        native = _spread_natively(g, tuple(spatial), average, divisors)
        if native is not None:
            return native
        shares = np.divide(g, divisors.astype(inside), dtype=inside)
        y = array_pooling.sum_windows(shares, n, _reach_back, average, tuple(spatial), 1)
        return y.astype(g.dtype, copy=False)

    @adjoint.vjp("g")
    def _(g: Tensor, average: Average) -> Tensor:
        return pool(g, average)

    return pool


_operators = {n: _declare(n) for n in (1, 2, 3)}


def _run_pool(n: int, input: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: Any,
              count_include_pad: Any, divisor: Any) -> Any:
    name = f"avg_pool{n}d"
    if divisor is not None:
        require_int(name, "divisor_override", divisor)
        if divisor == 0:
            raise RuntimeError("divisor must be not zero")
    window = make_pooling_window(
        name, n, input._array.shape, freeze_integers(name, "kernel_size", kernel),
        freeze_integers(name, "stride", stride), freeze_integers(name, "padding", padding), 1,
        require_bool(name, "ceil_mode", ceil_mode))
    pads = Pooling(name, n, False).expand(padding, "padding")
    return _operators[n](input, Average(
        window, pads, require_bool(name, "count_include_pad", count_include_pad), divisor))


@composite(expose=("torch", "nn.functional"), explains=True)
def avg_pool1d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """Average each window of an input (batch, c, length) or (c, length).

    >>> torch.avg_pool1d(torch.tensor([[1., 3., 5., 7.]]), 2)
    tensor([[2., 6.]])
    """
    return _run_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@composite(expose=("nn.functional",), explains=True)
def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None
) -> Tensor:
    """Average each window of an input (batch, c, h, w) or (c, h, w).

    The stride defaults to the kernel size. `count_include_pad` includes the zero padding in the
    divisor; `divisor_override` replaces the window size as the divisor.

    >>> torch.nn.functional.avg_pool2d(torch.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _run_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                     divisor_override)


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None
) -> Tensor:
    """Average each window of an input (batch, c, d, h, w) or (c, d, h, w).

    >>> torch.nn.functional.avg_pool3d(torch.arange(8.).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return _run_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                     divisor_override)


@publish_for_ranks("lp_pool{n}d")
def _lp_pool(
    input: Tensor, norm_type: float, kernel_size: Any,
    stride: int | Sequence[int] | None = None, ceil_mode: bool = False, *, n: int
) -> Tensor:
    """(Sum of each window's elements to the power norm_type) ** (1 / norm_type).

    An infinite norm_type gives the largest absolute value.

    >>> x = torch.tensor([3., 4., 0., 5.]).reshape{row}
    >>> torch.nn.functional.lp_pool{n}d(x, 2, {pair}).flatten()
    tensor([5., 5.])
    """
    if norm_type in (math.inf, -math.inf):  # the maximum or minimum of the absolute values
        sign = 1 if norm_type > 0 else -1
        largest = PUBLIC["nn.functional"][f"max_pool{n}d"]
        y: Tensor = largest(input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode) * sign
        return y
    size = prod(Pooling(f"lp_pool{n}d", n, False).expand(kernel_size, "kernel_size"))
    mean = _run_pool(n, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    result: Tensor = (mean.sign() * mean.abs().relu()).mul(size).pow(1.0 / norm_type)
    return result
