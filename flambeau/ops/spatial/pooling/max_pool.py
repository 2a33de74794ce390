"""Max pooling in one, two and three dimensions, with or without the places of the maxima."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....autograd.mode import MODE
from ....tensor.dtypes import bool_
from ....tensor.layout import memory_format as MemoryFormat
from ....tensor.meta import MetaArray, meta_array
from ....tensor.promotion import build_missing_kernel_error
from ....tensor.tensor import Tensor
from ...core.arguments.checks import freeze_integers, require_bool
from ...core.errors import explain_attribute_error
from ...core.operator import Array
from ...core.output_layout import Layout
from ...core.registry import Declared, composite, opaque
from ...core.sample_inputs import Rng, Sample
from ...creation.copies import in_format
from ...pointwise.selection import where as select
from ..conv_reference import Window
from .max_pool_reference import (
    find_maxima, find_maxima_and_indices, find_maxima_with_tangents, gather_at_maxima,
    gather_tangent, scatter_to_maxima,
)
from .pool_window import make_pooling_window
from .ranks import publish_for_ranks


def _sample_windows(n: int) -> Callable[[Rng], Iterator[Sample]]:
    def samples(rng: Rng) -> Iterator[Sample]:
        zeros = ((0, 0),) * n
        yield (rng.permutation(2 * 4**n).reshape(1, 2, *(4,) * n) / 7.0,
               Window((2,) * n, (2,) * n, zeros, (1,) * n)), {}
        yield (rng.permutation(2 * 5**n).reshape(1, 2, *(5,) * n) / 7.0,
               Window((3,) * n, (2,) * n, ((1, 1),) * n, (1,) * n)), {}

    return samples


def _reference(x: np.ndarray, window: Window) -> np.ndarray:
    n = len(window.kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + list(window.padding), constant_values=-np.inf)
    axes = tuple(range(x.ndim - n, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, window.kernel, axes)
    moves: Any = (..., *[slice(None, None, s) for s in window.stride], *[slice(None)] * n)
    return view[moves].max(tuple(range(-n, 0)))


def _refuse_dtype(input: Array, kernel: str) -> None:
    if input.dtype.kind in ("iubc" if kernel == "max_pool1d_impl" else "bc"):
        raise build_missing_kernel_error(kernel, input.dtype)


# ----------------------------------------------------------------------------------- operators


@opaque(linear_in="g", examples=("g", "input", "tops"),
        layout=Layout.FREE, name="_max_pool_placed", expose=(), ref=None, samples=None)
def _scatter(g: Array, input: Array, tops: Array, window: Window) -> Array:
    """Add windows' cotangents at the places of their maxima."""
    return scatter_to_maxima(g, input, tops, window)


@_scatter.vjp("g")
def _(g: Tensor, input: Tensor, tops: Tensor, window: Window) -> Tensor:
    return _gather(g, input, tops, window)


@_scatter.vjp("input tops")
def _(g: Tensor) -> None:
    return None  # which element is the largest does not change


@opaque(linear_in="input", examples=("u", "input", "tops"),
        layout=Layout.FREE, name="_max_pool_picked", expose=(), ref=None, samples=None)
def _gather(u: Array, input: Array, tops: Array, window: Window) -> Array:
    """Take the elements of u at the places of the windows' maxima."""
    return gather_at_maxima(u, input, window)


@_gather.vjp("u")
def _(g: Tensor, input: Tensor, tops: Tensor, window: Window) -> Tensor:
    return _scatter(g, input, tops, window)


@_gather.vjp("input tops")
def _(g: Tensor) -> None:
    return None


@opaque(layout=Layout.FREE, name="_max_pool_tangent", expose=(), differentiable=False, ref=None,
        samples=None)
def _tangent(t: Array, input: Array, window: Window) -> Array:
    """The elements of t at the places of the windows' maxima."""
    return gather_tangent(t, input, window)


def _gather_tangent(t: Tensor, indices: Tensor, n: int) -> Tensor:
    """Take the tangent's elements at the indices of maxima in the flattened image."""
    return t.flatten(-n).gather(-1, indices.flatten(-n)).reshape(indices.shape)


def _declare_operators(n: int) -> tuple[Declared, Declared]:
    """Declare the two operators of one rank: maxima, and maxima with their indices."""
    node = "SqueezeBackward1" if n == 1 else f"MaxPool{n}DWithIndicesBackward0"

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.VOLUME, examples=("input",),
            name=f"_max_pool{n}d", node=node, expose=(), ref=_reference,
            samples=_sample_windows(n))
    def pool_values(input: Array, window: Window) -> Array:
        """Maxima of windows."""
        _refuse_dtype(input, "max_pool1d_impl" if n == 1 else f"max_pool{n}d")
        if input.__class__ is MetaArray:
            return meta_array((*input.shape[:-n], *window.output(input.shape[-n:])), input.dtype)
        return find_maxima(input, window)

    @pool_values.vjp("input")
    def _(g: Tensor, y: Tensor, input: Tensor, window: Window, input_format: MemoryFormat
          ) -> Tensor:
        return in_format(_scatter(g, input, y, window), input_format)

    @pool_values.jvp
    def _(input_t: Tensor, input: Tensor, window: Window) -> Tensor:
        return _gather_tangent(input_t, pool_both(input.detach(), window)[1], n) if MODE.grad \
            else _tangent(input_t, input, window)

    @opaque(layout=Layout.CHANNELS_LAST if n < 3 else Layout.VOLUME, examples=("input",),
            name=f"_max_pool{n}d_with_indices", node=node, expose=(), constant_outputs=(1,),
            ref=_reference, samples=_sample_windows(n))
    def pool_both(input: Array, window: Window) -> tuple[Array, Array]:
        """Maxima of windows, and their indices in the flattened image."""
        _refuse_dtype(input, f"max_pool{max(n, 2)}d")
        return find_maxima_and_indices(input, window)

    @pool_both.vjp("input")
    def _(gs: tuple[Tensor, None], ys: tuple[Tensor, Tensor], input: Tensor, window: Window,
          input_format: MemoryFormat) -> Tensor:
        return in_format(_scatter(gs[0], input, ys[0], window), input_format)

    @pool_both.jvp
    def _(input_t: Tensor, ys: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        return _gather_tangent(input_t, ys[1], n), None

    return pool_values, pool_both


_VALUES: dict[int, Declared] = {}
_BOTH: dict[int, Declared] = {}
for _n in (1, 2, 3):
    _VALUES[_n], _BOTH[_n] = _declare_operators(_n)
    _VALUES[_n].value_and_jvp(find_maxima_with_tangents)


# ----------------------------------------------------------------------------- public functions


def _read_window(n: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: Any, with_indices: bool = False) -> Window:
    name = f"max_pool{n}d"
    try:
        shape = input._array.shape
    except AttributeError as error:
        raise explain_attribute_error(error, name, _pool, (input, kernel_size), {"n": n}) from None
    settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding,
                "dilation": dilation}
    caller = f"{name}_with_indices" if with_indices else name
    frozen = [freeze_integers(caller, argument, value, position)
              for position, (argument, value) in enumerate(settings.items(), 2)]
    return make_pooling_window(
        name, n, shape, *frozen, require_bool(name, "ceil_mode", ceil_mode), with_indices)


@publish_for_ranks("max_pool{n}d_with_indices")
@publish_for_ranks("max_pool{n}d_with_indices", (1,), ("torch",))
def _pool_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, n: int
) -> tuple[Tensor, Tensor]:
    """Largest element of each window, and its index in the flattened image.

    Input (batch, c, {axes}) or (c, {axes}).

    >>> x = torch.tensor([1., 3., 2., 0.]).reshape{row}
    >>> torch.nn.functional.max_pool{n}d_with_indices(x, {pair})[1].flatten()
    tensor([1, 2])
    """
    window = _read_window(n, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    result: tuple[Tensor, Tensor] = _BOTH[n](input, window)
    return result


@publish_for_ranks("max_pool{n}d")
def _pool(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, n: int
) -> Tensor:
    """Largest element of each window of an input (batch, c, {axes}) or (c, {axes}).

    The stride is the kernel's size where none is given; padding counts as -inf.
    With `return_indices` also the maxima's indices in the flattened image.

    >>> x = torch.tensor([1., 3., 2., 0.]).reshape{row}
    >>> torch.nn.functional.max_pool{n}d(x, {pair}).flatten()
    tensor([3., 2.])
    """
    window = _read_window(n, input, kernel_size, stride, padding, dilation, ceil_mode,
                          return_indices)
    result: Tensor = (_BOTH if return_indices else _VALUES)[n](input, window)
    return result


@publish_for_ranks("max_pool{n}d", spaces=("torch",))
def _pool_values(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, *, n: int
) -> Tensor:
    """Largest element of each window of an input (batch, c, {axes}) or (c, {axes}).

    The stride is the kernel's size where none is given; padding counts as -inf.

    >>> x = torch.tensor([1., 3., 2., 0.]).reshape{row}
    >>> torch.max_pool{n}d(x, {pair}).flatten()
    tensor([3., 2.])
    """
    window = _read_window(n, input, kernel_size, stride, padding, dilation, ceil_mode)
    result: Tensor = _VALUES[n](input, window)
    return result


@composite(expose=("aten",), explains=True)
def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Tensor
) -> Tensor:
    """Return the cotangent of max_pool2d's input, from each window's to its maximum.

    >>> x = torch.tensor([[[1., 3.], [2., 0.]]])
    >>> y, at = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> torch.ops.aten.max_pool2d_with_indices_backward(y, x, 2, 2, 0, 1, False, at)
    tensor([[[0., 3.],
             [0., 0.]]])
    """
    flat = grad_output.new_zeros((*input.shape[:-2], input.shape[-2] * input.shape[-1]))
    flat_indices, g = indices.flatten(-2), grad_output.flatten(-2)
    y = flat.scatter_add(-1, flat_indices, g).reshape(input.shape)
    if not input.requires_grad:
        return y
    return select(y.new_zeros((), dtype=bool_), input, y)  # its own derivative by `input` is zero
