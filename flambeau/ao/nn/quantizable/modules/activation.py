"""Multi-head attention out of linear layers that can be quantized."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....native.foundation.user_frames import warn
from .....nn import functional as F
from .....nn import modules
from .....nn.parameter import Parameter
from .....tensor import Tensor
from .....tensor.dtypes import bool_, uint8
from ...quantized.modules.functional_modules import FloatFunctional
from ..steps import Steps


class MultiheadAttention(modules.MultiheadAttention):
    """`nn.MultiheadAttention` with a linear layer for query, key and value each.

    Products with query, key and value are quantized; scores and softmax stay in float32.
    """

    _FLOAT_MODULE: Any = modules.MultiheadAttention
    __constants__ = ("batch_first",)

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        from ....quantization.stubs import DeQuantStub, QuantStub

        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim,
                         vdim, batch_first, device, dtype)
        sizes = (self.embed_dim, self.kdim, self.vdim, self.embed_dim)
        layers: Any = [modules.Linear(size, self.embed_dim, bias, device, dtype) for size in sizes]
        self.linear_Q, self.linear_K, self.linear_V, self.out_proj = layers
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output, self.quant_attn_output_weights = QuantStub(), QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = (DeQuantStub() for _ in range(3))

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    @property
    def _projections(self) -> tuple[Any, Any, Any]:
        return self.linear_Q, self.linear_K, self.linear_V

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """An `nn.MultiheadAttention` with a `qconfig`, prepared to be run on samples."""
        assert type(other) is cls._FLOAT_MODULE, \
            f"Expected type {cls._FLOAT_MODULE}, got {type(other)}"
        assert hasattr(other, "qconfig"), "The float module must have 'qconfig'"
        observed = cls(other.embed_dim, other.num_heads, other.dropout,
                       other.in_proj_bias is not None, other.bias_k is not None,
                       other.add_zero_attn, other.kdim, other.vdim, other.batch_first)
        observed.bias_k, observed.bias_v = other.bias_k, other.bias_v
        observed.qconfig = other.qconfig
        observed.out_proj.weight = other.out_proj.weight
        observed.out_proj.bias = other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.chunk(3, 0)
        else:
            weights = (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        biases = (None,) * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3, 0)
        for layer, weight, bias in zip(observed._projections, weights, biases, strict=True):
            layer.weight = Parameter(weight.detach(), weight.requires_grad)
            layer.bias = None if bias is None else Parameter(bias.detach(), bias.requires_grad)
        observed.eval()
        return Steps.prepare(observed, inplace=True)

    def dequantize(self) -> Any:
        """The `nn.MultiheadAttention` of a quantized one's weights."""
        packed = [layer._weight_bias() for layer in (*self._projections, self.out_proj)]
        float_parameters = [(weight.dequantize(), bias) for weight, bias in packed]
        result = self._FLOAT_MODULE(
            self.embed_dim, self.num_heads, self.dropout, float_parameters[0][1] is not None,
            self.bias_k is not None, self.add_zero_attn, self.kdim, self.vdim, self.batch_first)
        assert result._qkv_same_embed_dim == self._qkv_same_embed_dim
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                setattr(result, name, Parameter(getattr(self, name).dequantize()))
        weight, bias = float_parameters[3]
        result.out_proj.weight = Parameter(weight)
        if bias is not None:
            result.out_proj.bias = Parameter(bias)
        if result._qkv_same_embed_dim:
            result.in_proj_weight = Parameter(ops.cat([weight
                                                       for weight, _ in float_parameters[:3]]))
        else:
            result.q_proj_weight, result.k_proj_weight, result.v_proj_weight = (
                Parameter(weight) for weight, _ in float_parameters[:3])
        if result.in_proj_bias is not None:
            result.in_proj_bias = Parameter(ops.cat([bias.detach()
                                                     for _, bias in float_parameters[:3]]))
        return result

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """NotImplementedError: `nn.quantized.MultiheadAttention` is made of an observed one."""
        raise NotImplementedError("It looks like you are trying to prepare an MHA module. Please, "
                                  "see the examples on quantizable MHAs.")

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attention's output and weights, as of `nn.MultiheadAttention`; no causal mask."""
        assert not (attn_mask is not None and is_causal), "Only allow causal mask or attn_mask"
        assert not is_causal, "causal mask not supported by AO MHA module"
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        length, batch, size = query.size()
        assert size == self.embed_dim, f"embed_dim mismatch: {self.embed_dim} != {size}"
        q, k, v = self._project(query, key, value)
        mask = _convert_mask("attn_mask", attn_mask)
        padding = _convert_mask("key_padding_mask", key_padding_mask)
        if mask is not None:
            mask = _check_mask(mask, batch * self.num_heads, length, key.size(0))
        assert padding is None or padding.shape == key.shape[1::-1], (
            f"key_padding_mask.size() must be {key.shape[1::-1]}, got {padding.size()}")
        if self.bias_k is not None and self.bias_v is not None:
            k = ops.cat([k, self.bias_k.repeat(1, batch, 1)])
            v = ops.cat([v, self.bias_v.repeat(1, batch, 1)])
            mask, padding = _pad(mask), _pad(padding)
        # (length, batch, embed) as (batch * heads, length, head)
        q, k, v = (x.contiguous().view(-1, batch * self.num_heads, self.head_dim).transpose(0, 1)
                   for x in (q, k, v))
        if self.add_zero_attn:
            k, v = _append_zeros(k), _append_zeros(v)
            mask, padding = _pad(mask), _pad(padding)
        y, weights = self._attend(
            self.dequant_q(q), self.dequant_k(k), self.dequant_v(v), mask, padding)
        # (batch * heads, length, head) as (length, batch, embed); PyTorch's order of axes where
        # the batch comes first, which mixes heads and positions
        if self.batch_first:
            y = y.view(batch, length, self.embed_dim)
        else:
            y = y.transpose(0, 1).contiguous().view(length, batch, self.embed_dim)
        y = self.out_proj(self.quant_attn_output(y))
        weights = self.quant_attn_output_weights(weights)
        weights = weights.view(batch, self.num_heads, length, k.size(1))
        if need_weights and average_attn_weights:
            weights = weights.mean(dim=1)
        return y, weights if need_weights else None

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Any, Any, Any]:
        """Query, key and value as the heads see them, the query scaled."""
        assert key.shape[:2] == value.shape[:2], (
            f"key and value size mismatch: key.size()={key.size()}, value.size()={value.size()}")
        q, k, v = self.linear_Q(query), self.linear_K(key), self.linear_V(value)
        return self.q_scaling_product.mul_scalar(q, self.head_dim**-0.5), k, v

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, padding: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The output and the weights of each head, in floating point."""
        scores = ops.bmm(q, k.transpose(1, 2))
        if mask is not None:
            scores = scores.masked_fill(mask, -float("inf")) if mask.dtype is bool_ \
                else scores + mask
        if padding is not None:
            by_head = scores.view(len(padding), self.num_heads, *scores.shape[1:])
            by_head = by_head.masked_fill(padding[:, None, None], -float("inf"))
            scores = by_head.view(scores.shape)
        weights = F.dropout(F.softmax(scores, dim=-1), self.dropout, self.training)
        return ops.bmm(weights, v), weights


def _convert_mask(name: str, mask: Tensor | None) -> Tensor | None:
    """The mask; one of bytes, which is deprecated, as booleans."""
    if mask is None or mask.dtype is not uint8:
        return mask
    warn(f"Byte tensor for `{name}` in `nn.MultiheadAttention` is deprecated. Use bool tensor "
         "instead.")
    return mask.to(bool_)


def _check_mask(mask: Tensor, heads: int, rows: int, columns: int) -> Tensor:
    """The mask with an axis for heads; RuntimeError for another shape."""
    assert mask.is_floating_point() or mask.dtype is bool_, (
        f"Only float and bool types are supported for attn_mask, not {mask.dtype}")
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    expected = (rows, columns) if mask.dim() == 2 else (heads, rows, columns)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The size of the {mask.dim()}D attn_mask is not correct.")
    return mask[None] if mask.dim() == 2 else mask


def _pad(mask: Tensor | None) -> Tensor | None:
    """The mask with a column of zeros for one more key."""
    return None if mask is None else F.pad(mask, (0, 1))


def _append_zeros(x: Any) -> Tensor:
    """x (batch * heads, length, head) with one more position, of zeros."""
    zeros = ops.zeros(x.size(0), 1, x.size(2))
    if x.is_quantized:
        zeros = ops.quantize_per_tensor(zeros, x.q_scale(), x.q_zero_point(), x.dtype)
    return ops.cat([x, zeros], 1)
