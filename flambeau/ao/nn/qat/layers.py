"""Layers that fake-quantize their weights to 8 bits during training."""

from __future__ import annotations

from typing import Any

from ....nn import functional as F
from ....nn import modules as float_modules
from ....tensor import Tensor
from ....tensor.quantizers import per_channel_affine_float_qparams

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


def take_weights(result: Any, mod: Any) -> Any:
    """Give the layer the parameters of its float counterpart and return it."""
    result.weight, result.bias = mod.weight, mod.bias
    return result


def check_config(qconfig: Any) -> Any:
    """Return the QConfig; AssertionError if there is none."""
    assert qconfig, "qconfig must be provided for QAT module"
    return qconfig


class Linear(float_modules.Linear):
    """A linear layer whose weights are fake-quantized."""

    _FLOAT_MODULE: Any = float_modules.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = check_config(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """Return input W^T + b with rounded weights."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the QAT layer for a float layer, or for one fused with a ReLU."""
        inner = mod[0] if isinstance(mod, float_modules.Sequential) else mod
        result = cls(inner.in_features, inner.out_features, inner.bias is not None,
                     qconfig=mod.qconfig)
        return take_weights(result, inner)

    def to_float(self) -> Any:
        """Return the float layer with the trained weights."""
        return take_weights(float_modules.Linear(
            self.in_features, self.out_features, self.bias is not None), self)


class _Convolution:
    """Mixin, placed before the float class, for a convolution that fake-quantizes its weights."""

    weight_fake_quant: Any

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", qconfig: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype)
        self.qconfig = check_config(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self: Any, input: Tensor) -> Tensor:
        """Return the convolution with rounded weights."""
        result: Tensor = self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)
        return result

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the QAT convolution for a float one, or for one fused with a ReLU."""
        inner = mod[0] if isinstance(mod, float_modules.Sequential) else mod
        result = cls(
            inner.in_channels, inner.out_channels, inner.kernel_size, inner.stride, inner.padding,
            inner.dilation, inner.groups, inner.bias is not None, inner.padding_mode,
            qconfig=mod.qconfig)
        return take_weights(result, inner)

    def to_float(self: Any) -> Any:
        """Return the float convolution with the trained weights."""
        conv_class = getattr(float_modules, f"Conv{len(self.kernel_size)}d")
        return take_weights(conv_class(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding,
            self.dilation, self.groups, self.bias is not None, self.padding_mode), self)


class Conv1d(_Convolution, float_modules.Conv1d):
    """A 1-d convolution that fake-quantizes its weights."""


class Conv2d(_Convolution, float_modules.Conv2d):
    """A 2-d convolution that fake-quantizes its weights."""


class Conv3d(_Convolution, float_modules.Conv3d):
    """A 3-d convolution that fake-quantizes its weights."""


class _Table:
    """Mixin, placed before the float class, for an embedding that fake-quantizes its rows."""

    weight_fake_quant: Any
    _NAME: str

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        observer = check_config(qconfig).weight()
        if observer.qscheme is not per_channel_affine_float_qparams:
            raise AssertionError(
                f"{self._NAME} weights requires a qscheme of "
                f"torch.per_channel_affine_float_qparams Got {observer.qscheme}")
        self.qconfig, self.weight_fake_quant = qconfig, observer

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the QAT embedding for a float one."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f" qat.{cls.__name__}.from_float only works for "
                                 f"{cls._FLOAT_MODULE.__name__}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        result = cls(**cls._collect_settings(mod), qconfig=mod.qconfig)
        result.weight = mod.weight
        return result

    def to_float(self: Any) -> Any:
        """Return the float embedding with the trained rows."""
        result = self._FLOAT_MODULE(**self._collect_settings(self))
        result.weight, result.training = self.weight, self.training
        return result

    @classmethod
    def _collect_settings(cls: Any, mod: Any) -> dict[str, Any]:
        return {name: getattr(mod, name) for name in cls._SETTINGS}


class Embedding(_Table, float_modules.Embedding):
    """An embedding that fake-quantizes its rows."""

    _FLOAT_MODULE = float_modules.Embedding
    _NAME = "Embedding"
    _SETTINGS = ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
                 "scale_grad_by_freq", "sparse")

    def forward(self, input: Tensor) -> Tensor:
        """Return the rounded rows."""
        return F.embedding(input, self.weight_fake_quant(self.weight), self.padding_idx,
                           self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)


class EmbeddingBag(_Table, float_modules.EmbeddingBag):
    """An embedding bag that fake-quantizes its rows."""

    _FLOAT_MODULE = float_modules.EmbeddingBag
    _NAME = "Embedding Bag"
    _SETTINGS = ("num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq",
                 "mode", "sparse", "include_last_offset", "padding_idx")

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return the reduced rounded rows of each bag."""
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx)
