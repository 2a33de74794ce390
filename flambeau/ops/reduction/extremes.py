"""Largest and smallest elements, of all or over axes, and where along an axis they are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.runtime.eager_kernels import EXTREMES_WITH_TANGENTS
from ...native.target.eager_costs import MAX_CACHED_LAYOUTS, MAX_COUNTED_ROW_ELEMENTS
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import refuse_complex
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dim, canonicalize_dims, means_all_axes
from ..core.operator import Array
from ..core.out import write_result
from ..core.registry import Declared, composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import reductions
from ..native.rows import find_extreme, reduce_axes
from .chosen_elements import jvp_of_values, vjp_of_values
from .reduce import Dims, parse_axes, round_to, spread
from .tangent_sums import are_plain, reduce_rows_with_tangents


def needs_elements(input: Array, dim: Dims, name: str) -> None:
    """Raise IndexError or RuntimeError if an extreme of no elements is requested."""
    axes = canonicalize_dims(dim, input.ndim) if dim is not None and dim != () else ()
    for axis in axes:
        if input.ndim and input.shape[axis] == 0:
            raise IndexError(
                f"{name}(): Expected reduction dim {axis} to have non-zero size."
            )
    if input.size == 0 and not axes:
        raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() "
                           "== 0. Specify the reduction dim with the 'dim' argument.")


def _share_among(is_extreme: Tensor, g: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """Divide the cotangent evenly among the extremes; NaN where there is none."""
    share = is_extreme.to(g.dtype)
    count = share.sum(None if means_all_axes(dim) else dim, True)
    return spread(g, is_extreme.shape, dim, keepdim) * share / count


def _take_tangent(
    ufunc: np.ufunc, input: Array, input_t: Array, y: Array, axes: tuple[int, ...] | None,
    keepdim: bool
) -> tuple[Array, Array] | None:
    """Return the extremes y and their tangent where none is shared; None for several axes."""
    if axes is not None and len(axes) != 1:
        return None
    is_extreme = input == (y if keepdim or axes is None else np.expand_dims(y, axes[0]))
    if np.count_nonzero(is_extreme) != y.size:  # ties share, NaN equals nothing
        return None
    axis = None if axes is None else axes[0]
    where = (np.argmax if ufunc is np.maximum else np.argmin)(input, axis, keepdims=True)
    if axis is None:
        return y, input_t.reshape(-1)[where].reshape(y.shape)
    return y, np.take_along_axis(input_t, where, axis).reshape(y.shape)


# -------------------------------------------------------------------------------- over axes


def _declare_extreme(name: str, ufunc: np.ufunc, doc: str) -> Declared:
    """Declare `amax` or `amin`."""

    kernel = f"{ufunc.__name__[:3]}_values_cpu"

    def body(input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
        refuse_complex(input, kernel)
        if not input.size:
            needs_elements(input, dim, name)
        axes = parse_axes(dim, input.ndim)
        if input.size > MAX_COUNTED_ROW_ELEMENTS \
                and (y := reduce_axes(ufunc, input, axes, keepdim)) is not None:
            return round_to(y, input.dtype)
        return np.asarray(ufunc.reduce(input, axes, keepdims=keepdim))

    body.__name__, body.__doc__ = name, doc
    result = opaque(ref=lambda x, dim=(), keepdim=False: ufunc.reduce(
        x, None if dim == () else dim, keepdims=keepdim), samples=reductions,
        extents_follow=True, kernel=kernel)(body)

    @result.vjp
    def _(g: Tensor, input: Tensor, y: Tensor, dim: Dims, keepdim: bool) -> Tensor:
        return _share_among(input == spread(y, input.shape, dim, keepdim), g, dim, keepdim)

    @result.value_and_jvp
    def _(
        input_t: Array | None, input: Array, dim: Dims, keepdim: bool
    ) -> tuple[Array, Array] | None:
        axes = parse_axes(dim, input.ndim)
        pair = reduce_rows_with_tangents(
            EXTREMES_WITH_TANGENTS, input, input_t, axes, keepdim, ufunc)
        if pair is not None or input_t is None or not are_plain(input, input_t):
            return pair
        return _take_tangent(ufunc, input, input_t, body(input, dim, keepdim), axes, keepdim)

    return result


amax = _declare_extreme(
    "amax", np.maximum, """Largest elements over the axes `dim`; ties share a gradient.

    >>> torch.amax(torch.tensor([[1, 5], [7, 3]]), dim=(0, 1)), torch.amax(torch.eye(2), 0)
    (tensor(7), tensor([1., 1.]))
    """)
amin = _declare_extreme(
    "amin", np.minimum, """Smallest elements over the axes `dim`; ties share a gradient.

    >>> torch.amin(torch.tensor([[1, 5], [7, 3]]), dim=(0, 1)), torch.amin(torch.eye(2), 0)
    (tensor(1), tensor([0., 0.]))
    """)


@composite(explains=True, node="AminmaxBackward0")
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None
) -> Any:
    """Return the minimum and maximum, over all elements or along an axis.

    >>> torch.aminmax(torch.tensor([[3, 1], [5, 2]]), dim=1)
    torch.return_types.aminmax(
    min=tensor([1, 2]),
    max=tensor([3, 5]))
    """
    refuse_eight_bit(input._array, "aminmax_cpu")
    refuse_complex(input._array, "aminmax_cpu")
    if dim is None and not input._array.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if dim is not None and input._array.ndim and not input.size(dim):
        raise IndexError(f"aminmax: Expected reduction dim {dim} to have non-zero size.")
    axes = () if dim is None else dim
    result = _AMINMAX(amin(input, axes, keepdim), amax(input, axes, keepdim))
    return result if out is None else write_result("aminmax", result, out, (input,))


_AMINMAX = return_type("aminmax", "min", "max")


# ----------------------------------------------------------------------------- of all elements


def _declare_extreme_of_all(name: str, ufunc: np.ufunc) -> Declared:
    """Declare max(input) or min(input)."""
    largest = ufunc is np.maximum

    def body(input: Array) -> Array:
        refuse_complex(input, f"{name}_all")
        if not input.size:
            needs_elements(input, None, name)
        if input.size > MAX_COUNTED_ROW_ELEMENTS \
                and (y := reduce_axes(ufunc, input, None, False)) is not None:
            return round_to(y, input.dtype)
        if input.size <= MAX_COUNTED_ROW_ELEMENTS and input.__class__ is Array \
                and input.dtype.kind != "V":
            position = input.argmax() if largest else input.argmin()
            return input.reshape(-1)[position, ...].copy()  # faster than ufunc.reduce
        return np.asarray(ufunc.reduce(input, None))

    body.__name__, body.__doc__ = f"_{name}_all", f"The {name} of all elements."
    result = opaque(name=f"_{name}_all", node=name.capitalize() + "Backward1", expose=(),
                    kernel=f"{name}_all",
                    ref=lambda x: ufunc.reduce(x, None),
                    samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {})]))(body)

    @result.vjp
    def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
        is_extreme = input == y
        if input.is_floating_point():
            is_extreme = is_extreme | input.isnan()
        return _share_among(is_extreme, g, None, False)

    return result


max_all = _declare_extreme_of_all("max", np.maximum)
min_all = _declare_extreme_of_all("min", np.minimum)


# ------------------------------------------------------------------------------ along an axis


def _find_first(
    input: Array, axis: int | None, largest: bool, keepdim: bool = False
) -> Array:
    """The index of the first extreme along an axis, or of all elements; NaN counts as extreme."""
    if input.dtype.kind == "c":
        raise RuntimeError("argmax/argmin are not implemented for complex dtypes")
    find: Callable[..., Array] = np.argmax if largest else np.argmin
    if input.size > MAX_COUNTED_ROW_ELEMENTS \
            and axis is not None and (y := find_extreme(find, input, axis)) is not None:
        return _insert_axis(y, axis) if keepdim else y
    if input.__class__ is np.ndarray:  # its method does the same, sooner
        y = np.asarray(input.argmax(axis) if largest else input.argmin(axis))
    else:
        y = np.asarray(find(input, axis))
    return y if axis is None or not keepdim else _insert_axis(y, axis)


def _insert_axis(y: Array, axis: int) -> Array:
    """An axis of length 1 where a reduction left one out: np.expand_dims, in half its time."""
    return y.reshape((*y.shape[:axis], 1, *y.shape[axis:]))


def _take_along(x: Array, indices: Array, axis: int) -> Array:
    """The element along an axis at each index: np.take_along_axis, in half its time."""
    if x.__class__ is not np.ndarray or not x.flags.c_contiguous:
        if indices.ndim == x.ndim:
            return np.take_along_axis(x, indices, axis)
        return np.take_along_axis(x, np.expand_dims(indices, axis), axis).squeeze(axis)
    if x.ndim == 1:
        return np.asarray(x.take(indices))
    if not x.size:
        return np.empty(indices.shape, x.dtype)
    inner = math.prod(x.shape[axis + 1 :])
    starts = _list_starts(x.shape, axis, indices.ndim == x.ndim) \
        if x.size <= MAX_COUNTED_ROW_ELEMENTS else _find_starts(x.shape, axis, indices.shape)
    return x.take((indices if inner == 1 else indices * inner) + starts)


def _find_starts(shape: tuple[int, ...], axis: int, result_shape: tuple[int, ...]) -> Array:
    """The position in a row-major array at which each of its vectors along an axis begins."""
    inner = math.prod(shape[axis + 1 :])
    rows = np.arange(0, math.prod(shape), shape[axis] * inner)[:, None]
    return (rows if inner == 1 else rows + np.arange(inner)).reshape(result_shape)


@functools.lru_cache(MAX_CACHED_LAYOUTS)
def _list_starts(shape: tuple[int, ...], axis: int, keepdim: bool) -> Array:
    """The same of a small array, whose positions are cached."""
    middle = (1,) if keepdim else ()
    return _find_starts(shape, axis, (*shape[:axis], *middle, *shape[axis + 1 :]))


def _declare_extreme_along(name: str, largest: bool) -> Declared:
    """Declare max(input, dim) or min(input, dim), which return the index too."""

    def body(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        if not input.ndim:
            canonicalize_dims(dim, 0)
            return input.copy(), np.zeros((), np.int64)
        if not input.size:
            needs_elements(input, dim, name)
        axis = canonicalize_dim(dim, input.ndim)
        indices = _find_first(input, axis, largest, keepdim)
        return _take_along(input, indices, axis), indices

    body.__name__, body.__doc__ = f"_{name}_dim", f"The {name} along an axis, and where it is."
    result = opaque(name=f"_{name}_dim", node=name.capitalize() + "Backward0", expose=(),
                    kernel=f"{name}_cpu",
                    result_type=return_type(name, "values", "indices"), constant_outputs=(1,),
                    index_output=1, ref=lambda x, dim: (np.max if largest else np.min)(x, dim),
                    samples=lambda rng: iter([((rng.normal(size=(3, 4)), 1), {})]))(body)
    result.vjp(vjp_of_values)
    result.jvp(jvp_of_values)
    return result


max_along, min_along = _declare_extreme_along("max", True), _declare_extreme_along("min", False)


def _declare_position(name: str, largest: bool) -> Declared:
    """Declare `argmax` or `argmin`."""

    def body(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        if input.dtype.kind == "b":
            raise RuntimeError(f"{name}(): does not support bool input")
        if dim is None:
            if not input.size:
                raise IndexError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                    "Specify the reduction dim with the 'dim' argument."
                )
            y = _find_first(input, None, largest)
            return y.reshape((1,) * input.ndim) if keepdim else y
        if not input.size:
            needs_elements(input, dim, name)
        axis = canonicalize_dim(dim, input.ndim)
        if not input.ndim:
            return np.zeros((), np.int64)
        return _find_first(input, axis, largest, keepdim)

    body.__name__ = name
    body.__doc__ = f"""The index of the {"largest" if largest else "smallest"} element, the first.

    Without `dim` it counts through the flattened tensor.

    >>> torch.{name}(torch.tensor([[1, 5], [7, 3]])), torch.{name}(torch.tensor([1, 5, 5]))
    (tensor({2 if largest else 0}), tensor({1 if largest else 0}))
    """
    return opaque(differentiable=False, index_output=0, kernel=f"{name}_cpu",
                  ref=lambda x, dim=None: getattr(np, name)(x, dim),
                  samples=lambda rng: iter([((rng.normal(size=(3, 4)),), {}),
                                            ((rng.normal(size=(3, 4)), 1), {})]))(body)


argmax, argmin = _declare_position("argmax", True), _declare_position("argmin", False)


# ---------------------------------------------------------------------------------- overloads


def _declare_overloads(
    name: str, of_all: Declared, along: Declared, elementwise: str, doc: str
) -> Declared:
    """Declare `max` or `min`, which choose among three operators by their arguments."""

    def function(
        input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None,
        **kwargs: Any
    ) -> Any:
        if "axis" in kwargs:
            dim = kwargs.pop("axis")
        if "keepdims" in kwargs:
            keepdim = kwargs.pop("keepdims")
        if kwargs:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if isinstance(dim, Tensor) or other is not None:
            y = getattr(input, elementwise)(dim if other is None else other)
            return y if out is None else write_result(elementwise, y, out)
        if dim is None:
            y = of_all(input)
            return y if out is None else write_result(f"{name}_all", y, out)
        return along(input, dim, keepdim, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composite()(function)


max = _declare_overloads(
    "max", max_all, max_along, "maximum", """The largest element, or of two tensors.

    max(input), max(input, dim, keepdim=False) with the first one's indices, max(input, other)
    element by element. RuntimeError for an empty tensor without `dim`.

    >>> torch.max(torch.tensor([1, 5, 3])), torch.max(torch.tensor([1, 5]), torch.tensor([3]))
    (tensor(5), tensor([3, 5]))
    >>> torch.max(torch.tensor([[1, 5], [7, 3]]), dim=1).indices
    tensor([1, 0])
    """)
min = _declare_overloads(
    "min", min_all, min_along, "minimum", """The smallest element, or of two tensors.

    min(input), min(input, dim, keepdim=False) with the first one's indices, min(input, other)
    element by element. RuntimeError for an empty tensor without `dim`.

    >>> torch.min(torch.tensor([1, 5, 3])), torch.min(torch.tensor([1, 5]), torch.tensor([3]))
    (tensor(1), tensor([1, 3]))
    >>> torch.min(torch.tensor([[1, 5], [7, 3]]), dim=1).indices
    tensor([0, 1])
    """)
