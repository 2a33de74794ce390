"""Axes: the `dim` of an operator, checked and counted from the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def canonicalize_dim(dim: int, ndim: int) -> int:
    """Return `dim` as a non-negative axis; IndexError if `ndim` axes do not include it."""
    n = ndim or 1
    if dim.__class__ is not int:
        dim = _as_int(dim)
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim + n if dim < 0 else dim


def _as_int(dim: Any) -> int:
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"dim must be int, not {type(dim).__name__}")
    return dim.__index__()


def canonicalize_dims(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes in `dim`, or all for None or an empty sequence; duplicates raise."""
    if dim is None:
        return tuple(range(ndim))
    if not isinstance(dim, (tuple, list)):
        single: Any = dim
        return (canonicalize_dim(single, ndim),) if ndim else _check_scalar(single)
    result = tuple(canonicalize_dim(d, ndim) for d in dim)
    if len(set(result)) != len(result):
        twice = next(d for d in result if result.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    if not ndim:
        return ()  # a 0-dim tensor takes dim 0 or -1, which names nothing
    return result if result or len(dim) != 0 else tuple(range(ndim))


def _check_scalar(dim: int) -> tuple[int, ...]:
    canonicalize_dim(dim, 0)
    return ()


def canonicalize_order(dims: Sequence[int], ndim: int) -> list[int]:
    """Return the axes in `dims`, a permutation of all; RuntimeError if it is none."""
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal "
            f"to len(dims) = {len(dims)}"
        )
    axes = [canonicalize_dim(dim, ndim) for dim in dims]
    if len(set(axes)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return axes


def means_all_axes(dim: Any) -> bool:
    """Return whether `dim` is an empty sequence, which selects all axes."""
    return isinstance(dim, (tuple, list)) and not dim
