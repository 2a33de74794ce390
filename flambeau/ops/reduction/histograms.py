"""Histograms: counts of values, or sums of their weights, per bin.

Bins include their lower edge; the last one includes its upper edge too. Values outside of the
edges, and NaN, are dropped. All arithmetic is in the input's dtype, which decides where values on
an edge are counted, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np

from ...autograd.errors.missing_derivatives import record_without_derivative
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.registry import composite, opaque
from ..core.return_types import return_type
from ..core.sample_inputs import Rng, Sample
from ..creation.creation import public
from ..creation.sequences import space_evenly


@public(spaces=("torch", "Tensor"), explains=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *,
          out: Tensor | None = None) -> Tensor:
    """Count the elements in each of `bins` equal-width bins from min to max.

    If min and max are equal (the default), the range is that of the data.

    >>> torch.histc(torch.tensor([0., 1., 1., 4.]), bins=4)
    tensor([1., 2., 0., 1.])
    """
    values = input._array.reshape(-1)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    low, high = _choose_range(values, float(min), float(max))
    refuse_eight_bit(values, "linspace_cpu")
    if values.dtype.kind not in "fV":
        kernel = "linspace_cpu" if values.dtype.kind == "b" else "histogram_cpu"
        raise build_missing_kernel_error(kernel, values.dtype)
    number = values.dtype.type
    low, high = number(low), number(high)
    values = values[(values >= low) & (values <= high)]
    bin_numbers = ((values - low) * number(bins) / (high - low)).astype(np.int64)
    counts = np.bincount(bin_numbers, minlength=bins)
    if counts.size > bins:  # values at the upper edge
        counts[bins - 1] += counts[bins]
    y = wrap(counts[:bins].astype(values.dtype))
    return y if out is None else write_result("histc", y, out)


def _choose_range(values: Array, low: float, high: float) -> tuple[float, float]:
    """Return the outer edges of `histc`: those of the data if no range is requested."""
    if low == high and values.size:
        refuse_eight_bit(values, "aminmax_cpu")
        if values.dtype.kind == "c":
            raise build_missing_kernel_error("aminmax_cpu", values.dtype)
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (isfinite(low) and isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return low, high


# ------------------------------------------------------------------- histograms with their edges


def _compute_edges(column: Array, bins: int, low: float | None, high: float | None,
                   axis: int = 0) -> Array:
    """Return the edges of equal bins; the range is that of the data if none is requested."""
    if bins <= 0:
        raise RuntimeError(
            f"torch.histogram(): bins must be > 0, but got {bins} for dimension {axis}"
        )
    if low is None or high is None:
        low, high = (float(column.min()), float(column.max())) if column.size else (0.0, 1.0)
    if not (isfinite(low) and isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {axis}'s range [{low:g}, {high:g}] is not finite"
        )
    if low > high:
        raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low:g} max "
                           f"{high:g} for dimension {axis}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return space_evenly(low, high, bins + 1, column.dtype)


def _check_edges(input: Array, edges: Array, axis: int = 0) -> Array:
    """Return a copy of edges from the caller, or raise if they do not fit the input."""
    if edges.dtype != input.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
            f"input with dtype {_name_type(input)} and bins for dimension {axis} with dtype "
            f"{_name_type(edges)}"
        )
    if edges.ndim != 1:
        raise RuntimeError("torch.histogramdd: bins tensor should have one dimension, but got "
                           f"{edges.ndim} dimensions in the bins tensor for dimension {axis}")
    if not edges.size:
        raise RuntimeError("torch.histogramdd: bins tensor should have at least 1 element, but got "
                           f"0 elements in the bins tensor for dimension {axis}")
    return edges.copy()


def _check_weight(points: Array, batch_shape: tuple[int, ...], weight: Array | None) -> None:
    if weight is None:
        return
    if weight.dtype != points.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should"
            f" have the same dtype, but got input({_name_type(points)}), and "
            f"weight({_name_type(weight)})"
        )
    if weight.shape != batch_shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{[*batch_shape, points.shape[-1]]} and weight with shape {list(weight.shape)}"
        )


def _name_type(array: Array) -> str:
    """The C++ name of a dtype, as PyTorch's histograms print it."""
    return {"float32": "float", "float64": "double"}.get(array.dtype.name, array.dtype.name)


def _check_dtype(input: Array) -> None:
    if input.dtype.kind != "f" or input.dtype.itemsize < 4:
        raise build_missing_kernel_error("histogramdd", input.dtype)


def _count(points: Array, edges: list[Array], weight: Array | None, density: bool) -> Array:
    """Count points, or sum their weights, in the product of the axes' bins."""
    shape = [len(e) - 1 for e in edges]
    bins, is_inside = np.zeros(len(points), np.int64), np.ones(len(points), np.bool_)
    for column, e in zip(points.T, edges, strict=True):
        is_inside &= (column >= e[0]) & (column <= e[-1])
        places = np.searchsorted(e, column, "right") - 1
        bins = bins * (len(e) - 1) + np.clip(places, 0, max(len(e) - 2, 0))
    result = np.zeros(shape, points.dtype)
    if weight is None:
        result[...] = np.bincount(bins[is_inside], minlength=result.size)[: result.size].reshape(
            shape
        )
    elif result.size:
        np.add.at(result.reshape(-1), bins[is_inside], weight.reshape(-1)[is_inside])
    return _divide_by_volume(result, edges) if density else result


def _divide_by_volume(counts: Array, edges: list[Array]) -> Array:
    """Return the density: each bin's share of the total over its volume."""
    with np.errstate(all="ignore"):
        density = counts / counts.dtype.type(counts.sum())
        for axis, e in enumerate(edges):
            widths = np.diff(e).reshape([-1 if i == axis else 1 for i in range(len(edges))])
            density = density / widths
    return density


def _histograms(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)), 4), {}
    yield (rng.normal(size=20), np.array([-1.0, 0.0, 0.5, 2.0])), {}
    yield (rng.normal(size=20), 3), {"range": (-1.0, 1.0), "density": True}


@opaque(node="NotImplemented", samples=_histograms, result_type=return_type(
    "histogram", "hist", "bin_edges"), ref=lambda x, bins, range=None, density=False: np.histogram(
        x, bins, range, density))
def histogram(
    input: Array, bins: Array | Number, *, range: Any = None, weight: Array | None = None,
    density: bool = False
) -> tuple[Array, Array]:
    """Return the count, or the density, of each bin and the bin edges.

    >>> torch.histogram(torch.tensor([1., 2., 1.]), bins=2, range=(0., 2.)).hist
    tensor([0., 3.])
    """
    _check_dtype(input)
    values = input.reshape(-1)
    if isinstance(bins, np.ndarray):
        edges = _check_edges(input, bins)
    else:
        low, high = (None, None) if range is None else range
        count: Any = bins
        edges = _compute_edges(values, int(count), low, high)
    points, weight = values[:, None], None if weight is None else weight.reshape(-1)
    _check_weight(points, values.shape, weight)
    return _count(points, [edges], weight, density), edges


_HISTOGRAM = return_type("histogramdd", "hist", "bin_edges")


@composite(expose=("torch",), explains=True)
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False, *, out: Any = None
) -> Any:
    """Return a multidimensional histogram of points in rows, and the edges along each axis.

    Args:
        input: The points, (count, axes).
        range (numbers): The least and the greatest value for each axis. None: those of `input`.

    >>> points = torch.tensor([[0., 0.], [0.2, 0.9], [1., 1.]])
    >>> counts, edges = torch.histogramdd(points, bins=[2, 2])
    >>> counts
    tensor([[1., 1.],
            [0., 1.]])
    """
    points = input._array
    if points.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions, but "
                           f"got {points.ndim}")
    _check_dtype(points)
    batch_shape, n = points.shape[:-1], points.shape[-1]
    points = points.reshape(-1, n)
    bins_each = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins_each) != n:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension "
                           f"of the input. (got {len(bins_each)} for {n})")
    edges = []
    for axis, b in enumerate(bins_each):
        if isinstance(b, Tensor):
            edges.append(_check_edges(points, b._array, axis))
            continue
        low, high = (None, None) if range is None else range[2 * axis : 2 * axis + 2]
        edges.append(_compute_edges(points[:, axis], b, low, high, axis))
    weights = None if weight is None else weight._array
    _check_weight(points, batch_shape, weights)
    counts = _count(points, edges, weights, density)
    hist = record_without_derivative("_histogramdd_from_bin_cts", wrap(counts), (input, weight))
    return _HISTOGRAM(hist, tuple(wrap(e) for e in edges))
