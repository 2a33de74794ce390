"""Private parts of torch.nn.functional that copies of PyTorch's layers call."""

from __future__ import annotations

import math
from typing import Any

from ..native.foundation.user_frames import warn
from ..ops.creation.creation import zeros_like
from ..ops.linalg.linear import linear
from ..tensor.dtypes import bool_
from ..tensor.tensor import Tensor


def _none_or_dtype(input: Tensor | None) -> Any:
    """Return a tensor's dtype, or None for None."""
    if input is None:
        return None
    if isinstance(input, Tensor):
        return input.dtype
    raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """Return an attention mask to be added: -inf where one of bools is True."""
    if mask is None:
        return None
    if mask.dtype != bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type "
             "for both instead.")
    if mask.is_floating_point():
        return mask
    result: Tensor = zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)
    return result


def _split_projection(x: Tensor, w: Tensor, b: Tensor | None, parts: int) -> tuple[Tensor, ...]:
    """Project once by stacked weights, and return the parts, each contiguous."""
    y = linear(x, w, b).unflatten(-1, (parts, x.size(-1)))
    stacked = y.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    return tuple(stacked[i] for i in range(parts))


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Project query, key and value by weights (3 * e, e), sharing what is the same tensor."""
    size = q.size(-1)
    if k is not v:
        each: Any = (None,) * 3 if b is None else b.chunk(3)
        return tuple(linear(x, *part) for x, *part in zip((q, k, v), w.chunk(3), each, strict=True))
    if q is k:
        return _split_projection(q, w, b, 3)
    weights = w.split([size, 2 * size])
    biases: Any = (None, None) if b is None else b.split([size, 2 * size])
    return linear(q, weights[0], biases[0]), *_split_projection(k, weights[1], biases[1], 2)


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Project query, key and value by weights of their own."""
    size = q.size(-1)
    for name, weight, x in (("query", w_q, q), ("key", w_k, k), ("value", w_v, v)):
        if weight.shape != (size, x.size(-1)):
            raise AssertionError(f"expecting {name} weights shape of {(size, x.size(-1))}, but got "
                                 f"{weight.shape}")
    for name, bias in (("query", b_q), ("key", b_k), ("value", b_v)):
        if bias is not None and bias.shape != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {bias.shape}")
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """Return the axis of a softmax that is told none, which is deprecated."""
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
         "dim=X as an argument.")
    return 0 if ndim in (0, 1, 3) else 1


def _verify_batch_size(size: Any) -> None:
    """ValueError for a batch with one value per channel."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError("Expected more than 1 value per channel when training, got input size "
                         f"{size}")


PARTS = {f.__name__: f for f in (
    _canonical_mask, _get_softmax_dim, _in_projection, _in_projection_packed, _none_or_dtype,
    _verify_batch_size)}
