"""flex_attention: attention with user functions that modify and mask scores by position.

This is a reference implementation: it computes all scores, also masked ones. The functions are
called once, with index tensors that broadcast to (batch, heads, queries, keys).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ...tensor import dtypes as types
from . import block_mask as _blocks
from .block_mask import (
    BlockMask, and_masks, create_block_mask, list_positions, noop_mask, or_masks,
)

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = _blocks._DEFAULT_SPARSE_BLOCK_SIZE
_score_mod_signature = Callable[..., Tensor]
_mask_mod_signature = Callable[..., Tensor]
FlexKernelOptions = dict


class AuxRequest(NamedTuple):
    """The additional results that flex_attention should return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The requested results: logsumexp and maximum of each row's scores, or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """Evaluate a mask_mod at all positions, or a score_mod on zeros: -inf means masked.

    >>> from flambeau.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    positions = list_positions(shape)
    scores = len(inspect.signature(mod_fn).parameters) == 5
    result = mod_fn(ops.zeros(shape), *positions) if scores else mod_fn(*positions)
    if scores:  # positions it sets to -inf are masked
        return ops.logical_not(ops.isneginf(result.expand(shape)))
    return result.expand(shape) if isinstance(result, Tensor) else ops.full(shape, result)


def _check(query: Tensor, key: Tensor, value: Tensor, gqa: bool) -> None:
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError("Expect query and key/value to have the same embedding dimension but got "
                         f"E={query.size(-1)} and E={key.size(-1)}.")
    query_heads, key_heads = query.size(1), key.size(1)
    if not gqa and query_heads != key_heads:
        raise ValueError("Expect query and key/value to have the same number of heads but got "
                         f"Hq={query_heads} and Hkv={key_heads}. "
                         "Try setting enable_gqa=True for GQA."
                         )
    if gqa and query_heads % key_heads:
        raise ValueError("Expect number of query heads to be a multiple of kv heads for GQA but "
                         f"got Hq={query_heads} and Hkv={key_heads}.")


def _check_lengths(mask: BlockMask, queries: int, keys: int) -> None:
    if tuple(mask.shape[-2:]) != (queries, keys):
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={queries} and "
            f"kv_len={keys}. As the block mask was created for a larger length than you're using "
            "it for, you can either 1. create a new block mask with the correct length, or 2. "
            "'adjust' the existing block mask to the correct length by calling "
            "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the "
            "upper left corner, which does not work for all mask_mods!"
        )


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: dict | None = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention over (batch, heads, length, width), with scores changed by `score_mod(score, b, h,
    q_idx, kv_idx)` and masked by the block mask's function; fully masked rows give zeros.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> causal = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4)
    >>> x = torch.ones(1, 2, 4, 8)
    >>> flex_attention(x, x, x, lambda score, b, h, q, kv: score + (kv - q), causal).shape
    torch.Size([1, 2, 4, 8])
    """
    _check(query, key, value, enable_gqa)
    if block_mask is not None:
        _check_lengths(block_mask, query.size(-2), key.size(-2))
    if enable_gqa and query.size(1) != key.size(1):
        times = query.size(1) // key.size(1)
        key, value = (t.repeat_interleave(times, dim=1) for t in (key, value))
    work = types.float64 if query.dtype is types.float64 else types.float32
    scores = (query @ key.mT).to(work) * (query.size(-1) ** -0.5 if scale is None else scale)
    positions = list_positions(scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *positions)
    if block_mask is not None and block_mask.mask_mod is not noop_mask:
        scores = ops.where(block_mask.mask_mod(*positions), scores, -math.inf)
    scores = scores.to(work)
    lse = scores.logsumexp(-1)
    masked_rows = ops.isneginf(lse)  # whose weights are 0, not nan
    weights = ops.exp(scores - lse.masked_fill(masked_rows, 0).unsqueeze(-1))
    y = weights.to(query.dtype) @ value
    return _pack_results(y, scores, lse, return_lse, return_aux)


def _pack_results(
    y: Tensor, scores: Tensor, lse: Tensor, return_lse: bool, return_aux: AuxRequest | None
) -> Any:
    """Return the output alone, or with the additional results that the caller requested."""
    if return_lse:
        warn("return_lse is deprecated and will be removed in v2.10. Please use "
             "return_aux=AuxRequest(lse=True) instead.", FutureWarning
             )
        return y, lse
    if return_aux is None:
        return y
    return y, AuxOutput(lse if return_aux.lse else None,
                        scores.amax(-1) if return_aux.max_scores else None)
