"""Joining and repeating: cat, stack and their like, flip, roll, repeat, tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tensor.promote import result_dtype
from .axes import canonical_dim
from .registry import Array, composite, opaque


def _legacy_empty(a: Array) -> bool:
    return a.ndim == 1 and a.size == 0  # torch.cat passes over these, whatever the other shapes


@opaque(ref=lambda xs, dim=0: np.concatenate(xs, dim), aliases=("concat", "concatenate"),
        samples=lambda rng: iter([(([rng.normal(size=(2, 3)), rng.normal(size=(1, 3))],), {}),
                                  (([rng.normal(size=(2, 3))] * 2, 1), {})]), expose=("torch",))  # fmt: skip
def cat(tensors: Sequence[Array], dim=0) -> Array:
    """Tensors put one after another along an axis.

    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    kept = [a for a in tensors if not _legacy_empty(a)] or tensors[:1]
    first = kept[0]
    for i, a in enumerate(kept):
        if a.ndim == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {i}) cannot be concatenated"
            )
    at = canonical_dim(dim, first.ndim)
    for i, a in enumerate(kept):
        if a.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {a.ndim}"
            )
        for axis, (m, n) in enumerate(zip(first.shape, a.shape, strict=True)):
            if m != n and axis != at:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {m} but "
                    f"got size {n} for tensor number {i} in the list."
                )
    if all(a.dtype is first.dtype for a in tensors):
        return np.concatenate(kept, at)
    kind = result_dtype(tensors).numpy
    return np.concatenate([a.astype(kind, copy=False) for a in kept], at)


@cat.vjp("tensors")
def _(g, tensors_shape, dim):
    at = dim % g.dim()
    found, start = [], 0
    for shape in tensors_shape:
        if len(shape) == 1 and shape[0] == 0:
            found.append(g.new_zeros(0))
            continue
        found.append(g.narrow(at, start, shape[at]))
        start += shape[at]
    return tuple(found)


@opaque(ref=lambda xs, dim=0: np.stack(xs, dim), expose=("torch",),
        samples=lambda rng: iter([(([rng.normal(size=(2, 3))] * 3, 1), {}),
                                  (([rng.normal(size=())] * 2,), {})]))  # fmt: skip
def stack(tensors: Sequence[Array], dim=0) -> Array:
    """Tensors of one shape put side by side along a new axis."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    at = canonical_dim(dim, first.ndim + 1)
    for i, a in enumerate(tensors):
        if a.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(a.shape)} at entry {i}"
            )
    if all(a.dtype is first.dtype for a in tensors):
        return np.stack(tensors, at)
    kind = result_dtype(tensors).numpy
    return np.stack([a.astype(kind, copy=False) for a in tensors], at)


@stack.vjp("tensors")
def _(g, dim):
    return g.unbind(dim)
