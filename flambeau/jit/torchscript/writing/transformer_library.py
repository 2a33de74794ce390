"""TorchScript code for attention and transformer layers, including masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from .classes import Method, write_attribute_read

__all__ = ["TRANSFORMERS"]

_BOOL = 11  # the number of torch.bool
_MASK = "Optional[Tensor]=None"


def _write_projection(m: Any) -> list[str]:
    """Return the lines that project the inputs and split them into heads."""
    if m._qkv_same_embed_dim:
        lines = ["wq, wk, wv = torch.chunk(self.in_proj_weight, 3)"]
    else:
        lines = [f"w{n} = self.{n}_proj_weight" for n in "qkv"]
    has_bias = m.in_proj_bias is not None
    if has_bias:
        lines.append("bq, bk, bv = torch.chunk(self.in_proj_bias, 3)")
    for n in "qkv":
        linear = f"torch.linear({n}, w{n}{f', b{n}' if has_bias else ''})"
        lines.append(f"{n} = torch.transpose(torch.unflatten({linear}, -1, "
                     f"[{m.num_heads}, {m.head_dim}]), -3, -2)")
    return lines


def _mask(name: str) -> list[str]:
    """Return the lines that apply a mask: bool excludes scores, other dtypes are added."""
    return [f"  if torch.eq(ops.prim.dtype({name}), {_BOOL}):",
            f"    scores = torch.masked_fill(scores, {name}, -inf)", "  else:",
            f"    scores = torch.add(scores, {name})"]


def _write_attention(m: Any) -> Method:
    if m.bias_k is not None or m.add_zero_attn:
        raise NotImplementedError("MultiheadAttention with bias_k or add_zero_attn")
    swap, back = [], []
    if not m.batch_first:
        batched = "if torch.eq(torch.dim(query), 3):"
        swap = [batched, *(f"  {n} = torch.transpose({n}, 0, 1)" for n in "qkv")]
        back = [batched, "  y = torch.transpose(y, 0, 1)"]
    return Method(
        f"query: Tensor, key: Tensor, value: Tensor, key_padding_mask: {_MASK}, "
        f"need_weights: bool=True, attn_mask: {_MASK}, average_attn_weights: bool=True, "
        "is_causal: bool=False",
        "q = query", "k = key", "v = value", *swap, *_write_projection(m),
        f"scores = torch.div(torch.matmul(q, torch.transpose(k, -2, -1)), "
        f"{float(m.head_dim) ** 0.5})",
        "if attn_mask is not None:", "  mask = attn_mask",
        "  if torch.__and__(torch.eq(torch.dim(mask), 3), torch.eq(torch.dim(scores), 4)):",
        f"    mask = torch.unflatten(mask, 0, [-1, {m.num_heads}])", *_mask("mask"),
        "if key_padding_mask is not None:",
        "  padding = torch.unsqueeze(torch.unsqueeze(key_padding_mask, -2), -2)",
        *_mask("padding"),
        f"weights = torch.dropout(torch.softmax(scores, -1), {float(m.dropout)}, self.training)",
        "y = torch.flatten(torch.transpose(torch.matmul(weights, v), -3, -2), -2)",
        "y = torch.linear(y, self.out_proj.weight, self.out_proj.bias)", *back,
        "shown = annotate(Optional[Tensor], None)", "if need_weights:",
        "  if average_attn_weights:", "    shown = torch.mean(weights, [-3])", "  else:",
        "    shown = weights", "return (y, shown)")


def _choose_activation(m: Any) -> str:
    name = str(getattr(m.activation, "__name__", type(m.activation).__name__)).lower()
    for known in ("relu", "gelu"):
        if name.startswith(known):
            return known
    raise NotImplementedError(f"the activation {name} of a {type(m).__name__}")


def _write_steps(m: Any, parts: list[tuple[str, str, str]]) -> list[str]:
    """Return the lines of a layer: each part adds to `x`, with the norm before or after.

    A part is (norm name, dropout name, expression in `z` to add).
    """
    lines = []
    for norm, dropout, call in parts:
        lines.append(f"z = (self.{norm}).forward(x)" if m.norm_first else "z = x")
        added = f"x = torch.add(x, (self.{dropout}).forward({call}))"
        if call.startswith("attend "):
            lines.append(f"y, _ = {call.removeprefix('attend ')}")
            added = f"x = torch.add(x, (self.{dropout}).forward(y))"
        lines.append(added)
        if not m.norm_first:
            lines.append(f"x = (self.{norm}).forward(x)")
    return lines


def _feed_forward(m: Any) -> str:
    hidden = f"(self.dropout).forward(torch.{_choose_activation(m)}((self.linear1).forward(z)))"
    return f"(self.linear2).forward({hidden})"


def _write_encoder_layer(m: Any) -> Method:
    attend = "attend (self.self_attn).forward(z, z, z, src_key_padding_mask, False, src_mask)"
    return Method(
        f"src: Tensor, src_mask: {_MASK}, src_key_padding_mask: {_MASK}, is_causal: bool=False",
        "x = src", *_write_steps(m, [("norm1", "dropout1", attend),
                               ("norm2", "dropout2", _feed_forward(m))]), "return x")


def _write_decoder_layer(m: Any) -> Method:
    own = "attend (self.self_attn).forward(z, z, z, tgt_key_padding_mask, False, tgt_mask)"
    cross = ("attend (self.multihead_attn).forward(z, memory, memory, memory_key_padding_mask, "
             "False, memory_mask)")
    return Method(
        f"tgt: Tensor, memory: Tensor, tgt_mask: {_MASK}, memory_mask: {_MASK}, "
        f"tgt_key_padding_mask: {_MASK}, memory_key_padding_mask: {_MASK}, "
        "tgt_is_causal: bool=False, memory_is_causal: bool=False",
        "x = tgt", *_write_steps(m, [("norm1", "dropout1", own), ("norm2", "dropout2", cross),
                               ("norm3", "dropout3", _feed_forward(m))]), "return x")


def _stack(parameters: str, first: str, rest: str) -> Callable[[Any], Method]:
    """Return a writer of layers in sequence, followed by the norm, if any."""
    def write(m: Any) -> Method:
        lines = [f"x = ({write_attribute_read('self', f'layers.{name}')}).forward(x, {rest})"
                 for name in m.layers._modules]
        norm = [] if m.norm is None else ["x = (self.norm).forward(x)"]
        return Method(parameters, f"x = {first}", *lines, *norm, "return x")

    return write


_encoder = _stack(
    f"src: Tensor, mask: {_MASK}, src_key_padding_mask: {_MASK}, is_causal: Optional[bool]=None",
    "src", "mask, src_key_padding_mask")
_decoder = _stack(
    f"tgt: Tensor, memory: Tensor, tgt_mask: {_MASK}, memory_mask: {_MASK}, "
    f"tgt_key_padding_mask: {_MASK}, memory_key_padding_mask: {_MASK}, "
    "tgt_is_causal: Optional[bool]=None, memory_is_causal: bool=False",
    "tgt", "memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask")


def _write_transformer(m: Any) -> Method:
    return Method(
        f"src: Tensor, tgt: Tensor, src_mask: {_MASK}, tgt_mask: {_MASK}, memory_mask: {_MASK}, "
        f"src_key_padding_mask: {_MASK}, tgt_key_padding_mask: {_MASK}, "
        f"memory_key_padding_mask: {_MASK}, src_is_causal: Optional[bool]=None, "
        "tgt_is_causal: Optional[bool]=None, memory_is_causal: bool=False",
        "memory = (self.encoder).forward(src, src_mask, src_key_padding_mask)",
        "return (self.decoder).forward(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, "
        "memory_key_padding_mask)")


TRANSFORMERS: dict[type, Callable[[Any], Method]] = {
    nn.MultiheadAttention: _write_attention, nn.TransformerEncoderLayer: _write_encoder_layer,
    nn.TransformerDecoderLayer: _write_decoder_layer, nn.TransformerEncoder: _encoder,
    nn.TransformerDecoder: _decoder, nn.Transformer: _write_transformer,
}
