"""torch.ao.nn.intrinsic.qat: fused layers whose weights are rounded to 8 bits during training.

With batch normalization, weights are multiplied by the scale from the running variance before they
are rounded, as in the quantized model; statistics are still updated.
"""

from __future__ import annotations

import math
from typing import Any

from ..... import ops
from .....nn import functional as F
from .....nn import init
from .....nn import modules as float_modules
from .....nn.modules import ReLU
from .....nn.parameter import Parameter
from .....nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights
from .....tensor import Tensor
from ... import qat
from .. import fused
from ..fused import _FusedModule

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU",
    "freeze_bn_stats", "update_bn_stats",
]


class _WithReLU:
    """Mixin, placed before the layer class, that applies ReLU to the result."""

    def forward(self: Any, input: Tensor) -> Tensor:
        """Return relu of the layer's output."""
        return F.relu(super().forward(input))  # type: ignore[misc]

    def to_float(self: Any) -> Any:
        """Return the fused float modules with the trained weights."""
        inner = super().to_float()  # type: ignore[misc]
        name = f"ConvReLU{len(inner.kernel_size)}d" if hasattr(inner, "kernel_size") \
            else "LinearReLU"
        return getattr(fused, name)(inner, ReLU())


class LinearReLU(_WithReLU, qat.Linear, _FusedModule):
    """A linear layer with rounded weights, then ReLU."""


class ConvReLU1d(_WithReLU, qat.Conv1d, _FusedModule):
    """A convolution with rounded weights, then ReLU."""


class ConvReLU2d(_WithReLU, qat.Conv2d, _FusedModule):
    """A convolution with rounded weights, then ReLU."""


class ConvReLU3d(_WithReLU, qat.Conv3d, _FusedModule):
    """A convolution with rounded weights, then ReLU."""


class _Norm:
    """Mixin for a layer with a batch normalization whose statistics can be frozen."""

    bn: Any
    freeze_bn = False

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self: Any) -> None:
        """Reset the statistics and draw a new scale for the normalization."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def freeze_bn_stats(self) -> Any:
        """Freeze the running statistics and normalize by them."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def update_bn_stats(self) -> Any:
        """Update the running statistics again."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def train(self: Any, mode: bool = True) -> Any:
        """Set training mode; frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for child in self.children():
                child.train(mode)
        return self


class _WithNorm(_Norm):
    """Mixin, placed before the convolution class, that applies batch normalization."""

    def __init__(
        self: Any, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None,
        padding_mode: str = "zeros", eps: float = 1e-5, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False,
            padding_mode, qconfig=qconfig)
        if bias:  # drawn after the normalization's scale, as PyTorch does
            self.bias = Parameter(ops.empty(out_channels))
        norm_class = getattr(float_modules, f"BatchNorm{len(self.kernel_size)}d")
        self.bn = norm_class(out_channels, eps, momentum)
        self.reset_bn_parameters()
        if freeze_bn:
            self.freeze_bn_stats()

    def reset_bn_parameters(self: Any) -> None:
        """Reset the statistics and draw new parameters for the normalization and the bias."""
        super().reset_bn_parameters()
        if self.bias is not None:
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def fold_norm(self: Any) -> tuple[Tensor, Tensor]:
        """Return weights and bias with the normalization folded in."""
        bn = self.bn
        weight, bias = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
        return weight, bias

    def to_float(self: Any) -> Any:
        """Return the float convolution with the trained weights and the normalization folded in."""
        result = super().to_float()  # type: ignore[misc]
        result.weight, result.bias = map(Parameter, self.fold_norm())
        return result

    def forward(self: Any, input: Tensor) -> Tensor:
        """Return the normalized convolution, with weights rounded as if folded."""
        spread = (self.bn.running_var + self.bn.eps).sqrt()
        factor = self.bn.weight / spread
        by_row = [-1, *[1] * (self.weight.dim() - 1)]
        by_channel = [1, -1, *[1] * (self.weight.dim() - 2)]
        weight = self.weight_fake_quant(self.weight * factor.reshape(by_row))
        zeros = ops.zeros(self.out_channels, dtype=input.dtype)
        y = self._conv_forward(input, weight, zeros) / factor.reshape(by_channel)
        if self.bias is not None:
            y = y + self.bias.reshape(by_channel)
        result: Tensor = self.bn(y)
        return result

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the QAT layer for a fused one."""
        mod[0].qconfig = mod.qconfig
        result = super().from_float(mod[0])  # type: ignore[misc]
        result.bn = mod[1]
        return result


def _declare(name: str, *bases: Any) -> Any:
    return type(name, bases, {"__module__": __name__, "__doc__": f"{name} with rounded weights."})


class LinearBn1d(_Norm, qat.Linear, _FusedModule):
    """A linear layer, then batch normalization; weights are rounded as if folded."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-5,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig=qconfig)
        self.bn = float_modules.BatchNorm1d(out_features, eps, momentum)
        self.reset_bn_parameters()
        if freeze_bn:
            self.freeze_bn_stats()

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized product."""
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        y = F.linear(input, weight) / factor
        result: Tensor = self.bn(y if self.bias is None else y + self.bias)
        return result

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Return the QAT layer for a fused one."""
        result = super().from_float(mod)
        result.bn = mod[1]
        return result

    def fold_norm(self) -> tuple[Tensor, Tensor]:
        """Return weights and bias with the normalization folded in."""
        bn = self.bn
        weight, bias = fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
        return weight, bias

    def to_float(self) -> Any:
        """Return the float layer with the normalization folded into its weights."""
        result = super().to_float()
        result.weight, result.bias = map(Parameter, self.fold_norm())
        return result


ConvBn1d = _declare("ConvBn1d", _WithNorm, qat.Conv1d, _FusedModule)
ConvBn2d = _declare("ConvBn2d", _WithNorm, qat.Conv2d, _FusedModule)
ConvBn3d = _declare("ConvBn3d", _WithNorm, qat.Conv3d, _FusedModule)
ConvBnReLU1d = _declare("ConvBnReLU1d", _WithReLU, ConvBn1d)
ConvBnReLU2d = _declare("ConvBnReLU2d", _WithReLU, ConvBn2d)
ConvBnReLU3d = _declare("ConvBnReLU3d", _WithReLU, ConvBn3d)


def freeze_bn_stats(mod: Any) -> None:
    """For `model.apply`: freeze the running statistics of a fused layer."""
    if isinstance(mod, _WithNorm):
        mod.freeze_bn_stats()


def update_bn_stats(mod: Any) -> None:
    """For `model.apply`: update the running statistics of a fused layer again."""
    if isinstance(mod, _WithNorm):
        mod.update_bn_stats()
