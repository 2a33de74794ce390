"""MultiheadAttention of nested tensors: PyTorch's fast path, and why a call does not take it."""

from __future__ import annotations

from typing import Any

from ...autograd.mode import is_grad_enabled
from ...ops.core.autocast import STATE
from ...ops.interception.torch_function import overrides
from ...tensor import Tensor

__all__ = ["attend_nested"]

_BOTH_MASKS = (
    "supplying both src_key_padding_mask and src_mask at the same time"
    "                                  is not supported with NestedTensor input"
)


def attend_nested(
    module: Any, inputs: tuple[Tensor, Tensor, Tensor], masks: tuple[Any, Any],
    need_weights: bool, average_attn_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attend within each row of a nested tensor; weights are padded with zeros.

    Raise AssertionError for what PyTorch's fast path refuses.
    """
    query = inputs[0]
    obstacle = _find_layer_obstacle(module, inputs) or _call_obstacle(module, query, masks)
    if obstacle is not None or module.in_proj_bias is None:
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. "
            f"The fast path was not hit because {obstacle or ''}"
        )
    attend = type(query).RULES["native_multi_head_attention"]  # type: ignore[attr-defined]
    result: tuple[Tensor, Tensor | None] = attend(
        *inputs, module.embed_dim, module.num_heads, module.in_proj_weight, module.in_proj_bias,
        module.out_proj.weight, module.out_proj.bias, None, need_weights, average_attn_weights,
    )
    return result


def _find_layer_obstacle(module: Any, inputs: tuple[Tensor, Tensor, Tensor]) -> str | None:
    """Return what the module's settings and the inputs' dtypes forbid, in PyTorch's order."""
    query, key, value = inputs
    bias, weight = module.in_proj_bias, module.in_proj_weight
    if query.dim() != 3:
        return f"input not batched; expected query.dim() of 3 but got {query.dim()}"
    if query is not key or key is not value:
        return "non-self attention was used (query, key, and value are not the same Tensor)"
    if bias is not None and query.dtype != bias.dtype:
        return f"dtypes of query ({query.dtype}) and self.in_proj_bias ({bias.dtype}) don't match"
    if weight is None:
        return "in_proj_weight was None"
    if query.dtype != weight.dtype:
        return (f"dtypes of query ({query.dtype}) and self.in_proj_weight ({weight.dtype}) don't "
                "match")
    forbidden = {
        "training is enabled": module.training,
        "self.num_heads is not even": module.num_heads % 2,
        "batch_first was not True": not module.batch_first,
        "self.bias_k was not None": module.bias_k is not None,
        "self.bias_v was not None": module.bias_v is not None,
        "add_zero_attn was enabled": module.add_zero_attn,
    }
    return next((reason for reason, applies in forbidden.items() if applies), None)


def _call_obstacle(module: Any, query: Tensor, masks: tuple[Any, Any]) -> str | None:
    """Return what the masks and the modes around the call forbid."""
    parameters = (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight,
                  module.out_proj.bias)
    if any(mask is not None for mask in masks):
        return _BOTH_MASKS
    if STATE.enabled:
        return "autocast is enabled"
    has_rule = "native_multi_head_attention" in type(query).RULES  # type: ignore[attr-defined]
    if not has_rule or any(overrides(type(p)) for p in parameters):
        return "some Tensor argument has_torch_function"
    if is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (query, *parameters)
    ):
        return ("grad is enabled and at least one of query or the input/output projection weights "
                "or biases requires_grad")
    return None
