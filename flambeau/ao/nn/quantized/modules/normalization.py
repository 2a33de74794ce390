"""Norms of quantized tensors, under the scales that observers have found for them."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import modules
from .....ops.quantized import arithmetic
from .....tensor import Tensor
from .activation import observed_parameters


def _take_scale(module: Any, scale: Any, zero_point: Any) -> None:
    module.register_buffer("scale", ops.tensor(scale))
    module.register_buffer("zero_point", ops.tensor(zero_point))


class _BatchNorm(modules.batchnorm._BatchNorm):
    """Each channel less its mean, divided by its deviation, as they were in training."""

    _RANK = 2
    _RELU = False
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device, dtype)
        _take_scale(self, 1.0, 0)

    def forward(self, input: Tensor) -> Tensor:
        """The quantized result."""
        if input.dim() != self._RANK + 2:
            raise ValueError(f"Input shape must be `{'NCHW' if self._RANK == 2 else 'NCDHW'}`!")
        norm = arithmetic.batch_norm_relu if self._RELU else arithmetic.batch_norm
        result: Tensor = norm(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            float(self.scale), int(self.zero_point))
        return result

    def _get_name(self) -> str:
        return f"Quantized{'BNReLU' if self._RELU else 'BatchNorm'}{self._RANK}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Of a float batch normalization that was observed, or of one fused with a ReLU."""
        norm = mod[0] if "0" in mod._modules else mod
        result = cls(norm.num_features, norm.eps)
        result.weight, result.bias = norm.weight, norm.bias
        result.running_mean, result.running_var = norm.running_mean, norm.running_var
        scale, zero_point = observed_parameters(mod)
        result.scale, result.zero_point = ops.tensor(scale), ops.tensor(zero_point)
        return result


class BatchNorm2d(_BatchNorm):
    """Batch normalization of quantized images.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 3, 2, 2), 0.5, 0, torch.quint8)
    >>> torch.ao.nn.quantized.BatchNorm2d(3)(x).shape
    torch.Size([1, 3, 2, 2])
    """


class BatchNorm3d(_BatchNorm):
    """Batch normalization of quantized volumes."""

    _RANK = 3


class LayerNorm(modules.LayerNorm):
    """Mean 0 and variance 1 over the last axes."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        self.weight, self.bias = weight, bias
        _take_scale(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """The quantized result."""
        return arithmetic.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps, float(self.scale),
            int(self.zero_point))

    def _get_name(self) -> str:
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Of a float LayerNorm that was observed."""
        return cls(mod.normalized_shape, mod.weight, mod.bias, *observed_parameters(mod), mod.eps,
                   mod.elementwise_affine)


class GroupNorm(modules.GroupNorm):
    """Mean 0 and variance 1 over groups of channels."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: Any,
        zero_point: Any, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device, dtype)
        self.weight, self.bias = weight, bias
        _take_scale(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """The quantized result."""
        return arithmetic.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, float(self.scale),
            int(self.zero_point))

    def _get_name(self) -> str:
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Of a float GroupNorm that was observed."""
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias,
                   *observed_parameters(mod), mod.eps, mod.affine)


class _InstanceNorm(modules.instancenorm._InstanceNorm):
    """Mean 0 and variance 1 over each channel of each image."""

    _RANK = 2
    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.weight, self.bias = weight, bias
        _take_scale(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """The quantized result."""
        return arithmetic.instance_norm(
            input, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self) -> str:
        return f"QuantizedInstanceNorm{self._RANK}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Of a float instance normalization that was observed."""
        return cls(mod.num_features, mod.weight, mod.bias, *observed_parameters(mod), mod.eps,
                   mod.momentum, mod.affine)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of quantized sequences."""

    _RANK = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of quantized images."""


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of quantized volumes."""

    _RANK = 3
