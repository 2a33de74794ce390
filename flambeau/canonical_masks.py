"""Canonical masks of torch.masked: bools in the shape and layout of the input, and the mask of a
masked operation's result. The names are PyTorch's, which libraries use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import ops
from .ops.core.axes import canonicalize_dims
from .tensor import dtypes as types
from .tensor.layout import strided
from .tensor.tensor import Tensor

_REDUCTIONS = frozenset(
    "sum prod amax amin argmax argmin mean median norm var std logsumexp".split()
)
_NORMALIZATIONS = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def _canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as a sorted tuple; all axes for None and ()."""
    reduces_all = dim is None or dim == () or dim == []
    return tuple(sorted(canonicalize_dims(None if reduces_all else dim, ndim)))


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Return the mask as bools in the shape and layout of the input."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher "
                         "than of the input)")
    if mask.layout is strided and input.layout is strided:
        return mask.expand(input.shape).to(types.bool_)
    if mask.shape != input.shape:
        mask = mask.to_dense().expand(input.shape)
    if mask.layout is not input.layout:
        if input.layout is strided:
            mask = mask.to_dense()
        elif input.is_sparse:
            mask = mask.to_sparse(input.sparse_dim()) if mask.layout is strided \
                else mask.to_sparse()
        else:
            mask = mask.to_sparse_csr()
    return (mask.coalesce() if mask.is_sparse else mask).to(types.bool_)


def _output_mask(op: Callable[..., Any], input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the mask of result elements that any unmasked input element contributes to."""
    name = getattr(op, "__name__", "")
    if name in _NORMALIZATIONS:
        return _input_mask(input, *args, **kwargs)
    if name not in _REDUCTIONS:
        raise ValueError("_output_mask expected masked operation (got callable "
                         f"{getattr(op, '__module__', type(op).__name__)}.{name})")
    rest = args[1:] if name == "norm" else args
    result = _input_mask(input, *args, **kwargs)
    keepdim = bool(kwargs.get("keepdim", False))
    for axis in reversed(_canonical_dim(rest[0] if rest else kwargs.get("dim"), input.dim())):
        result = ops.any(result, axis, keepdim)
    return result


def _where(mask: Tensor, input: Tensor, fill_value: Any) -> Tensor:
    """`where`, also for sparse tensors: the result stores the unmasked elements.

    Unmasked elements that the input does not store are 0; masked-out elements of dense axes become
    `fill_value`.
    """
    if mask.layout is strided:
        return ops.where(mask, input, fill_value)
    if not mask.is_sparse:
        return _where(mask.to_sparse(), input.to_sparse(), fill_value).to_sparse_csr()
    mask = mask.coalesce()
    indices, passes = mask.indices(), mask.values()
    rows = passes.reshape(passes.shape[0], -1).any(1)
    indices, passes = indices[:, rows], passes[rows]
    is_stored = input.to_dense()[tuple(indices.unbind())]
    values = ops.where(passes, is_stored, fill_value)
    return ops.sparse_coo_tensor(indices, values, input.shape, is_coalesced=True)
