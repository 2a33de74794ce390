"""multi_head_attention_forward: projections, masks and heads around scaled dot-product attention.

Internally, everything is (batch, heads, time, head_dim), as views of the projections.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ...native.foundation.user_frames import warn
from ...tensor.tensor import Tensor, wrap
from ..activation.softmax import softmax
from ..core.registry import composite
from ..creation.creation import zeros
from ..creation.dropout import dropout
from ..linalg.linear import linear
from ..view.join import cat
from .scaled_dot_product import scaled_dot_product_attention


@composite(expose=("nn.functional",), explains=True)
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False
) -> Any:
    """Compute multi-head attention: (output, attention weights or None).

    The function behind nn.MultiheadAttention, which documents the shapes. query (l, n, e),
    key (s, n, k), value (s, n, v), or all without n. Raises AssertionError or RuntimeError, as
    PyTorch does, if arguments do not fit.

    >>> x, eye = torch.ones(1, 1, 2), torch.eye(2)
    >>> output, weights = torch.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, torch.cat([eye, eye, eye]), torch.zeros(6), None, None, False, 0.,
    ...     eye, torch.zeros(2))
    >>> output, weights
    (tensor([[[1., 1.]]]), tensor([[[1.]]]))
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (query.unsqueeze(1),) * 3 if query is key is value else tuple(
            x.unsqueeze(1) for x in (query, key, value)
        )
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query._array.shape
    attn_mask, key_padding_mask, is_causal = _merge_masks(
        query, key_padding_mask, attn_mask, need_weights, is_causal
    )
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _project_apart(query, key, value, weights, in_proj_bias)
    else:
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _mask_by_heads(attn_mask, batch, num_heads, length, key._array.shape[0])
    k, v, extra = _with_bias(k, v, bias_k, bias_v, static_k, static_v)
    q = _split_heads(q, num_heads)
    sizes = batch, num_heads, width
    k = _split_heads(k, num_heads) if static_k is None else _split_static(static_k, "k", *sizes)
    v = _split_heads(v, num_heads) if static_v is None else _split_static(static_v, "v", *sizes)
    if add_zero_attn:
        k, v = _with_zero(k), _with_zero(v)
    extra += bool(add_zero_attn)
    mask = _merge(attn_mask, key_padding_mask, extra, k._array.shape[2], batch)
    p = dropout_p if training else 0.0
    if not need_weights:
        y = scaled_dot_product_attention(q, k, v, mask, p, is_causal and mask is None)
        return _join_heads(y, out_proj_weight, out_proj_bias, batched), None
    if is_causal and mask is None:
        raise AssertionError("is_causal needs an attn_mask where need_weights is True")
    probabilities = _compute_weights(q, k, mask)
    if p > 0:
        probabilities = dropout(probabilities, p, True)
    y = _join_heads(probabilities @ v, out_proj_weight, out_proj_bias, batched)
    if average_attn_weights:
        probabilities = probabilities.mean(dim=1)
    return y, probabilities if batched else probabilities.squeeze(0)


# -------------------------------------------------------------------------------------- checks


def _refuse(message: str) -> NoReturn:
    raise AssertionError(message)


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None,
    heads: int,
) -> bool:
    """Whether the inputs have a batch axis."""
    rank = query.dim()
    if rank not in (2, 3):
        _refuse("query should be unbatched 2D or batched 3D tensor but received "
                f"{rank}-D query tensor")
    case = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        _refuse(f"{case} `key` and `value` to be {rank}-D but found {key.dim()}-D and "
                f"{value.dim()}-D tensors respectively")
    if padding is not None and padding.dim() != rank - 1:
        _refuse(f"{case} `key_padding_mask` to be `None` or {rank - 1}-D but found "
                f"{padding.dim()}-D tensor instead")
    if mask is not None:
        if mask.dim() not in (2, 3):
            _refuse(f"{case} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor "
                    "instead")
        expected = (heads, query.shape[0], key.shape[0])
        if rank == 2 and mask.dim() == 3 and tuple(mask.shape) != expected:
            _refuse(f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return rank == 3


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, expected: int, heads: int, is_separate: bool
) -> None:
    width = query.shape[-1]
    if width != expected:
        _refuse(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % heads:
        _refuse(f"embed_dim {width} not divisible by num_heads {heads}")
    if is_separate and key.shape[:2] != value.shape[:2]:
        _refuse(f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}")
    if not is_separate and key.shape != value.shape:
        _refuse(f"key shape {key.shape} does not match value shape {value.shape}")


# --------------------------------------------------------------------------------------- masks


def convert_to_additive(mask: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """Convert a bool mask to an additive one: -inf where it is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask._array.dtype != np.bool_:
        _refuse(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    return wrap(np.where(mask._array, -np.inf, 0).astype(like._array.dtype))


def _merge_masks(
    query: Tensor, padding: Tensor | None, mask: Tensor | None, need_weights: bool, causal: bool
) -> tuple[Tensor | None, Tensor | None, bool]:
    """Return (attn_mask, key_padding_mask, whether to mask causally), with additive masks."""
    if padding is not None and mask is not None and padding.dtype != mask.dtype:
        warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type "
            "for both instead.",
        )
    padding = convert_to_additive(padding, "key_padding_mask", query)
    if causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if causal and padding is None and not need_weights:
        return None, None, True
    return convert_to_additive(mask, "attn_mask", query), padding, causal and padding is None


def _mask_by_heads(
    mask: Tensor | None, batch: int, heads: int, length: int, source: int
) -> Tensor | None:
    """Reshape attn_mask to (1, 1, l, s) or (batch, heads, l, s)."""
    if mask is None:
        return None
    shape = (length, source) if mask.dim() == 2 else (batch * heads, length, source)
    if tuple(mask.shape) != shape:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {shape}."
        )
    if mask.dim() == 2:
        return mask.reshape(1, 1, length, source)
    return mask.reshape(batch, heads, length, source)


def _merge(
    mask: Tensor | None, padding: Tensor | None, extra: int, source: int, batch: int
) -> Tensor | None:
    """Merge both masks, with `extra` unmasked keys at the end."""
    if mask is not None and extra:
        mask = cat([mask, zeros((*mask.shape[:-1], extra), dtype=mask.dtype)], -1)
    if padding is None:
        return mask
    if extra:
        padding = cat([padding, zeros((padding.shape[0], extra), dtype=padding.dtype)], -1)
    for axis, n in enumerate((batch, source)):
        if padding.shape[axis] != n:
            _refuse(f"Expected key_padded_mask.shape[{axis}] to be {n}, but got "
                    f"{padding.shape[axis]}")
    padding = padding.reshape(batch, 1, 1, source)
    return padding if mask is None else mask + padding


# --------------------------------------------------------------------------------- projections


def _project(query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any) -> tuple:
    """Project query, key and value by parts of one weight, in one product if they are the same."""
    if weight is None:
        _refuse("use_separate_proj_weight is False but in_proj_weight is None")
    if query is key and key is value:
        return tuple(linear(query, weight, bias).chunk(3, -1))
    width = query._array.shape[-1]
    if key is value:
        q_weight, kv_weight = weight.split([width, width * 2])
        q_bias, kv_bias = (None, None) if bias is None else bias.split([width, width * 2])
        return (linear(query, q_weight, q_bias), *linear(key, kv_weight, kv_bias).chunk(2, -1))
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(map(linear, (query, key, value), weight.chunk(3), biases))


def _project_apart(
    query: Tensor, key: Tensor, value: Tensor, weights: tuple, bias: Tensor | None
) -> tuple:
    for name, weight, x in zip("qkv", weights, (query, key, value), strict=True):
        if weight is None:
            _refuse(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        shape = (query.shape[-1], x.shape[-1])
        if tuple(weight.shape) != shape:
            _refuse(f"expecting {name} weights shape of {shape}, but got {weight.shape}")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(map(linear, (query, key, value), weights, biases))


def _with_bias(
    k: Tensor, v: Tensor, bias_k: Any, bias_v: Any, static_k: Any, static_v: Any
) -> tuple:
    """Append the biases to key and value as one step; return the number of steps added."""
    if bias_k is None and bias_v is None:
        return k, v, 0
    if bias_k is None or bias_v is None:
        present, missing = ("k", "v") if bias_v is None else ("v", "k")
        _refuse(f"bias_{present} is set but bias_{missing} is None")
    if static_k is not None:
        _refuse("bias cannot be added to static key.")
    if static_v is not None:
        _refuse("bias cannot be added to static value.")
    batch = k._array.shape[1]
    return (*(cat([x, b.expand(1, batch, b._array.shape[-1])])
              for x, b in ((k, bias_k), (v, bias_v))), 1)


# ---------------------------------------------------------------------------------------- heads


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape (time, batch, heads * head_dim) to (batch, heads, time, head_dim)."""
    width = x._array.shape[-1]
    return x.unflatten(-1, (heads, width // heads)).permute(1, 2, 0, 3)


def _split_static(x: Tensor, name: str, batch: int, heads: int, width: int) -> Tensor:
    """Reshape a static key or value, (batch * heads, s, head_dim), to separate batch and heads."""
    for axis, n in ((0, batch * heads), (2, width // heads)):
        if x.shape[axis] != n:
            _refuse(f"expecting static_{name}.size({axis}) of {n}, but got {x.shape[axis]}")
    return x.unflatten(0, (batch, heads))


def _with_zero(x: Tensor) -> Tensor:
    batch, heads, _, width = x._array.shape
    return cat([x, zeros((batch, heads, 1, width), dtype=x.dtype)], 2)


def _compute_weights(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    scores = (q * math.sqrt(1.0 / q._array.shape[-1])) @ k.transpose(-1, -2)
    return softmax(scores if mask is None else scores + mask, -1)


def _join_heads(y: Tensor, weight: Tensor, bias: Tensor | None, batched: bool) -> Tensor:
    """Apply the output projection to (batch, heads, l, head_dim); return (l, batch, e)."""
    y = linear(y.permute(2, 0, 1, 3).flatten(2), weight, bias)
    return y if batched else y.squeeze(1)
