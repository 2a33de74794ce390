"""Sorting and ranks: sort, argsort, topk, kthvalue, median, mode, searchsorted, bincount, histc."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...autograd.errors.missing_derivatives import record_without_derivative
from ...native.foundation.user_frames import warn_once
from ...native.target.eager_costs import MAX_INSERTION_SORT_LENGTH
from ...tensor.capture_marks import holds
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.meta import refuse_unknown_values
from ...tensor.narrow_dtypes import normalize_bools, refuse_eight_bit
from ...tensor.overlap import Overlap
from ...tensor.promotion import build_missing_kernel_error, legacy_name, refuse_complex
from ...tensor.tensor import Tensor, wrap
from ..core.arguments.checks import require_bool
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, shape_depends_on_values
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..creation.creation import public
from ..pointwise.selection import select
from . import sort_kernels
from .chosen_elements import (
    gather_along_axis, jvp_of_values, scatter_along_axis, vjp_of_values,
)


def _refuse_complex(input: Array, name: str) -> None:
    if input.dtype.kind == "c":
        raise RuntimeError(f'"{name}" does not support complex inputs ({FROM_NUMPY[input.dtype]})')


def _refuse_bool(input: Array, kernel: str) -> None:
    if input.dtype.kind == "b":
        raise build_missing_kernel_error(kernel, input.dtype)


def _order_stably(input: Array, axis: int, descending: bool) -> Array:
    """The indices that sort along an axis; NaN counts as largest."""
    if not descending:
        return np.argsort(input, axis, kind="stable")
    flipped = np.flip(input, axis)  # a stable descending order is the reverse of a reversed one
    result = np.flip(np.argsort(flipped, axis, kind="stable"), axis)
    return input.shape[axis] - 1 - result


def _turn(input: Array, axis: int) -> Array:
    """Return a contiguous array with axis `axis` last."""
    return np.ascontiguousarray(np.moveaxis(input, axis, -1))


def _find(
    input: Array, axis: int, k: int, descending: bool, find: Callable[[Array], Array],
    sorting: bool = False,
) -> tuple[Array, Array]:
    """Return k elements along an axis and their indices, as chosen by `find` from rows of keys."""
    if input.__class__ is not np.ndarray or not input.size:  # no values: any k will do
        indices = _order_stably(input, axis, descending).take(np.arange(k), axis)
        return np.take_along_axis(input, indices, axis), indices
    last = axis == input.ndim - 1
    x = np.ascontiguousarray(input) if last else _turn(input, axis)
    distinct = sort_kernels.sort_distinct(x, descending) if sorting else None
    if distinct is not None:
        result, indices = map(np.ascontiguousarray, distinct)
    else:
        order = sort_kernels.sort_small(x, descending) if sorting else None
        if order is None:
            keys = sort_kernels.map_to_keys(_flatten_rows(x), descending)
            order = find(keys).reshape(*x.shape[:-1], k)
        indices = order
        result = sort_kernels.gather_elements(x, indices)
    return (result, indices) if last else (np.moveaxis(result, -1, axis),
                                           np.moveaxis(indices, -1, axis))


def _flatten_rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _rows(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)),), {}
    yield (rng.normal(size=(3, 4)), 0, True), {}


@opaque(layout=Layout.PRESERVE,
        name="_sort", node="SortBackward0", expose=(), kernel="sorting_kernel_method_name",
        result_type=return_type(
    "sort", "values", "indices"), constant_outputs=(1,), index_output=1,
        samples=_rows,
    ref=lambda x, dim=-1, descending=False: np.sort(x, dim) if not descending
    else -np.sort(-x, dim))
def _sort(
    input: Array, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> tuple[Array, Array]:
    """Return sorted values along an axis and their original indices."""
    _refuse_complex(input, "sort")
    if input.dtype.kind == "b":
        input = normalize_bools(input)
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    return _find(input, axis, input.shape[axis], descending,
                 lambda keys: sort_kernels.sort_numbers(keys, bool(stable)), True)


@_sort.vjp
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...], dim: int
) -> Tensor:
    return scatter_along_axis(gs[0], ys[1], input_shape, dim, True)


@_sort.jvp
def _(input_t: Tensor, ys: tuple[Tensor, ...], dim: int) -> tuple[Tensor | None, ...]:
    return gather_along_axis(input_t, ys[1], dim, True), None


@composite(numpy_names=True)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = False, *,
    out: Tensor | Sequence[Tensor] | None = None
) -> Any:
    """Sort along an axis; return the sorted values and their indices.

    >>> torch.tensor([3, 1, 2]).sort().indices
    tensor([1, 2, 0])
    """
    if isinstance(dim, bool):
        dim, descending = -1, bool(dim)
    return _sort(input, dim, descending, bool(stable), out=out)


@composite(numpy_names=True)
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *,
    out: Tensor | None = None
) -> Tensor:
    """Return the indices that sort the tensor along an axis.

    `stable` keeps equal elements in their original order; `descending` puts the largest first.

    >>> torch.argsort(torch.tensor([30, 10, 20]))
    tensor([1, 2, 0])
    """
    y = _sort(input.detach(), dim, descending, stable)[1]
    return y if out is None else write_result("sort", y, out)


@composite()
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sort along the first axis.

    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """
    y = sort(input, 0)[0]
    return y if out is None else write_result("msort", y, out)


@opaque(name="topk", node="TopkBackward0", result_type=return_type("topk", "values", "indices"),
        constant_outputs=(1,), index_output=1, kernel="topk_cpu",
        ref=lambda x, k, dim=-1: -np.sort(-x, dim).take(np.arange(k), dim),
        samples=lambda rng: iter([((rng.normal(size=(3, 5)), 2), {}),
                                  ((rng.normal(size=(5, 3)), 3, 0), {})]))
def topk(
    input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """Return the k largest (or smallest) values along an axis, sorted, and their indices.

    >>> torch.topk(torch.tensor([30, 10, 20]), 2)
    torch.return_types.topk(
    values=tensor([30, 20]),
    indices=tensor([0, 2]))
    """
    _refuse_complex(input, "topk")
    k = operator.index(k)  # a tensor of one element, too
    if input.dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU")
    axis = canonicalize_dim(dim, input.ndim)
    n = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    if sorted and axis == input.ndim - 1 and k \
            and (ordered := sort_kernels.sort_distinct(input, largest)) is not None:
        values, indices = ordered
        return values[..., :k].copy(), indices[..., :k].copy()
    return _find(input, axis, k, largest, lambda keys: sort_kernels.find_least(keys, k))


@topk.vjp
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], input_shape: tuple[int, ...], dim: int
) -> Tensor:
    return scatter_along_axis(gs[0], ys[1], input_shape, dim, True)


@topk.jvp
def _(input_t: Tensor, ys: tuple[Tensor, ...], dim: int) -> tuple[Tensor | None, ...]:
    return gather_along_axis(input_t, ys[1], dim, True), None


def _select_of_few(input: Array, rank: int, keepdim: bool) -> tuple[Array, Array] | None:
    """Return the element of this rank and its index, for a few distinct elements on one axis."""
    if input.ndim != 1 or input.dtype.kind == "V":  # would miss bfloat16 NaN
        return None
    if (ordered := sort_kernels.sort_distinct(input, False)) is None:
        return None
    values, indices = [a[rank : rank + 1].copy() if keepdim else np.asarray(a[rank])
                       for a in ordered]
    return values, indices


@opaque(result_type=return_type("kthvalue", "values", "indices"), constant_outputs=(1,),
        index_output=1, kernel="kthvalue_cpu", overlap=Overlap.NONE,
        ref=lambda x, k, dim=-1, keepdim=False: np.sort(x, dim).take(k - 1, dim),
        samples=lambda rng: iter([((rng.normal(size=(3, 5)), 2), {})]))
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the k-th smallest value along an axis and its index; k counts from 1.

    Args:
        k: Which of them, counted from 1.

    >>> torch.kthvalue(torch.tensor([30, 10, 20]), 2)
    torch.return_types.kthvalue(
    values=tensor(20),
    indices=tensor(2))
    """
    axis = canonicalize_dim(dim, input.ndim)
    n = input.shape[axis] if input.ndim else 1
    if input.ndim and n == 0:
        raise IndexError(
            f"kthvalue(): Expected reduction dim {axis} to have non-zero size."
        )
    _refuse_bool(input, "kthvalue_cpu")
    if not 1 <= k <= n:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " f"{axis}")
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    if (y := _select_of_few(input, k - 1, keepdim)) is not None:
        return y
    values, indices = _find(
        input, axis, 1, False, lambda keys: sort_kernels.rank_numbers(keys, k - 1, False)
    )
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


kthvalue.vjp(vjp_of_values)
kthvalue.jvp(jvp_of_values)


def _find_middle(input: Array, axis: int, ignore_nan: bool) -> Array:
    """The index of the lower median along an axis, or of the first NaN unless NaN is ignored."""
    if input.dtype.kind == "V":  # NumPy does not sort bfloat16 NaNs to the end
        input = input.astype(np.float32)
    n, is_integral = input.shape[axis], input.dtype.kind in "iub"
    missing = np.zeros((), bool) if is_integral else np.isnan(input)
    if input.__class__ is np.ndarray and input.size and (is_integral or not missing.any()):
        x = _turn(input, axis)
        if n <= MAX_INSERTION_SORT_LENGTH:
            return np.argsort(input, axis, kind="stable").take([(n - 1) // 2], axis)
        result = sort_kernels.rank_numbers(sort_kernels.map_to_keys(_flatten_rows(x)), (n - 1) // 2,
                                           True)
        return np.moveaxis(result.reshape(*x.shape[:-1], 1), -1, axis)
    ranks = _order_stably(input, axis, False)
    if is_integral:
        return ranks.take([(n - 1) // 2], axis)
    counts = n - missing.sum(axis, keepdims=True)
    if not ignore_nan:
        lower = np.full(counts.shape, (n - 1) // 2)
        lower = np.where(counts < n, counts, lower)  # the first NaN follows the numbers
    else:
        lower = np.maximum(counts - 1, 0) // 2
    return np.take_along_axis(ranks, lower, axis)


def _create_empty_median(input: Tensor) -> Tensor:
    """Return NaN, cast to the input's dtype."""
    nan = np.array(np.nan)
    with np.errstate(invalid="ignore"):
        return wrap(nan.astype(input._array.dtype))


def _declare_median_of_all(name: str, along: Any) -> Any:
    @opaque(name=f"_{name}_all", node=f"{name.capitalize()}Backward0", expose=(),
            kernel="median_cpu",
            ref=lambda x: np.sort(x, None)[(x.size - 1) // 2],
            samples=lambda rng: iter([((rng.normal(size=(3, 5)),), {})]))
    def median_of_all(input: Array) -> Array:
        """The lower median of all elements."""
        refuse_complex(input, "median_cpu")
        _refuse_bool(input, "median_cpu")
        return np.asarray(along.operator.body(input.reshape(-1), 0)[0])

    @median_of_all.vjp
    def _(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
        """The cotangent, divided evenly among the elements that are equal to the median."""
        equal = input == y
        equal = equal | (input.isnan() & y.isnan()) if input.is_floating_point() else equal
        share = equal.to(g.dtype)
        return g * share / share.sum()

    return median_of_all


def _declare_median(name: str, ignore_nan: bool) -> Any:
    @opaque(name=f"_{name}_dim", node=f"{name.capitalize()}Backward1", expose=(),
            kernel="median_out",
            result_type=return_type(name, "values", "indices"), constant_outputs=(1,),
            index_output=1, ref=lambda x, dim: np.sort(x, dim).take((x.shape[dim] - 1) // 2, dim),
            samples=lambda rng: iter([((rng.normal(size=(3, 5)), 1), {})]))
    def along(input: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        """The lower median along an axis, and its index."""
        refuse_complex(input, "median_out")
        _refuse_bool(input, "median_out")
        axis = canonicalize_dim(dim, input.ndim)
        if not input.ndim:
            return input.copy(), np.zeros((), np.int64)
        if input.shape[axis] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
        if (y := _select_of_few(input, (input.size - 1) // 2, keepdim)) is not None:
            return y
        indices = _find_middle(input, axis, ignore_nan)
        values = np.take_along_axis(input, indices, axis)
        return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))

    along.vjp(vjp_of_values)
    along.jvp(jvp_of_values)

    whole = _declare_median_of_all(name, along)

    def function(
        input: Tensor, dim: int | None = None, keepdim: bool = False, *,
        out: Tensor | Sequence[Tensor] | None = None, axis: Any = None
    ) -> Tensor:
        dim = axis if dim is None else dim
        if dim is not None:
            return along(input, dim, keepdim, out=out)
        y = whole(input) if input._array.size else _create_empty_median(input)
        return y if out is None else write_result(name, y, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The lower median of all elements, or along an axis with its indices.

    {"NaN is left out" if ignore_nan else "A NaN makes the result NaN"}. Of an even number of
    elements it is the smaller of the two in the middle; `quantile(0.5)` is their mean.

    >>> torch.{name}(torch.tensor([1., {'float("nan")' if ignore_nan else "8."}, 3., 2.]))
    tensor(2.)
    """
    return composite(explains=True)(function)


median, nanmedian = _declare_median("median", False), _declare_median("nanmedian", True)


@opaque(result_type=return_type("mode", "values", "indices"), constant_outputs=(1,),
        index_output=1, kernel="mode_cpu",
        ref=lambda x, dim=-1: np.apply_along_axis(
            lambda row: max(sorted(set(row.tolist())), key=row.tolist().count), dim, x),
        samples=lambda rng: iter([((np.array([[1, 2, 2], [3, 1, 3], [4, 0, 0]]),), {}),
                                  ((np.array([[1.0, 2, 4], [1.5, 3, 5]]), 0), {})]))
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the most frequent value along an axis (smallest if tied) and its last index.

    >>> torch.mode(torch.tensor([3, 1, 3, 2]))
    torch.return_types.mode(
    values=tensor(3),
    indices=tensor(2))
    """
    refuse_complex(input, "mode_cpu")
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        return input.copy(), np.zeros((), np.int64)
    if input.shape[axis] == 0:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size.")
    values, indices = _find(input, axis, 1, False, sort_kernels.find_commonest)
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


mode.vjp(vjp_of_values)
mode.jvp(jvp_of_values)


# ------------------------------------------------------------------------------- quantiles


def _are_fractions(q: np.ndarray) -> Any:
    return np.all(np.logical_and(q >= 0, q <= 1))


def _declare_quantile(name: str, ignore_nan: bool) -> Any:
    def function(
        input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *,
        interpolation: str = "linear", out: Tensor | None = None
    ) -> Tensor:
        require_bool(name, "keepdim", keepdim)
        if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise RuntimeError(
                "quantile() interpolation must be one of linear, lower, higher, midpoint or "
                f"nearest, but got {interpolation}"
            )
        if input.dtype.name not in ("float32", "float64"):
            raise RuntimeError("quantile() input tensor must be either float or double dtype")
        if not isinstance(q, Tensor):
            if not 0 <= q <= 1:
                raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
            q = input.new_tensor(q)
        if q._array.ndim > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if not holds(q, _are_fractions):
            raise RuntimeError("quantile() q values must be in the range [0, 1]")
        y = _interpolate(input, q, dim, keepdim, interpolation, ignore_nan)
        return y if out is None else write_result(name, y, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Values below which the fractions `q` of the elements lie.

    {"NaN is left out" if ignore_nan else "A NaN makes the result NaN"}. The input is float32 or
    float64; `q` a number, or a vector, which becomes the first axis. RuntimeError for a `q`
    outside [0, 1].

    Args:
        dim: The axis to reduce. None: the flattened elements.

    >>> torch.{name}(torch.tensor([0., 1., 2., 4.]), torch.tensor([0.25, 0.5]))
    tensor([0.7500, 1.5000])
    """
    return composite(numpy_names=True, autocast=Policy.FULL)(function)


def _interpolate(input: Tensor, q: Tensor, dim: Any, keepdim: bool, interpolation: str,
                 ignore: bool) -> Any:
    rank = input._array.ndim
    if dim is None:
        x, axis = input.reshape(-1), 0
    else:
        axis = canonicalize_dim(dim, rank)
        x = input if rank else input.reshape(1)
    if not x._array.shape[axis]:
        raise RuntimeError("quantile() input tensor must be non-empty")
    values = x.movedim(axis, -1).sort(-1)[0]
    ranks = _find_ranks(values, q.reshape(-1), ignore)
    y = _interpolate_ranks(values, ranks.expand(*values._array.shape[:-1], q._array.size),
                           interpolation)
    y = y.movedim(-1, 0)
    if keepdim:
        y = y.unsqueeze(axis + 1) if dim is not None and rank else y.reshape((-1, *[1] * rank))
    return y if q._array.ndim else y.squeeze(0)


def _find_ranks(values: Tensor, q: Tensor, ignore_nan: bool) -> Tensor:
    """Return the fractional places of the quantiles `q` in sorted rows, whose NaN come last."""
    last = values._array.shape[-1] - 1
    if ignore_nan:
        present = values.isnan().logical_not_().sum(-1, keepdim=True)
        return q * (present - 1).clamp_(min=0)
    return select(values.narrow(-1, last, 1).isnan(), float(last), q * float(last))


def _interpolate_ranks(values: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    if interpolation == "nearest":
        return values.gather(-1, ranks.round().long())
    if interpolation == "lower":
        return values.gather(-1, ranks.long())
    above = values.gather(-1, ranks.ceil().long())
    if interpolation == "higher":
        return above
    places = ranks.long()
    below = values.gather(-1, places)
    return below.lerp(above, ranks - places if interpolation == "linear" else 0.5)


quantile, nanquantile = _declare_quantile("quantile", False), _declare_quantile("nanquantile", True)


# ---------------------------------------------------------------------- places and counting


def _search(row: Array, values: Array, side: Any) -> Array:
    """Return the places of values in a sorted row.

    In a row that ends in NaN PyTorch's bisection goes to the right of each NaN that it meets.
    """
    if not row.size or row.dtype.kind != "f" or row[-1] == row[-1]:
        return np.asarray(np.searchsorted(row, values, side))
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, row.size)
    for _ in range(int(row.size).bit_length()):
        middle = np.minimum((low + high) // 2, row.size - 1)
        at_middle, is_open = row[middle], low < high
        is_left = at_middle >= values if side == "left" else at_middle > values
        low = np.where(is_open & ~is_left, middle + 1, low)
        high = np.where(is_open & is_left, middle, high)
    return low


def _warn_of_copies(input: Any, sorted_sequence: Tensor, sorter: Tensor | None) -> None:
    for part, tensor in (("input value", input), ("boundary", sorted_sequence), ("sorter", sorter)):
        if isinstance(tensor, Tensor) and not tensor.is_contiguous():
            warn_once(
                f"torch.searchsorted(): {part} tensor is non-contiguous, this will lower the "
                "performance due to extra data copy when converting non-contiguous tensor to "
                f"contiguous, please use contiguous {part} tensor if possible. This message will "
                "only appear once per program.")


def _check_search(rows: Array, values: Array, sorter: Tensor | None) -> None:
    """Raise RuntimeError for boundaries, values and orders that do not belong together."""
    name = "torch.searchsorted():"
    if not rows.ndim:
        raise RuntimeError(
            f"{name} boundaries tensor should have positive dimension, but got 0 dimension")
    if not values.ndim and rows.ndim > 1:
        raise RuntimeError(
            f"{name} input value can be a scalar only when boundaries tensor dimension is 1, but "
            f"we got boundaries tensor dim({rows.ndim}) and input value's dim(0) numel(1)")
    if sorter is None:
        return
    order = sorter._array
    if order.shape != rows.shape:
        raise RuntimeError(
            f"{name} boundary and sorter must have the same size, but got boundary tensor "
            f"{list(rows.shape)}and got sorter tensor {list(order.shape)}")
    if order.dtype != np.int64:
        raise RuntimeError(f"{name} sorter must be a tensor of long dtype but got dtype "
                           f"{legacy_name(sorter.dtype)}")
    if order.size and not 0 <= order.min() <= order.max() < rows.shape[-1]:
        raise RuntimeError(f"{name} sorter index out of range")


@public(explains=True)
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:
    """Return the indices at which to insert values into sorted rows.

    Args:
        input (Tensor or number): The values to place, (..., m).

    >>> rows = torch.tensor([[1, 3, 5], [2, 4, 6]])
    >>> torch.searchsorted(rows, torch.tensor([[3], [3]]))
    tensor([[1],
            [1]])
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(
            "torch.searchsorted(): side can only be 'left' or 'right' but got " + side
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    side_name: Any = "right" if right or side == "right" else "left"
    _warn_of_copies(input, sorted_sequence, sorter)
    rows = sorted_sequence._array
    values = input._array if isinstance(input, Tensor) else np.asarray(input)
    _check_search(rows, values, sorter)
    if sorter is not None:
        rows = np.take_along_axis(rows, sorter._array, -1)
    kind = np.int32 if out_int32 else np.int64
    if rows.ndim == 1:
        y = _search(rows, values, side_name).astype(kind)
    else:
        if rows.shape[:-1] != values.shape[:-1]:
            raise RuntimeError(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                "dimensions of boundaries tensor and input value tensor must match, but we got "
                f"boundaries tensor {list(rows.shape)} and input value tensor {list(values.shape)}"
            )
        y = np.empty(values.shape, kind)
        for index in np.ndindex(rows.shape[:-1]):
            y[index] = _search(rows[index], values[index], side_name)
    return wrap(y) if out is None else write_result("searchsorted", wrap(y), out)


@public(explains=True)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the index of the bucket that each value falls into.

    `right`: a value equal to a boundary belongs to the bucket on its right.

    Args:
        input (Tensor or number): The values to place, of any shape.

    >>> edges = torch.tensor([1, 3, 5])
    >>> torch.bucketize(torch.tensor([0, 3, 9]), edges)
    tensor([0, 1, 3])
    >>> torch.bucketize(torch.tensor([0, 3, 9]), edges, right=True)
    tensor([0, 2, 3])
    """
    if boundaries._array.ndim != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@shape_depends_on_values
@public(spaces=("torch", "Tensor"), explains=True)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Count occurrences of each non-negative integer, or sum the weights of each.

    Args:
        input: Integers, not negative, (n,).

    >>> torch.bincount(torch.tensor([0, 2, 2, 3]))
    tensor([1, 0, 2, 1])
    >>> torch.bincount(torch.tensor([0, 1, 1]), weights=torch.tensor([0.5, 1., 2.]), minlength=3)
    tensor([0.5000, 3.0000, 0.0000])
    """
    array = input._array
    refuse_eight_bit(array, "bincount_cpu")
    if array.dtype.kind not in "iu":
        raise build_missing_kernel_error("bincount_cpu", array.dtype)
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    refuse_unknown_values(input, "bincount.default")
    if weights is None or not array.size:
        return wrap(np.bincount(array, minlength=minlength).astype(np.int64))
    if weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    y = np.bincount(array, weights._array.astype(np.float64), minlength)
    y = y.astype(np.float32 if weights._array.dtype == np.float32 else np.float64)
    return record_without_derivative("bincount", wrap(y), (weights,))
