"""Layers that are one operator in PyTorch's inference: attention with its projections, a layer of a
transformer's encoder, and a product with its activation."""

from __future__ import annotations

import math
from typing import Any

from ...tensor import dtypes as types
from ...tensor.tensor import Tensor
from ..activation.gelu import gelu
from ..activation.rectifiers import relu
from ..core.autocast import Policy, make_autocasting
from ..core.operator import publish
from ..linalg.linear import linear
from ..linalg.products import addmm
from ..normalization.layer_norm import layer_norm


def transform_bias_rescale_qkv(
    qkv: Tensor, qkv_bias: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Split a projection (batch, time, 3 * heads * head_dim) into queries, keys and values.

    Each is (batch, heads, time, head_dim). The bias is added and queries are scaled.
    """
    parts = (qkv + qkv_bias).unflatten(-1, (3, num_heads, -1))
    query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, head_dim)
    return query / math.sqrt(query.shape[-1]), key.clone(), value.clone()


def native_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, qkv_weight: Tensor,
    qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, mask: Tensor | None = None,
    need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Compute projected attention over (batch, time, width): (output, weights or None)."""
    heads = [
        # (batch, time, width) -> (batch, heads, time, head_dim)
        linear(x, weight, bias).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for x, weight, bias in zip(
            (query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    ]
    scores = (heads[0] / math.sqrt(embed_dim // num_head)) @ heads[1].transpose(-2, -1)
    if mask is not None:
        expanded = mask[:, None, None, :] if mask_type == 1 and mask.dim() == 2 else mask
        scores = scores.masked_fill(expanded, -math.inf) if expanded.dtype is types.bool_ \
            else scores + expanded
    weights = scores.softmax(-1)
    result = linear((weights @ heads[2]).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer(
    src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor, qkv_bias: Tensor,
    proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool, eps: float,
    norm1_weight: Tensor, norm1_bias: Tensor, norm2_weight: Tensor, norm2_bias: Tensor,
    ffn1_weight: Tensor, ffn1_bias: Tensor, ffn2_weight: Tensor, ffn2_bias: Tensor,
    mask: Tensor | None = None, mask_type: int | None = None,
) -> Tensor:
    """Apply a transformer encoder layer to (batch, time, width)."""

    def attend(x: Tensor) -> Any:
        return native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type)[0]

    def feed(x: Tensor) -> Any:
        hidden = linear(x, ffn1_weight, ffn1_bias)
        return linear(gelu(hidden) if use_gelu else relu(hidden), ffn2_weight, ffn2_bias)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        x = src + attend(norm(src, norm1_weight, norm1_bias))
        return x + feed(norm(x, norm2_weight, norm2_bias))
    x = norm(src + attend(src), norm1_weight, norm1_bias)
    return norm(x + feed(x), norm2_weight, norm2_bias)


def addmm_activation(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    use_gelu: bool = False,
) -> Tensor:
    """Apply relu, or gelu with `use_gelu`, to the result of `addmm`."""
    product = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return gelu(product) if use_gelu else relu(product)


for _name, _function in (
    ("_transform_bias_rescale_qkv", transform_bias_rescale_qkv),
    ("_native_multi_head_attention", native_multi_head_attention),
    ("_transformer_encoder_layer_fwd", transformer_encoder_layer),
    ("_addmm_activation", addmm_activation),
):
    publish(make_autocasting(_name, _function, Policy.LOWER), (_name,), ("torch",))
