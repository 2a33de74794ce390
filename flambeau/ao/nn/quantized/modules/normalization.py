"""Normalization of quantized tensors, with output scales found by observers."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import modules
from .....ops.quantized import arithmetic
from .....tensor import Tensor
from .activation import compute_observed_parameters
from .observed import FromReference


def _take_scale(module: Any, scale: Any, zero_point: Any) -> None:
    module.register_buffer("scale", ops.tensor(scale))
    module.register_buffer("zero_point", ops.tensor(zero_point))


class _BatchNorm(FromReference, modules.batchnorm._BatchNorm):
    """Batch normalization with the running statistics; quantized input and output."""

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
        """Return the quantized result."""
        if input.dim() != self._RANK + 2:
            raise ValueError(f"Input shape must be `{'NCHW' if self._RANK == 2 else 'NCDHW'}`!")
        norm = getattr(arithmetic, f"batch_norm{self._RANK}d{'_relu' * self._RELU}")
        result: Tensor = norm(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            float(self.scale), int(self.zero_point))
        return result

    def _get_name(self) -> str:
        return f"Quantized{'BNReLU' if self._RELU else 'BatchNorm'}{self._RANK}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed float batch normalization, possibly fused with a ReLU."""
        norm = mod[0] if "0" in mod._modules else mod
        result = cls(norm.num_features, norm.eps)
        result.weight, result.bias = norm.weight, norm.bias
        result.running_mean, result.running_var = norm.running_mean, norm.running_var
        scale, zero_point = compute_observed_parameters(mod)
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


class _ObservedNorm(FromReference):
    """Base class of norms that compute the statistics of their input: the output's parameters."""

    scale: Tensor
    zero_point: Tensor

    def _set_parameters(self, weight: Any, bias: Any, scale: Any, zero_point: Any) -> None:
        self.weight, self.bias = weight, bias
        _take_scale(self, scale, zero_point)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class LayerNorm(_ObservedNorm, modules.LayerNorm):
    """Layer normalization of quantized tensors."""

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device=device, dtype=dtype)
        self._set_parameters(weight, bias, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        result: Tensor = arithmetic.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps,
            float(self.scale), int(self.zero_point))
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed float norm."""
        return cls(mod.normalized_shape, mod.weight, mod.bias,
                   *compute_observed_parameters(mod), mod.eps, mod.elementwise_affine)


class GroupNorm(_ObservedNorm, modules.GroupNorm):
    """Group normalization of quantized tensors."""

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: Any,
        zero_point: Any, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device, dtype)
        self._set_parameters(weight, bias, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        result: Tensor = arithmetic.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps,
            float(self.scale), int(self.zero_point))
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed float norm."""
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias,
                   *compute_observed_parameters(mod), mod.eps, mod.affine)


class _InstanceNorm(_ObservedNorm, modules.instancenorm._InstanceNorm):
    """Base class of instance normalization of quantized tensors."""

    _RANK = 2

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: Any, zero_point: Any,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self._set_parameters(weight, bias, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        result: Tensor = arithmetic.instance_norm(
            input, self.weight, self.bias, self.eps,
            float(self.scale), int(self.zero_point))
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert an observed float norm."""
        return cls(mod.num_features, mod.weight, mod.bias,
                   *compute_observed_parameters(mod), mod.eps, mod.momentum, mod.affine)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of quantized sequences."""

    _RANK = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of quantized images."""


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of quantized volumes."""

    _RANK = 3
