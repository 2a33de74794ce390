"""attention: ONNX's Attention of opset 23."""

from __future__ import annotations

import math
from typing import Any

from ...library import custom_op
from ...ops.core.operator import PUBLIC
from ...tensor.dtypes import bfloat16, bool_, float16, float32, float64
from ...tensor.tensor import Tensor

__all__ = ["ATTENTION", "DECOMPOSITIONS", "attention"]

_torch = PUBLIC["torch"]
_PRECISIONS = {1: float32, 10: float16, 11: float64, 16: bfloat16}  # ONNX's numbers


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """Return (batch, heads, length, features) of (batch, length, heads * features)."""
    return x.view(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2).contiguous()


def _repeat_heads(x: Tensor, count: int) -> Tensor:
    """Return each head so many times in a row."""
    return x if count == 1 else x.unsqueeze(2).expand(-1, -1, count, -1, -1).flatten(1, 2)


def _create_bias(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return what is added to the scores."""
    bias: Tensor = _torch["zeros"](q.shape[2], k.shape[2], dtype=q.dtype)
    if is_causal:
        if mask is not None:
            raise RuntimeError("Cannot use both is_causal and attn_mask")
        mask = _torch["ones"](q.shape[2], k.shape[2], dtype=bool_).tril()
    if mask is None:
        return bias
    return bias.masked_fill(~mask, -math.inf) if mask.dtype is bool_ else bias + mask


def _attend(
    Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None, *, is_causal: bool = False,
    kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    is_flat = Q.dim() == 3
    if is_flat:
        if not q_num_heads or not kv_num_heads:
            raise RuntimeError("q_num_heads and kv_num_heads must be provided for 3D inputs")
        Q = _split_heads(Q, q_num_heads)
        K, V = _split_heads(K, kv_num_heads), _split_heads(V, kv_num_heads)
    present_key = K.clone() if past_key is None else _torch["cat"]((past_key, K), 2)
    present_value = V.clone() if past_value is None else _torch["cat"]((past_value, V), 2)
    heads, own_heads = Q.shape[1], present_key.shape[1]
    if heads % own_heads:
        raise RuntimeError(f"q_num_heads ({heads}) must be divisible by kv_num_heads ({own_heads}) "
                           "for GQA")
    k, v = (_repeat_heads(x, heads // own_heads) for x in (present_key, present_value))
    factor = math.sqrt(1 / math.sqrt(Q.shape[3]) if scale is None else scale)
    scores = (Q * factor) @ (k * factor).transpose(-2, -1)  # (batch, heads, queries, keys)
    biased = scores + _create_bias(Q, k, attn_mask, is_causal)
    capped = softcap * (biased / softcap).tanh() if softcap > 0 else biased
    precision = _PRECISIONS.get(softmax_precision or 0, capped.dtype)
    weights = capped.to(precision).softmax(-1).to(capped.dtype)
    y = weights @ v
    if is_flat:
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    shown = (scores, biased, capped, weights)[qk_matmul_output_mode]
    return y, present_key, present_value, shown.clone() if shown is weights else shown


_operator: Any = custom_op("onnx::Attention.opset23", _attend, mutates_args=())
_operator.register_fake(_attend)
ATTENTION = _operator._opoverload
DECOMPOSITIONS: dict[Any, Any] = {ATTENTION: _attend}


def attention(
    Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor | None = None,
    past_key: Tensor | None = None, past_value: Tensor | None = None, *, is_causal: bool = False,
    kv_num_heads: int = 0, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return attention's result, the keys and values after those of the past, and the scores.

    `Q`, `K`, `V`: (batch, heads, length, features), or (batch, length, heads * features) with
    `q_num_heads` and `kv_num_heads`; the latter divides the former. `attn_mask`: True where a key
    counts, or numbers to add to the scores. `qk_matmul_output_mode`: the scores as products (0),
    with the mask (1), capped (2), or after softmax (3). `softcap`: bound of the scores.
    `softmax_precision`: ONNX's number of the dtype in which softmax is computed.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> torch.onnx.ops.attention(q, q, q)[0].shape
    torch.Size([1, 1, 2, 4])
    """
    result: tuple[Tensor, Tensor, Tensor, Tensor] = ATTENTION(
        Q, K, V, attn_mask, past_key, past_value, is_causal=is_causal, kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads, qk_matmul_output_mode=qk_matmul_output_mode, scale=scale,
        softcap=softcap, softmax_precision=softmax_precision)
    return result
