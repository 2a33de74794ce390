"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...tensor import Tensor
from .. import functional as F
from ..attention.nested_attention import attend_nested
from ..init import constant_, xavier_normal_, xavier_uniform_
from ..module import Module
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention, softmax(Q K^T / sqrt(head_dim)) V in `num_heads` heads.

    Each head uses embed_dim / num_heads features. Query (l, n, embed_dim), key (s, n, kdim), value
    (s, n, vdim); `batch_first` puts n first, and n is optional. Return the output, shaped like the
    query, and the weights (n, l, s), averaged over heads, or None for the faster
    `need_weights=False`. `attn_mask` is (l, s) or (n num_heads, l, s), `key_padding_mask` (n, s):
    bool, True to block attention, or floats to add. `is_causal` hints that attn_mask is causal.
    Raises ValueError for sizes that are not positive, AssertionError if num_heads does not
    divide embed_dim. Vaswani et al., 2017.

    >>> attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = torch.zeros(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        kind = {"device": device, "dtype": dtype}
        self._flambeau_register_projections(kind)
        in_bias = Parameter(ops.empty(3 * embed_dim, **kind)) if bias else None
        self.register_parameter("in_proj_bias", in_bias)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **kind)
        if add_bias_kv:
            self.bias_k = Parameter(ops.empty((1, 1, embed_dim), **kind))
            self.bias_v = Parameter(ops.empty((1, 1, embed_dim), **kind))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _flambeau_register_projections(self, kind: dict[str, Any]) -> None:
        """Register one stacked weight if query, key and value have the same size, else three."""
        embed = self.embed_dim
        widths = {"q_proj_weight": embed, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(ops.empty((3 * embed, embed), **kind))
            for name in widths:
                self.register_parameter(name, None)
        else:
            for name, width in widths.items():
                setattr(self, name, Parameter(ops.empty((embed, width), **kind)))
            self.register_parameter("in_proj_weight", None)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                xavier_normal_(extra)

    def __setstate__(self, state: dict) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # old pickles lack it
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if query.is_nested or key.is_nested or value.is_nested:
            return attend_nested(self, (query, key, value), (key_padding_mask, attn_mask),
                                 need_weights, average_attn_weights)
        swap = self.batch_first and query.dim() == 3
        if swap:
            # Transpose each distinct input once: F projects equal inputs in one product.
            transposed = {id(x): x.transpose(1, 0) for x in (query, key, value)}
            query, key, value = (transposed[id(x)] for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0) if swap else output), weights


# PyTorch's programs and pickles look for the class beside the activations.
MultiheadAttention.__module__ = f"{__package__}.activation"
