"""The Transformer of Vaswani et al., 2017: layers, stacks of layers, and the full model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ... import ops
from ...autograd import is_grad_enabled
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ...tensor.dtypes import bool_
from .. import functional as F
from ..init import xavier_uniform_
from ..module import Module
from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """Return (sz, sz), -inf above the diagonal and 0 elsewhere."""
    return ops.triu(ops.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _detect_is_causal_mask(
    mask: Tensor | None, is_causal: bool | None = None, size: int | None = None
) -> bool:
    """Return `is_causal` if given, else whether `mask` is the causal mask."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    return src.size(1 if batch_first and src.dim() != 2 else 0)


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _feed_forward(layer: Any, d_model: int, width: int, dropout: float, **options: Any) -> None:
    layer.linear1 = Linear(d_model, width, **options)
    layer.dropout = Dropout(dropout)
    layer.linear2 = Linear(width, d_model, **options)


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward network, each with a residual and layer norm.

    src (l, n, d_model), with `batch_first` (n, l, d_model), or unbatched; the output has its shape.
    `norm_first` normalizes before each part instead of after. Masks as in MultiheadAttention.

    >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> causal = nn.Transformer.generate_square_subsequent_mask(5)
    >>> layer(torch.zeros(3, 5, 8), src_mask=causal, is_causal=True).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, **options
        )
        _feed_forward(self, d_model, dim_feedforward, dropout, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation = _get_activation_fn(activation)
        if activation is F.relu or isinstance(activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif activation is F.gelu or isinstance(activation, GELU):
            self.activation_relu_or_gelu = 2
        else:
            self.activation_relu_or_gelu = 0

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)  # old pickles lack it

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        src_key_padding_mask = _convert_to_additive(
            src_key_padding_mask, "src_key_padding_mask", src, src_mask, "src_mask"
        )
        src_mask = _convert_to_additive(src_mask, "src_mask", src)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        x, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    tgt (t, n, d_model) and memory (s, n, d_model), with `batch_first` n first, or unbatched; the
    output has the shape of tgt. Masks as in MultiheadAttention.

    >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(torch.zeros(3, 5, 8), memory=torch.zeros(3, 7, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"bias": bias, "device": device, "dtype": dtype}
        super().__init__()
        for name in ("self_attn", "multihead_attn"):
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        _feed_forward(self, d_model, dim_feedforward, dropout, **options)
        self.norm_first = norm_first
        for name in ("norm1", "norm2", "norm3"):
            setattr(self, name, LayerNorm(d_model, eps=layer_norm_eps, **options))
        for name in ("dropout1", "dropout2", "dropout3"):
            setattr(self, name, Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)  # old pickles lack it

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks)
            x = x + self._mha_block(self.norm2(x), memory, *cross)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *masks))
        x = self.norm2(x + self._mha_block(x, memory, *cross))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        x, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout1(x)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        x, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _convert_to_additive(
    mask: Tensor | None,
    name: str,
    target: Tensor,
    other: Tensor | None = None,
    other_name: str = "",
) -> Tensor | None:
    """Convert a bool mask to `target`'s dtype, -inf where True; return a float mask unchanged.

    Raises AssertionError for other dtypes; warns if `other` has a different dtype.
    """
    if mask is None:
        return None
    if mask.dtype.is_floating_point:
        additive = mask
    elif mask.dtype == bool_:
        additive = ops.zeros_like(mask, dtype=target.dtype).masked_fill_(mask, float("-inf"))
    else:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warn(
            f"Support for mismatched {name} and {other_name} is deprecated. "
            "Use same type for both instead.",
        )
    return additive


def _find_obstacle(layer: Any) -> str:
    """Why a stack of `layer` does not skip padding, in PyTorch's warning's words; "" if it does."""
    path = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{path} was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        return f"{path}.norm_first was True"
    if not attention.batch_first:
        hint = "(use batch_first for better inference performance)"
        return f"{path}.self_attn.batch_first was not True{hint}"
    if not attention._qkv_same_embed_dim:
        return f"{path}.self_attn._qkv_same_embed_dim was not True"
    if attention.in_proj_bias is None:
        return f"{path}.self_attn was passed bias=False"
    if not layer.activation_relu_or_gelu:
        return f"{path}.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return f"{path}.norm1.eps was not equal to {path}.norm2.eps"
    if attention.num_heads % 2 == 1:
        return f"{path}.self_attn.num_heads is odd"
    return ""


def _is_left_aligned(mask: Tensor) -> bool:
    """Whether every row of a bool (n, l) is True up to some place and False after it."""
    return not bool((mask[:, 1:] & ~mask[:, :-1]).any())


class TransformerEncoder(Module):
    """Stack of `num_layers` copies of an encoder layer, then `norm`.

    As in PyTorch, eval mode without gradients outputs zeros (normalized by `norm`) at positions
    masked by src_key_padding_mask, if `enable_nested_tensor` and the layer allow it.

    >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> encoder = nn.TransformerEncoder(layer, num_layers=2)
    >>> encoder(torch.zeros(3, 5, 8)).shape, len(encoder.layers)
    (torch.Size([3, 5, 8]), 2)
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        obstacle = _find_obstacle(encoder_layer)
        if enable_nested_tensor and obstacle:
            warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False "
                f"because {obstacle}",
            )
            self.use_nested_tensor = False

    def _flambeau_skips_padding(self, src: Tensor, mask: Tensor | None, valid: Tensor) -> bool:
        """Whether PyTorch would run the layers on unpadded positions only."""
        return (
            mask is None
            and getattr(self, "use_nested_tensor", False)
            and not self.layers[0].training
            and src.dim() == 3
            and (not getattr(self, "mask_check", True) or _is_left_aligned(valid))
            and not (
                is_grad_enabled()
                and (src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters()))
            )
        )

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = _convert_to_additive(
            src_key_padding_mask, "src_key_padding_mask", src, mask, "mask"
        )
        mask = _convert_to_additive(mask, "mask", src)
        valid = None if padding is None else padding == 0
        batch_first = self.layers[0].self_attn.batch_first
        is_causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if valid is not None and self._flambeau_skips_padding(src, mask, valid):
            output = output.masked_fill(~valid.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Stack of `num_layers` copies of a decoder layer, then `norm`.

    >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> decoder = nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(torch.zeros(3, 5, 8), memory=torch.zeros(3, 7, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        decoder_layer: TransformerDecoderLayer,
        num_layers: int,
        norm: Module | None = None,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Encode src, then decode tgt with attention to the encoder's output.

    src (s, n, d_model), tgt (t, n, d_model), with `batch_first` n first, or unbatched; the output
    has the shape of tgt. Raises RuntimeError if batches differ or features are not d_model.

    Vaswani et al., 2017.

    >>> model = nn.Transformer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> model(torch.zeros(3, 7, 8), torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    >>> nn.Transformer.generate_square_subsequent_mask(3)
    tensor([[0., -inf, -inf],
            [0., 0., -inf],
            [0., 0., 0.]])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = {"bias": bias, "device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                 batch_first, norm_first, bias, device, dtype)
        super().__init__()
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **options)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **options)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask: (sz, sz), -inf above the diagonal and 0 elsewhere."""
        return _generate_square_subsequent_mask(sz, device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                xavier_uniform_(parameter)
