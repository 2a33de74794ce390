"""Reductions over axes: sums, means, extremes, norms and counts."""

from __future__ import annotations

import numpy as np

from ..tensor import dtypes as types
from ..tensor.dtypes import HALF, FROM_NUMPY
from .axes import canonical_dims
from .registry import Array, composite, opaque
from .samples import reductions


def summed_dtype(input: Array, dtype) -> np.dtype:
    """The dtype of a sum: the one asked for, int64 for integers, else the input's."""
    if dtype is not None:
        return dtype.numpy
    return types.int64.numpy if input.dtype.kind in "biu" else input.dtype


def axes_of(dim, ndim: int) -> tuple[int, ...] | None:
    """NumPy's axis for a `dim`: None for all axes."""
    if dim is None or dim == () or dim == []:
        return None
    return canonical_dims(dim, ndim)


@opaque(ref=lambda x, dim=None, keepdim=False: x.sum(None if dim is None else dim, keepdims=keepdim),
        samples=reductions)  # fmt: skip
def sum(input: Array, dim=None, keepdim=False, *, dtype=None) -> Array:
    """Sum over the axes `dim`, all of them by default.

    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    if dim is None and dtype is None and input.dtype.kind == "f" and input.itemsize > 2:
        return np.add.reduce(input, None, None, None, keepdim)
    kind = summed_dtype(input, dtype)
    inside = types.float32.numpy if FROM_NUMPY[kind] in HALF else kind
    y = np.add.reduce(input, axes_of(dim, input.ndim), inside, None, keepdim)
    return y if inside == kind else np.asarray(y).astype(kind)


@sum.vjp
def _(g, input_shape, dim, keepdim):
    return spread(g, input_shape, dim, keepdim)


def spread(g, shape, dim, keepdim):
    """A reduction's cotangent at the shape of its input, as a view."""
    if not keepdim and dim is not None and shape and dim != () and dim != []:
        axes = canonical_dims(dim, len(shape))
        g = g.reshape([1 if i in axes else n for i, n in enumerate(shape)])
    return g.expand(shape)


@composite()
def sum_to_size(input, *size):
    """The tensor summed over the axes along which `size` was expanded to its shape."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    shape = input._array.shape
    if shape == tuple(size):
        return input
    new = len(shape) - len(size)
    axes = list(range(new)) + [
        i + new for i, n in enumerate(size) if n == 1 and shape[i + new] != 1
    ]
    if new < 0 or any(n not in (1, m) for n, m in zip(size, shape[new:], strict=True)):
        raise RuntimeError(
            f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}."
        )
    y = sum(input, axes, True) if axes else input
    return y.reshape(size) if new else y
