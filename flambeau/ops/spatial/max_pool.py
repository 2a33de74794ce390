"""Max pooling in one, two and three dimensions, with or without the places of the maxima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...native.target.eager_costs import POOL_BLOCK_ELEMENTS
from ...tensor.dtypes import FROM_NUMPY, bool_
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.errors import not_a_tensor
from ..core.output_layout import Layout
from ..core.registry import Array, composite, opaque, publish
from ..core.sample_inputs import Rng, Sample
from ..pointwise.selection import where as select
from . import pool_native
from .conv_reference import Window
from .pool_index_tables import windows
from .pool_window import key_of, pooling_window


def _lowest(kind: np.dtype) -> Any:
    return -np.inf if kind.kind in "fV" else np.iinfo(kind).min


def _pad(x: Array, window: Window) -> Array:
    """x (images, ...) with the lowest value around it."""
    if not any(lo or hi for lo, hi in window.padding):
        return x
    shape = [m + lo + hi for m, (lo, hi) in zip(x.shape[1:], window.padding, strict=True)]
    result = np.full((len(x), *shape), _lowest(x.dtype), x.dtype)
    result[_inside(x.shape[1:], window)] = x
    return result


def _inside(spatial: Sequence[int], window: Window) -> tuple:
    return (slice(None), *[
        slice(lo, lo + m) for m, (lo, _) in zip(spatial, window.padding, strict=True)
    ])


def _elements_under(x: Array, window: Window, at: Sequence[int], output: Sequence[int]) -> Array:
    """The elements under one position of every window, as a view (images, output...)."""
    return x[(slice(None), *[
        slice(i * d, i * d + s * (m - 1) + 1, s)
        for i, d, s, m in zip(at, window.dilation, window.stride, output, strict=True)
    ])]


def _along(x: Array, axis: int, i: int, window: Window, m: int) -> Array:
    """The elements under position i of every window along `axis`, as a view of x (images, ...)."""
    s, start = window.stride[axis], i * window.dilation[axis]
    return x[(*(slice(None),) * (axis + 1), slice(start, start + s * (m - 1) + 1, s))]


def _largest(x: Array, window: Window, output: Sequence[int], y: Array) -> None:
    """Maxima of windows into y, one axis after the other."""
    last = len(output) - 1
    for axis, (k, m) in enumerate(zip(window.kernel, output, strict=True)):
        result = y if axis == last else None
        first = _along(x, axis, 0, window, m)
        if k == 1:
            x = first if result is None else np.positive(first, out=result)
            continue
        result = np.maximum(first, _along(x, axis, 1, window, m), out=result)
        for i in range(2, k):
            np.maximum(result, _along(x, axis, i, window, m), out=result)
        x = result


def _place_along(x: Array, y: Array, g: Array, axis: int, window: Window) -> Array:
    """Cotangents of the maxima y along one axis, at the first of x that is equal to each."""
    k, m = window.kernel[axis], y.shape[axis + 1]
    result = np.zeros(x.shape, g.dtype)
    apart = window.stride[axis] >= (k - 1) * window.dilation[axis] + 1
    free: Any = None
    for i in range(k):
        hit = free  # the rest belongs to the last position
        if i < k - 1:
            hit = _along(x, axis, i, window, m) == y
            if free is None:
                free = ~hit
            else:
                hit &= free
                free ^= hit
        target = _along(result, axis, i, window, m)
        if hit is None:
            target += g
        elif apart:
            np.multiply(g, hit, out=target)
        else:
            np.add(target, np.multiply(g, hit), out=target)
    return result


def _place_in_block(x: Array, g: Array, window: Window, output: Sequence[int]) -> Array:
    """Windows' cotangents at their maxima: rows first gave theirs to one row, then columns."""
    axes = range(len(output))
    stages = [x]
    for axis in reversed(axes):
        m, k = output[axis], window.kernel[axis]
        top = _along(stages[-1], axis, 0, window, m)
        if k > 1:
            top = np.maximum(top, _along(stages[-1], axis, 1, window, m))
            for i in range(2, k):
                np.maximum(top, _along(stages[-1], axis, i, window, m), out=top)
        stages.append(top)
    for axis in axes:
        y = stages.pop()
        g = _place_along(stages[-1], y, g, axis, window)
    return g


def _images(shape: Sequence[int], n: int) -> int:
    count = 1
    for m in shape[: len(shape) - n]:
        count *= m
    return count


def _blocks(count: int, each: int) -> Iterator[slice]:
    step = max(1, POOL_BLOCK_ELEMENTS // max(each, 1))
    for i in range(0, count, step):
        yield slice(i, i + step)


def _maxima(input: Array, window: Window) -> Array:
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.maxima(input, n, windows, window, spatial)
    if native is not None:
        return native
    output = window.output(spatial)
    y = np.empty((*input.shape[:-n], *output), input.dtype)
    x = input.reshape(_images(input.shape, n), *spatial)
    flat = y.reshape(len(x), *output)
    for part in _blocks(len(x), x[:1].size):
        _largest(_pad(x[part], window), window, output, flat[part])
    return y


def _first_inside(spatial: Sequence[int], window: Window, output: Sequence[int]) -> Array:
    """The flat index of each window's first element that is not padding."""
    flat = np.zeros((), np.int64)
    for m, s, (lo, _), d, length in zip(
        output, window.stride, window.padding, window.dilation, spatial, strict=True
    ):
        start = np.arange(m) * s - lo
        start = np.where(start < 0, start + -(start // d) * d, start)
        flat = flat[..., None] * length + start
    return flat


def _maxima_and_places(input: Array, window: Window) -> tuple[Array, Array]:
    n = len(window.kernel)
    spatial = input.shape[-n:]
    native = pool_native.places(input, n, windows, window, spatial)
    if native is not None:
        return native
    output = window.output(spatial)
    x = _pad(input.reshape(_images(input.shape, n), *spatial), window)
    y = np.full((len(x), *output), _lowest(input.dtype), input.dtype)
    places = np.empty(y.shape, np.int64)
    places[...] = _first_inside(spatial, window, output)
    flat = np.zeros(x.shape[1:], np.int64)
    flat[_inside(spatial, window)[1:]] = np.arange(flat[_inside(spatial, window)[1:]].size).reshape(
        spatial)
    for at in np.ndindex(*window.kernel):
        part = _elements_under(x, window, at, output)
        better = part > y
        if x.dtype.kind != "i":
            better |= part != part  # the last NaN wins
        np.copyto(y, part, where=better)
        np.copyto(places, _elements_under(flat[None], window, at, output), where=better)
    shape = (*input.shape[:-n], *output)
    return y.reshape(shape), places.reshape(shape)


def _selections(x: Array, y: Array, window: Window) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each window position, where it holds the window's first maximum."""
    output = y.shape[1:]
    x = _pad(x, window)
    free = np.ones(y.shape, np.bool_)
    nan = y != y if y.dtype.kind != "i" else None
    nan = nan if nan is not None and nan.any() else None
    for at in np.ndindex(*window.kernel):
        part = _elements_under(x, window, at, output)
        hit = part == y
        if nan is not None:
            hit |= nan & (part != part)
        hit &= free
        free ^= hit
        yield at, hit


def _window_samples(n: int):
    def samples(rng: Rng) -> Iterator[Sample]:
        zeros = ((0, 0),) * n
        yield (rng.permutation(2 * 4**n).reshape(1, 2, *(4,) * n) / 7.0,
               Window((2,) * n, (2,) * n, zeros, (1,) * n)), {}
        yield (rng.permutation(2 * 5**n).reshape(1, 2, *(5,) * n) / 7.0,
               Window((3,) * n, (2,) * n, ((1, 1),) * n, (1,) * n)), {}

    return samples


def _reference(x, window):
    n = len(window.kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + list(window.padding), constant_values=-np.inf)
    axes = tuple(range(x.ndim - n, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, window.kernel, axes)
    view = view[(Ellipsis, *[slice(None, None, s) for s in window.stride], *[slice(None)] * n)]
    return view.max(tuple(range(-n, 0)))


def _known(input: Array, n: int) -> None:
    if input.dtype.kind in "bc":
        kind = legacy_name(FROM_NUMPY[input.dtype])
        raise NotImplementedError(f"\"max_pool{n}d\" not implemented for '{kind}'")


@opaque(linear_in="g",
        layout=Layout.FREE, name="_max_pool_placed", expose=(), ref=None, samples=None)
def _placed(g: Array, input: Array, tops: Array, window: Window) -> Array:
    """Windows' cotangents at the places of their maxima."""
    n = len(window.kernel)
    spatial, output = input.shape[-n:], tops.shape[-n:]
    native = pool_native.maxima_backward(g, input, tops, n, windows, window, spatial)
    if native is not None:
        return native
    x = input.reshape(-1, *spatial)
    shares = g.reshape(len(x), *output)
    new = np.empty(x.shape, g.dtype)
    for part in _blocks(len(x), x[:1].size):
        result = _place_in_block(_pad(x[part], window), shares[part], window, output)
        new[part] = result[_inside(spatial, window)]
    return new.reshape(input.shape)


@_placed.vjp("g")
def _(g, input, tops, window):
    return _picked(g, input, tops, window)


@_placed.vjp("input tops")
def _(g):
    return None  # which element is the largest does not change


@opaque(linear_in="input",
        layout=Layout.FREE, name="_max_pool_picked", expose=(), ref=None, samples=None)
def _picked(u: Array, input: Array, tops: Array, window: Window) -> Array:
    """The elements of u at the places of the windows' maxima."""
    n = len(window.kernel)
    spatial, output = input.shape[-n:], tops.shape[-n:]
    values = _pad(u.reshape(-1, *spatial), window)
    result = np.zeros((len(values), *output), u.dtype)
    for at, hit in _selections(input.reshape(-1, *spatial), tops.reshape(result.shape), window):
        np.copyto(result, _elements_under(values, window, at, output), where=hit)
    return result.reshape(tops.shape)


@_picked.vjp("u")
def _(g, input, tops, window):
    return _placed(g, input, tops, window)


@_picked.vjp("input tops")
def _(g):
    return None


def _taken(t: Any, places: Any, n: int) -> Any:
    """The tangent's elements at the indices of maxima in the flattened image."""
    return t.flatten(-n).gather(-1, places.flatten(-n)).reshape(places.shape)


def _declare(n: int) -> tuple[Any, Any]:
    """The two operators of one rank: maxima, and maxima with their places."""
    node = "SqueezeBackward1" if n == 1 else f"MaxPool{n}DWithIndicesBackward0"

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.VOLUME,
            name=f"_max_pool{n}d", node=node, expose=(), ref=_reference,
            samples=_window_samples(n))
    def values(input: Array, window: Window) -> Array:
        """Maxima of windows."""
        _known(input, n)
        if input.__class__ is MetaArray:
            return meta_array((*input.shape[:-n], *window.output(input.shape[-n:])), input.dtype)
        return _maxima(input, window)

    @values.vjp("input")
    def _(g, y, input, window):
        return _placed(g, input, y, window)

    @values.jvp
    def _(input_t, input, window):
        return _taken(input_t, both(input.detach(), window)[1], n)

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.VOLUME,
            name=f"_max_pool{n}d_with_indices", node=node, expose=(), constant_outputs=(1,),
            ref=_reference, samples=_window_samples(n))
    def both(input: Array, window: Window) -> tuple[Array, Array]:
        """Maxima of windows, and their indices in the flattened image."""
        _known(input, n)
        return _maxima_and_places(input, window)

    @both.vjp("input")
    def _(gs, ys, input, window):
        return _placed(gs[0], input, ys[0], window)

    @both.jvp
    def _(input_t, ys):
        return _taken(input_t, ys[1], n), None

    return values, both


def _describe(n: int, name: str, pool: Any, torch_pool: Any, with_indices: Any) -> None:
    """The docstrings of a rank's functions."""
    axes = {1: "length", 2: "h, w", 3: "d, h, w"}[n]
    x = f"torch.tensor([1., 3., 2., 0.]).reshape{(1, *(1,) * (n - 1), 4)}"
    size = 2 if n == 1 else (*(1,) * (n - 1), 2)
    shapes = f"""of an input (batch, c, {axes}) or (c, {axes}).

    The stride is the kernel's size where none is given; padding counts as -inf."""
    pool.__doc__ = f"""Largest element of each window {shapes}
    With `return_indices` also the maxima's indices in the flattened image.

    >>> torch.nn.functional.{name}({x}, {size}).flatten()
    tensor([3., 2.])
    """
    torch_pool.__doc__ = f"""Largest element of each window {shapes}

    >>> torch.{name}({x}, {size}).flatten()
    tensor([3., 2.])
    """
    with_indices.__doc__ = f"""Largest element of each window, and its index in the flattened image.

    Input (batch, c, {axes}) or (c, {axes}).

    >>> x = {x}
    >>> torch.nn.functional.{name}_with_indices(x, {size})[1].flatten()
    tensor([1, 2])
    """


def _functions(n: int) -> None:
    name = f"max_pool{n}d"
    values, both = _declare(n)

    def find_maxima(input: Tensor, *settings: Any) -> Window:
        kernel, stride, padding, dilation, ceil_mode = settings
        try:
            shape = input._array.shape
        except AttributeError as error:
            raise not_a_tensor(error, name, pool, (input, kernel)) from None
        return pooling_window(name, n, shape, key_of(kernel), key_of(stride),
                              key_of(padding), key_of(dilation), bool(ceil_mode))

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                     return_indices=False):
        window = find_maxima(input, kernel_size, stride, padding, dilation, ceil_mode)
        return both(input, window)

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
             return_indices=False):
        window = find_maxima(input, kernel_size, stride, padding, dilation, ceil_mode)
        return both(input, window) if return_indices else values(input, window)

    def torch_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return values(input, find_maxima(input, kernel_size, stride, padding, dilation, ceil_mode))

    _describe(n, name, pool, torch_pool, with_indices)
    for function, own in ((pool, name), (torch_pool, name), (with_indices, f"{name}_with_indices")):
        function.__name__ = function.__qualname__ = own
    publish(pool, (name,), ("nn.functional",))
    publish(torch_pool, (name,), ("torch",))
    publish(with_indices, (f"{name}_with_indices",), ("nn.functional",))
    if n == 1:
        publish(with_indices, ("max_pool1d_with_indices",), ("torch",))


for _n in (1, 2, 3):
    _functions(_n)


@composite(expose=("aten",), explains=True)
def max_pool2d_with_indices_backward(
    grad_output, input, kernel_size, stride, padding, dilation, ceil_mode, indices
):
    """The cotangent of max_pool2d's input: each window's goes to the place of its maximum.

    >>> x = torch.tensor([[[1., 3.], [2., 0.]]])
    >>> y, at = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> torch.ops.aten.max_pool2d_with_indices_backward(y, x, 2, 2, 0, 1, False, at)
    tensor([[[0., 3.],
             [0., 0.]]])
    """
    flat = grad_output.new_zeros((*input.shape[:-2], input.shape[-2] * input.shape[-1]))
    at, g = indices.flatten(-2), grad_output.flatten(-2)
    y = flat.scatter_add(-1, at, g).reshape(input.shape)
    if not input.requires_grad:
        return y
    return select(y.new_zeros((), dtype=bool_), input, y)  # its own derivative by `input` is zero
