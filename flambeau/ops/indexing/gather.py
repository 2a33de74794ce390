"""Gather and scatter along an axis: gather, scatter and its reductions; take and put, with
positions in a flattened tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd._functions import DelayedError
from ...autograd.inplace import check_writable
from ...autograd.mode import MODE
from ...native.foundation.user_frames import add_notes
from ...native.target.eager_costs import MAX_NUMPY_GATHER_ELEMENTS
from ...tensor.capture_marks import shape_only
from ...tensor.determinism import alert_not_deterministic
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.meta import MetaArray
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.overlap import check_operands
from ...tensor.overlap import Overlap
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch
from ..core.axes import canonicalize_dim
from ..core.errors import broadcast_mismatch
from ..core.inplace import assign, overwrite
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque, writes_by_operators
from ..core.sample_inputs import Rng, Sample
from ..core.scalar_conversion import convert_scalar
from ..core.value_rules import INDEX_ALONG_AXIS, ValueRule
from ..creation.creation import public
from ..native import gather_scatter
from ..pointwise.selection import where

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)


def _check_dtype(index: Array, name: str) -> Array:
    if index.size and (index.dtype.kind not in "iu" or index.dtype.itemsize < 4):
        raise add_notes(
            RuntimeError(f"{name}(): Expected dtype int32/int64 for index"),
            f"The index is {FROM_NUMPY[index.dtype]}: index.long() makes it int64.",
        )
    return index


def are_all_below(index: Array, size: int) -> bool:
    """Return whether all int64 indices are in [0, size); False may also mean "unknown"."""
    if index.__class__ is not Array or index.dtype is not _INT64:
        return False
    unsigned = index.view(_UINT64)  # as unsigned, negative indices are too large
    if not 0 < index.size <= MAX_NUMPY_GATHER_ELEMENTS:
        return bool(np.maximum.reduce(unsigned, None, initial=0) < size)
    return unsigned.item(unsigned.argmax()) < size  # half of the overhead


def _check_range(index: Array, size: int, dim: int, negative: bool = False) -> None:
    outlier = find_outside(index, size, negative)
    if outlier is not None:
        raise RuntimeError(f"index {outlier} is out of bounds for dimension {dim} with size {size}")


def _check_flat_range(index: Array, size: int) -> None:
    outlier = find_outside(index, size, True)
    if outlier is not None:
        raise IndexError(
            f"out of range: tried to access index {outlier} on a tensor of {size} elements.")


def find_outside(index: Array, size: int, negative: bool = False) -> Any:
    """Return the first index out of [0, size), or if `negative` out of [-size, size); or None."""
    if index.__class__ is MetaArray:
        return None
    low = -size if negative else 0
    if are_all_below(index, size) or not index.size or (index.max() < size and index.min() >= low):
        return None
    return index[(index >= size) | (index < low)].reshape(-1)[0]


def _create_grid(index: Array, dim: int) -> tuple:
    """Return a NumPy index that uses `index` along one axis and positions along the others."""
    small = index.size <= MAX_NUMPY_GATHER_ELEMENTS
    result = _create_positions(index.shape) if small else _create_positions.__wrapped__(index.shape)
    return (*result[:dim], index, *result[dim + 1 :])


@functools.lru_cache(256)
def _create_positions(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the positions along each axis of a shape, broadcastable over the others."""
    return tuple(
        np.arange(n).reshape([n if k == i else 1 for k in range(len(shape))])
        for i, n in enumerate(shape)
    )


def _check_same_rank(name: str, a: Array, b: Array, subject: str = "self") -> None:
    if b.size and max(a.ndim, 1) != max(b.ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {subject} tensor"
        )


def _fits(name: str, index: Array, shape: tuple, dim: int, skip: bool, subject: str) -> None:
    if index.shape == shape:
        return
    for axis, (n, m) in enumerate(zip(index.shape, shape, strict=True)):
        if n > m and not (skip and axis == dim):
            raise RuntimeError(
                f"Size does not match at dimension {axis} expected index {list(index.shape)} to "
                f"be no larger than {subject} {list(shape)} apart from dimension {dim} ({name})"
            )


def _rows(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)), 1, rng.integers(0, 4, (3, 2))), {}
    yield (rng.normal(size=(3, 4)), 0, rng.integers(0, 3, (2, 4))), {}


@opaque(extents_follow=True, linear_in="input", kernel="scatter_gather_tensor_cpu",
        ref=lambda x, dim, index: np.take_along_axis(x, index, dim), samples=_rows,
        values=INDEX_ALONG_AXIS, overlap=Overlap.NONE)
def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Return input[index[i][j]][j] for dim 0, input[i][index[i][j]] for dim 1, and so on.

    `index` has as many axes as `input`; except along `dim`, none is longer than the input's. The
    result has the shape of `index`.

    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    _check_dtype(index, "gather")
    _check_same_rank("gather", input, index, "input")
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        _check_range(index, 1, 0)
        return np.full(index.shape, input)
    if not index.size:
        return np.empty(index.shape, input.dtype)
    if index.ndim:
        _fits("gather", index, input.shape, axis, True, "self")
    if (y := gather_scatter.take_within(input, axis, index)) is not None:
        return y
    _check_range(index, input.shape[axis], axis)
    if index.ndim == 0:
        return np.asarray(input[index])
    if input.ndim == 1:
        return input.take(index)
    return input[_create_grid(index, axis)] if (
        y := gather_scatter.take(input, axis, index)
    ) is None else y


@gather.batch
def _(batch: Batch, input: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    axis = canonicalize_dim(dim, input._array.ndim) + 1
    x, positions = batch.expand(input), batch.expand(index)
    if x.dim() == 1:  # examples without axes have one element
        x = x.unsqueeze(1)
    is_single = positions.dim() == 1
    y = gather(x, axis, positions.unsqueeze(1) if is_single else positions)
    return y.squeeze(1) if is_single else y


@gather.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], dim: int, index: Tensor) -> Tensor:
    return _scattered(g, dim, index, input_shape)


@opaque(linear_in="g", layout=Layout.FREE, name="_scattered", expose=(), ref=None, samples=None)
def _scattered(g: Array, dim: int, index: Array, shape: Any) -> Array:
    """Return zeros of a shape with `g` added at the indices along an axis."""
    if shape and index.ndim and index.size \
            and (y := gather_scatter.add_at(shape, dim % len(shape), index, g)) is not None:
        return y
    result = np.zeros(shape, g.dtype)
    if not shape:
        result += g.sum()
    elif index.ndim == 0:
        result[index] += g
    elif index.size:
        np.add.at(result, _create_grid(index, dim % len(shape)), g)
    return result


@_scattered.batch
def _(batch: Batch, g: Tensor, dim: int, index: Tensor, shape: Any) -> Tensor:
    g, index = batch.expand(g), batch.expand(index)
    if not shape:
        return g.reshape(batch.size, -1).sum(1)
    if index.dim() == 1:  # of each example one element
        g, index = g.unsqueeze(1), index.unsqueeze(1)
    return _scattered(g, dim % len(shape) + 1, index, (batch.size, *shape))


@_scattered.vjp("g")
def _(g: Tensor, dim: int, index: Tensor) -> Tensor:
    return gather(g, dim, index)


# ---------------------------------------------------------------------------------- scatter

_REDUCE = {
    "add": np.add, "sum": np.add, "multiply": np.multiply, "prod": np.multiply,
    "amax": np.maximum, "amin": np.minimum,
}


def _place_source(index: Array, src: Array) -> Array:
    return src if src.shape == index.shape else src[tuple(slice(0, n) for n in index.shape)]


def _check_scatter(name: str, input: Array, dim: int, index: Array, src: Any) -> int:
    _check_dtype(index, name)
    axis = canonicalize_dim(dim, input.ndim)
    if index.size == 0:
        return axis
    _check_same_rank(name, input, index)
    if input.ndim and index.ndim:
        _fits(name, index, input.shape, axis, True, "self")
    if isinstance(src, np.ndarray):
        _check_same_rank(name, src, index, "src")
        if src.ndim and index.ndim:
            _fits(name, index, src.shape, axis, False, "src")
        if src.dtype != input.dtype:
            raise add_notes(
                RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype"),
                f"self is {FROM_NUMPY[input.dtype]} and src {FROM_NUMPY[src.dtype]}: "
                "src.to(self.dtype).",
            )
    _check_range(index, input.shape[axis] if input.ndim else 1, axis)
    return axis


def _write_at(result: Array, axis: int, index: Array, value: Array, ufunc: Any) -> None:
    if index.size == 0:
        return
    if not result.ndim or not index.ndim:
        result, index, value = result.reshape(-1), index.reshape(-1), np.asarray(value).reshape(-1)
    if gather_scatter.put(result, axis, index, value, gather_scatter.OPERATIONS.get(ufunc, False)):
        return
    grid = _create_grid(index, axis)
    if ufunc is None:
        result[grid] = value
    else:
        ufunc.at(result, grid, value)


def _scatters(rng: Rng) -> Iterator[Sample]:
    index = np.array([[0, 2], [1, 0], [2, 1]])
    yield (rng.normal(size=(3, 4)), 1, index, rng.normal(size=(3, 2))), {}


def _scatter_ref(x: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    y = x.copy()
    np.put_along_axis(y, index, src, dim)
    return y


@opaque(linear_in="input + src",
        name="_scatter", node="ScatterBackward0", expose=(), ref=_scatter_ref, samples=_scatters,
        values=INDEX_ALONG_AXIS)
def _scatter(input: Array, dim: int, index: Array, src: Array) -> Array:
    """Return a copy with `src` written at the indices along an axis."""
    axis = _check_scatter("scatter", input, dim, index, src if src.ndim or not index.ndim else None)
    result = input.copy()
    _write_at(
        result, axis, index, _place_source(index, src) if src.ndim == index.ndim else src, None
    )
    return result


@_scatter.vjp("input")
def _(g: Tensor, dim: int, index: Tensor) -> Tensor:
    return _scatter(g, dim, index, wrap(np.zeros((), g._array.dtype)))


@_scatter.vjp("src")
def _(g: Tensor, dim: int, index: Tensor, src_shape: tuple[int, ...]) -> Tensor:
    result = gather(g, dim, index)
    if src_shape == result._array.shape:
        return result
    if not src_shape:
        return result.sum()
    return _embed(result, src_shape)


def _embed(g: Any, shape: Any) -> Any:
    """Embed the cotangent of a source's leading part in zeros of the source's shape."""
    from ..view.slices import place_in_window

    return place_in_window(g, shape, tuple(slice(0, n) for n in g._array.shape))


@opaque(linear_in="input + src",
        name="_scatter_add", node="ScatterAddBackward0", expose=(), ref=None, samples=_scatters,
        values=INDEX_ALONG_AXIS)
def _scatter_add(input: Array, dim: int, index: Array, src: Array) -> Array:
    """Return a copy with `src` added at the indices along an axis."""
    axis = _check_scatter("scatter_add", input, dim, index, src)
    result = input.copy()
    if index.size:
        _write_at(result, axis, index, _place_source(index, src), np.add)
    return result


@_scatter_add.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@_scatter_add.vjp("src")
def _(g: Tensor, dim: int, index: Tensor, src_shape: tuple[int, ...]) -> Tensor:
    result = gather(g, dim, index)
    return result if result._array.shape == src_shape else _embed(result, src_shape)


@composite()
def scatter_add(
    input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Return a copy of `input` with `src` added at indices along an axis; duplicates accumulate.

    >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 2, 2]), torch.tensor([1., 2., 3.]))
    tensor([1., 0., 5.])
    """
    y = _scatter_add(input, dim, index, src)
    return y if out is None else write_result("scatter_add", y, out)


@shape_only
def _scalar_source(input: Tensor, index: Tensor, value: Any) -> Tensor:
    return wrap(convert_scalar(value, input._array.dtype))


def _writes_number(*args: Any, src: Any = None, reduce: str | None = None, **_: Any) -> bool:
    return reduce is None and not isinstance(args[3] if len(args) > 3 else src, Tensor)


@composite(explains=True, node=("ScatterBackward0", "ScatterBackward1"), overload=_writes_number)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Tensor | None = None, *,
    value: Number | None = None, reduce: str | None = None, out: Tensor | None = None
) -> Tensor:
    """Return a copy of `input` with `src` (a tensor or number) written at indices along an axis.

    With `reduce`, values are combined instead of replaced.

    Args:
        src (Tensor or number): The values, at least as long as `index` along each axis.
        value (number): The value, instead of `src`.
        reduce: How to combine: 'add' or 'multiply'. None: replace.

    >>> index = torch.tensor([[0, 1], [2, 0]])
    >>> torch.scatter(torch.zeros(3, 2), 0, index, torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[1., 4.],
            [0., 2.],
            [3., 0.]])
    """
    source = src if src is not None else value
    if not isinstance(source, Tensor):
        refuse_eight_bit(input._array, "scatter_gather_scalar_cpu")
        source = _scalar_source(input, index, source)
        if reduce is not None:
            source = source.expand(*index._array.shape)
    if reduce is None:
        y = _scatter(input, dim, index, source)
    elif reduce in ("add", "multiply"):
        y = _scatter_add(input, dim, index, source) if reduce == "add" else reduce_by_index(
            input, dim, index, source, "prod", True)
    else:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return y if out is None else write_result("scatter", y, out)


@opaque(name="_scatter_reduce", node="ScatterReduceBackward0", expose=(), ref=None, samples=None)
def reduce_by_index(
    input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    """Return a copy with `src` reduced into it at the indices along an axis."""
    axis = _check_scatter("scatter_reduce", input, dim, index, src)
    result = input.copy()
    if not index.size:
        return result
    value = _place_source(index, src)
    if reduce == "mean":
        return _scatter_mean(result, axis, index, value, include_self)
    if not include_self:
        start = {"sum": 0, "prod": 1}.get(reduce)
        if start is None:
            start = _find_lowest(result.dtype) if reduce == "amax" else _find_highest(result.dtype)
        _write_at(result, axis, index, np.full(index.shape, start, result.dtype), None)
    with np.errstate(all="ignore"):
        _write_at(result, axis, index, value, _REDUCE[reduce])
    return result


def _find_lowest(kind: np.dtype) -> Any:
    return -np.inf if kind.kind in "fV" else False if kind.kind == "b" else np.iinfo(kind).min


def _find_highest(kind: np.dtype) -> Any:
    return np.inf if kind.kind in "fV" else True if kind.kind == "b" else np.iinfo(kind).max


def _scatter_mean(result: Array, axis: int, index: Array, value: Array,
                  include_self: bool) -> Array:
    counts = np.ones(result.shape, np.int64) if include_self else np.zeros(result.shape, np.int64)
    if not include_self:
        _write_at(result, axis, index, np.zeros(index.shape, result.dtype), None)
    _write_at(result, axis, index, value, np.add)
    _write_at(counts, axis, index, np.ones(index.shape, np.int64), np.add)
    counts = np.maximum(counts, 1)
    if result.dtype.kind in "iu":
        return result // counts.astype(result.dtype)
    return (result / counts.astype(result.dtype)).astype(result.dtype)


@reduce_by_index.vjp
def _(
    g: Tensor, input: Tensor, index: Tensor, src: Tensor, ys: tuple[Tensor, ...], dim: int,
    reduce: str, include_self: bool, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    y = ys
    if reduce == "sum":
        return (_keep(g, dim, index, include_self), None, gather(g, dim, index))
    if reduce == "mean":
        ones = src.new_ones(src.shape)
        count = _scatter_add(input.new_ones(input.shape) if include_self
                             else _keep(input.new_ones(input.shape), dim, index, False), dim, index,
                             ones)
        count = count.masked_fill(count == 0, 1)
        share = g / count
        return (_keep(share, dim, index, include_self), None, gather(share, dim, index))
    if reduce == "prod":
        return _differentiate_product(g, input, dim, index, src, include_self)
    chosen = gather(y, dim, index)
    from_src, from_self = (src == chosen).to(g.dtype), (input == y).to(g.dtype)
    ties = _scatter_add(from_self, dim, index, from_src)  # PyTorch counts a self left out, too
    share = g / ties.masked_fill(ties == 0, 1)
    return (_keep(share * from_self, dim, index, include_self), None,
            gather(share, dim, index) * from_src)


def _keep(g: Any, dim: Any, index: Any, include_self: Any) -> Any:
    """The part of a cotangent that reaches `input`: zero where it was replaced."""
    if include_self:
        return g
    return _scatter(g, dim, index, g.new_zeros(()))


def _differentiate_product(
    g: Any, input: Any, dim: Any, index: Any, src: Any, include_self: Any
) -> Any:
    base = input if include_self else _scatter(input, dim, index, input.new_ones(()))
    # The product without a factor: the quotient, or, if the factor is zero, the product of the
    # others. Both depend on all other factors, which second derivatives need.
    factor = base.masked_fill(base == 0, 1)
    of_self = reduce_by_index(factor, dim, index, src, "prod", True) / factor
    zero = src == 0
    zeros = gather(_scatter_add(zero.new_zeros(input.shape, dtype=g.dtype), dim, index,
                                zero.to(g.dtype)), dim, index)
    alone = zero & (zeros == 1)
    without = reduce_by_index(base, dim, index, src.masked_fill(alone, 1), "prod", True)
    product = reduce_by_index(base, dim, index, src, "prod", True)
    quotient = gather(product, dim, index) / src.masked_fill(zero, 1)
    of_src = where(alone, gather(without, dim, index), quotient)
    if MODE.grad and (zeros > 1).any():
        of_src = DelayedError(
            "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are "
            "scattered to the same position in self", 1)(of_src)
    return (_keep(g * of_self, dim, index, include_self), None, gather(g, dim, index) * of_src)


@composite()
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True,
    out: Tensor | None = None
) -> Tensor:
    """Return a copy of `input` with `src` reduced into it at indices along an axis.

    `reduce` is 'sum', 'prod', 'mean', 'amax' or 'amin'.

    >>> index, src = torch.tensor([0, 0, 1]), torch.tensor([1., 5., 2.])
    >>> torch.scatter_reduce(torch.zeros(2), 0, index, src, "amax")
    tensor([5., 2.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    y = reduce_by_index(input, dim, index, src, reduce, include_self)
    return y if out is None else write_result("scatter_reduce", y, out)


def publish_in_place(name: str, function: Any) -> None:
    """Publish `name_`, which writes the function's result into its first argument."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_operands(self._array, args, partial=False)
        if name in ("scatter_reduce", "index_reduce"):
            return overwrite(self, f"{name}_", function, *args, **kwargs)
        check_writable(self, f"{name}_")
        return assign(self, function(self, *args, **kwargs), f"{name}_")

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"`{name}` in place."
    writes_by_operators(public(f"{name}_", spaces=("Tensor",))(method))


# ---------------------------------------------------------------------------- flat positions


def _bound_flat(input: Any, index: Any) -> list[tuple[Any, int]]:
    return [(index, math.prod(input.shape))]


def _takes_flat(input: Array, index: Array) -> bool:
    return not index.size or bool(-input.size <= index.min() and index.max() < input.size)


@opaque(linear_in="input", ref=lambda x, index: x.reshape(-1)[index],
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), np.array([[0, 11], [5, 5]])), {})]),
        values=ValueRule(("index",), _takes_flat, _bound_flat), overlap=Overlap.NONE)
def take(input: Array, index: Array) -> Array:
    """Return the elements at flat positions, in the shape of `index`.

    Args:
        index: Flat positions, int64, of any shape.

    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[3], [0]]))
    tensor([[4],
            [1]])
    """
    if index.dtype != np.int64:
        raise RuntimeError(
            "take(): Expected a long tensor for index, but got "
            f"{legacy_name(FROM_NUMPY[index.dtype])}"
        )
    if index.size and not input.size:
        raise IndexError("take(): tried to take from an empty tensor")
    _check_flat_range(index, input.size)
    return input.reshape(-1)[index]


@take.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], index: Tensor) -> Tensor:
    return g.new_zeros(input_shape).put(index, g, True)


def _put_reference(
    x: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False
) -> np.ndarray:
    flat = x.flatten()
    for place, value in zip(index.flat, source.flat, strict=True):
        flat[place] = value + (flat[place] if accumulate else 0)
    return flat.reshape(x.shape)


@opaque(linear_in="input + source",
        layout=Layout.PRESERVE, node="PutBackward0", ref=_put_reference, samples=lambda rng: iter(
    [((rng.normal(size=(3, 4)), np.array([0, 7, 11]), rng.normal(size=3)), {}),
     ((rng.normal(size=(3, 4)), np.array([2, 2]), rng.normal(size=2), True), {})]))
def put(input: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """Return a copy with `source` written, or added with `accumulate`, at flat positions.

    Args:
        index: Flat positions, int64.
        source: The values, as many as positions.

    >>> torch.put(torch.zeros(2, 2), torch.tensor([3, 0]), torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 1.]])
    """
    if index.dtype != np.int64:
        raise RuntimeError(
            "put_(): Expected a long tensor for index, but got "
            f"{legacy_name(FROM_NUMPY[index.dtype])}"
        )
    if index.size != source.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{legacy_name(FROM_NUMPY[input.dtype])} and source.dtype = "
            f"{legacy_name(FROM_NUMPY[source.dtype])}"
        )
    _check_flat_range(index, input.size)
    result = input.copy("C")
    flat = result.reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        alert_not_deterministic("put_")
        flat[index.reshape(-1)] = source.reshape(-1)
    return result


@put.vjp("input")
def _(g: Tensor, index: Tensor, accumulate: bool) -> Tensor:
    return g if accumulate else g.put(index, g.new_zeros(index.shape))


@put.vjp("source")
def _(g: Tensor, index: Tensor, source_shape: tuple[int, ...]) -> Tensor:
    return g.take(index).reshape(source_shape)


@composite(explains=True)
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return the elements at indices along an axis; the other axes broadcast.

    Args:
        indices: Indices along `dim`, int64.
        dim: The axis to work along. None: the flattened elements.

    >>> x = torch.tensor([[30, 10], [20, 40]])
    >>> torch.take_along_dim(x, x.argsort(1), 1)
    tensor([[10, 30],
            [20, 40]])
    """
    if indices._array.dtype != _INT64:
        raise RuntimeError(
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{legacy_name(indices.dtype)}"
        )
    if dim is None:
        y = gather(input.reshape(-1), 0, indices.reshape(-1))
    else:
        axis = canonicalize_dim(dim, input._array.ndim)
        if input._array.ndim != indices._array.ndim:
            raise RuntimeError(
                "torch.take_along_dim(): input and indices should have the same number of "
                f"dimensions, but got {input._array.ndim} dimensions for input, and "
                f"{indices._array.ndim} dimensions for indices"
            )
        shapes = [list(x._array.shape) for x in (input, indices)]
        for shape in shapes:
            shape[axis] = 1
        if (mismatch := broadcast_mismatch([tuple(shape) for shape in shapes])) is not None:
            raise RuntimeError(mismatch)
        common = np.broadcast_shapes(*map(tuple, shapes))
        wide = [[*common[:axis], x._array.shape[axis], *common[axis + 1 :]]
                for x in (input, indices)]
        n = input._array.shape[axis]
        wrapped = where(indices < 0, indices + n, indices)
        y = gather(input.expand(*wide[0]), axis, wrapped.expand(*wide[1]))
    return y if out is None else write_result("take_along_dim", y, out, (input, indices))


for _name, _function in (
    ("scatter", scatter), ("scatter_add", scatter_add), ("scatter_reduce", scatter_reduce),
    ("put", put),
):
    publish_in_place(_name, _function)
