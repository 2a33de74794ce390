"""Whole slices picked along an axis by a vector of indices: index_select, and what writes them:
index_add, index_copy, index_fill and index_reduce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_GATHER_ELEMENTS
from ...tensor.capture_marks import peek
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.overlap import Overlap
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..core.value_rules import INDEX_ALONG_AXIS
from ..native import gather_scatter
from .gather import are_all_below, find_outside, publish_in_place, reduce_by_index
from .mask import create_fill_value, make_fill_overload


def _select(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)), 1, np.array([3, 0, 0])), {}
    yield (rng.normal(size=(3, 4)), 0, np.array([2])), {}


def _check_index(index: Array, name: str) -> Array:
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector"
            if name == "index_select" else
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{legacy_name(FROM_NUMPY[index.dtype])} and size: {list(index.shape)}"
        )
    if index.size and (index.dtype.kind not in "iu" or index.dtype.itemsize < 4):
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index" if name == "index_select" else
            f"{name}(): Expected dtype int32/int64 for index but got: "
            f"{legacy_name(FROM_NUMPY[index.dtype])}"
        )
    return index if index.ndim else index.reshape(-1)


def _check_index_of_number(index: Array) -> None:
    """Raise unless an index of a 0-dim tensor is a single 0."""
    if index.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)"
        )
    if index.reshape(-1)[0] != 0:
        raise IndexError("index out of range in self")


@opaque(extents_follow=True,
        linear_in="input", ref=lambda x, dim, index: np.take(x, index, dim), samples=_select,
        values=INDEX_ALONG_AXIS, overlap=Overlap.NONE)
def index_select(input: Array, dim: int, index: Array) -> Array:
    """Return the slices at the given indices of an axis.

    Raises IndexError for an index outside the axis.

    Args:
        index: The indices of the slices, (k,), int64 or int32.

    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1, 1, 0]))
    tensor([[2, 2, 1],
            [4, 4, 3]])
    """
    index = _check_index(index, "index_select")
    axis = canonicalize_dim(dim, input.ndim)
    if not input.ndim:
        _check_index_of_number(index)
        return input.copy()
    n = input.shape[axis]
    if _is_out_of_range(index, n):
        if input.ndim < 2 or (not axis and input.size):
            raise IndexError("index out of range in self")
        if not n:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        outlier = index[(index >= n) | (index < 0)][0]
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={outlier} axis_dim={n}")
    return input.take(index, axis) if input.__class__ is Array else np.take(input, index, axis)


@index_select.batch
def _(batch: Batch, input: Tensor, dim: int, index: Tensor) -> Any:
    if batch.holds(index) or not input.dim():
        return NotImplemented
    return index_select(batch.lower(input), canonicalize_dim(dim, input.dim()) + 1,
                        batch.lower(index))


@index_select.vjp("input")
def _(g: Tensor, input_shape: tuple[int, ...], dim: int, index: Tensor) -> Tensor:
    return g.new_zeros(input_shape).index_add(dim, index, g)


def _is_out_of_range(index: Array, size: int) -> bool:
    """Whether an index is not of an axis of this length."""
    return not are_all_below(index, size) and bool(
        index.size and (index.max() >= size or index.min() < 0)
    )


def _place_index(axis: int, index: Array) -> Any:
    return index if not axis else (*[slice(None)] * axis, index)


def _check_source(
    name: str, input: Array, axis: int, index: Array, source: Array, scatters: bool = False
) -> None:
    """`scatters`: whether PyTorch runs scatter_add, which words the refusal of an index."""
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): self ({legacy_name(FROM_NUMPY[input.dtype])}) and source "
            f"({legacy_name(FROM_NUMPY[source.dtype])}) must have the same scalar type"
        )
    if source.ndim and input.ndim and source.shape[axis] != index.size:
        if name == "index_copy_":
            raise IndexError(
                f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim) "
                f"({source.shape[axis]})"
            )
        raise RuntimeError(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): "
            f"({source.shape[axis]}), for dim: {axis}"
        )
    n = input.shape[axis] if input.ndim else 1
    if _is_out_of_range(index, n):
        outlier = index[(index >= n) | (index < 0)][0]
        text = f"index {outlier} is out of bounds for dimension {axis} with size {n}"
        if name == "index_copy_":
            raise IndexError(f"{name}(): {text}")
        if scatters:
            raise RuntimeError(text)
        raise IndexError("index out of range in self")


def _spread_index(index: Array, axis: int, source: Array) -> Array:
    """The index of each of a source's elements along an axis."""
    shape = [1] * source.ndim
    shape[axis] = index.size
    return np.broadcast_to(index.reshape(shape), source.shape)


@opaque(linear_in="input + source",
        name="_index_add", node="IndexAddBackward0", expose=(), ref=None, values=INDEX_ALONG_AXIS,
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), 1, np.array([3, 0, 0]),
                                    rng.normal(size=(3, 3)), 2.0), {})]))
def _index_add(input: Array, dim: int, index: Array, source: Array, alpha: Number) -> Array:
    """A copy with alpha * source added to slices."""
    axis = canonicalize_dim(dim, input.ndim)
    index = _check_index(index, "index_add_")
    input_shape, source_shape = input.shape, source.shape
    if (input_shape[:axis] + input_shape[axis + 1 :]
            != source_shape[:axis] + source_shape[axis + 1 :]):
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input_shape)} source.shape = {list(source_shape)}"
        )
    scatters = index.dtype == np.int64 and alpha == 1 and input.ndim > 1 \
        and axis in (0, input.ndim - 1)
    _check_source("index_add_", input, axis, index, source, scatters)
    result = input.copy()
    if alpha.__class__ is not int or alpha != 1:
        with np.errstate(all="ignore"):
            source = (source * np.asarray(alpha).astype(input.dtype)).astype(input.dtype)
    target = result if result.ndim else result.reshape(1)
    source = source.reshape(1) if not source.ndim else source
    if axis == 0 and target.ndim == 2:
        from .index import add_rows

        add_rows(target, (index,), source)
    else:
        fits = source.shape == target.shape[:axis] + index.shape + target.shape[axis + 1 :]
        if not (fits and source.size > MAX_NUMPY_GATHER_ELEMENTS and gather_scatter.put(
                target, axis, _spread_index(index, axis, source), source, True)):
            np.add.at(target, _place_index(axis, index), source)
    return result


@_index_add.batch
def _(
    batch: Batch, input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number
) -> Any:
    if batch.holds(index) or not input.dim():
        return NotImplemented
    axis = canonicalize_dim(dim, input.dim()) + 1
    return _index_add(batch.expand(input), axis, batch.lower(index), batch.expand(source), alpha)


@_index_add.vjp("input")
def _(g: Tensor) -> Tensor:
    return g


@_index_add.vjp("source")
def _(g: Tensor, dim: int, index: Tensor, source_shape: tuple[int, ...], alpha: Number) -> Tensor:
    return (g.index_select(dim, index) * alpha).reshape(source_shape)


@composite()
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1,
    out: Tensor | None = None
) -> Tensor:
    """Return a copy with alpha * source added to the slices at the given indices of an axis.

    >>> torch.index_add(torch.zeros(3), 0, torch.tensor([0, 2, 2]), torch.tensor([1., 2., 3.]))
    tensor([1., 0., 5.])
    """
    y = _index_add(input, dim, index, source, alpha)
    return y if out is None else write_result("index_add", y, out)


def _copy_slices(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    y = np.moveaxis(x.copy(), dim, 0)
    for place, row in zip(index, np.moveaxis(source, dim, 0), strict=True):
        y[place] = row
    return np.moveaxis(y, 0, dim)


@opaque(autocast=Policy.WIDEST, linear_in="input + source",
        node="IndexCopyBackward0", ref=_copy_slices, samples=lambda rng: iter(
    [((rng.normal(size=(3, 4)), 1, np.array([3, 0]), rng.normal(size=(3, 2))), {})]))
def index_copy(input: Array, dim: int, index: Array, source: Array) -> Array:
    """Return a copy with the slices at the given indices of an axis replaced.

    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1., 2.]))
    tensor([2., 0., 1.])
    """
    axis = canonicalize_dim(dim, input.ndim)
    index = _check_index(index, "index_copy_")
    if index.dtype != np.int64:
        raise RuntimeError("index_copy_(): Expected a long tensor for index, but got "
                           f"{legacy_name(FROM_NUMPY[index.dtype])}")
    input_shape, source_shape = (x.shape[:axis] + x.shape[axis + 1 :] for x in (input, source))
    if input_shape != source_shape and input.ndim and source.ndim:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape: {' '.join(map(str, input_shape))} at dimension {axis} and source slice "
            f"shape: {' '.join(map(str, source_shape))} at dimension 0."
        )
    _check_source("index_copy_", input, axis, index, source)
    result = input.copy()
    (result if result.ndim else result.reshape(1))[_place_index(axis, index)] = source
    return result


@index_copy.batch
def _(batch: Batch, input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    if batch.holds(index) or not input.dim() or not source.dim():
        return NotImplemented
    axis = canonicalize_dim(dim, input.dim()) + 1
    return index_copy(batch.expand(input), axis, batch.lower(index), batch.expand(source))


@index_copy.vjp("input")
def _(g: Tensor, dim: int, index: Tensor) -> Tensor:
    return g.index_fill(dim, index, 0)


@index_copy.vjp("source")
def _(g: Tensor, dim: int, index: Tensor, source_shape: tuple[int, ...]) -> Tensor:
    return g.index_select(dim, index).reshape(source_shape)


@opaque(linear_in="input + value", layout=Layout.PRESERVE,
        name="_index_fill", node="IndexFillBackward0", expose=(), samples=lambda rng: iter(
    [((rng.normal(size=(3, 4)), 1, np.array([3, 0]), rng.normal(size=())), {})]))
def _index_fill(input: Array, dim: int, index: Array, value: Array) -> Array:
    """A copy with a value in the slices at some indices of an axis."""
    axis = canonicalize_dim(dim, input.ndim)
    index = _check_index(index, "index_fill_")
    result = input.copy()
    if not input.size:
        return result
    n = input.shape[axis] if input.ndim else 1
    outlier = find_outside(index, n, True)
    if outlier is not None:
        raise IndexError(f"index {outlier} is out of bounds for dimension {axis} with size {n}")
    (result if result.ndim else result.reshape(1))[_place_index(axis, index)] = value
    return result


@_index_fill.batch
def _(batch: Batch, input: Tensor, dim: int, index: Tensor, value: Tensor) -> Any:
    if batch.holds(index) or batch.holds(value) or not input.dim():
        return NotImplemented
    axis = canonicalize_dim(dim, input.dim()) + 1
    return _index_fill(batch.lower(input), axis, batch.lower(index), batch.lower(value))


@_index_fill.vjp("input")
def _(g: Tensor, dim: int, index: Tensor) -> Tensor:
    return _index_fill(g, dim, index, wrap(np.zeros((), g._array.dtype)))


@_index_fill.vjp("value")
def _(g: Tensor, dim: int, index: Tensor) -> Tensor:
    once = wrap(np.unique(index._array % max(g._array.shape[dim], 1) if g._array.ndim else
                          index._array))
    return g.index_select(dim, once).sum()


@composite(explains=True,
           node=("IndexFillBackward0", "IndexFillBackward1"),
           overload=make_fill_overload(3))
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Number) -> Tensor:
    """Return a copy with the slices at the given indices of an axis filled with one value.

    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 7.)
    tensor([7., 0., 7.])
    """
    if index._array.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    return _index_fill(input, dim, index, create_fill_value(input, value, "index_fill"))


@composite(node="IndexReduceBackward0")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True, out: Tensor | None = None
) -> Tensor:
    """Return a copy with `source` reduced into the slices at the given indices of an axis.

    `reduce` is 'prod', 'mean', 'amax' or 'amin'.

    >>> x, index = torch.ones(3), torch.tensor([0, 2, 2])
    >>> torch.index_reduce(x, 0, index, torch.tensor([5., 2., 3.]), "prod")
    tensor([5., 1., 6.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either prod, mean, amax or amin, got {reduce}."
        )
    axis = canonicalize_dim(dim, input._array.ndim)
    if not input._array.ndim:
        y = reduce_by_index(input, 0, index.reshape(()), source.reshape(()), reduce, include_self)
    else:
        if _is_out_of_range(peek(index), input._array.shape[axis]):
            raise IndexError("index out of range in self")
        shape = [-1 if i == axis else 1 for i in range(input._array.ndim)]
        rows = index.reshape(shape).expand(*source._array.shape)
        y = reduce_by_index(input, axis, rows, source, reduce, include_self)
    return y if out is None else write_result("index_reduce", y, out)


for _name, _function in (
    ("index_add", index_add), ("index_copy", index_copy), ("index_fill", index_fill),
    ("index_reduce", index_reduce),
):
    publish_in_place(_name, _function)
