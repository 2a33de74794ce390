"""torch.ao.nn.qat: layers whose weights are rounded to 8 bits as they are trained."""

from __future__ import annotations

from typing import Any

from ....nn import functional as F
from ....nn import modules
from ....tensor import Tensor
from ....tensor.absent import lacking

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]

__getattr__ = lacking(__name__)


def take_weights(result: Any, mod: Any) -> Any:
    """The layer, with the parameters of the float one that it stands for."""
    result.weight, result.bias = mod.weight, mod.bias
    return result


def check_config(qconfig: Any) -> Any:
    """The QConfig; AssertionError where there is none."""
    assert qconfig, "qconfig must be provided for QAT module"
    return qconfig


class Linear(modules.Linear):
    """A linear layer whose weights are fake-quantized."""

    _FLOAT_MODULE: Any = modules.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = check_config(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """input W^T + b with rounded weights."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer that trains in place of a float one, or of one fused with a ReLU."""
        inner = mod[0] if isinstance(mod, modules.Sequential) else mod
        result = cls(inner.in_features, inner.out_features, inner.bias is not None,
                     qconfig=mod.qconfig)
        return take_weights(result, inner)


class _Convolution:
    """A convolution whose weights are fake-quantized; a mixin before the float one."""

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
        """The convolution with rounded weights."""
        result: Tensor = self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)
        return result

    @classmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The convolution that trains in place of a float one, or of one fused with a ReLU."""
        inner = mod[0] if isinstance(mod, modules.Sequential) else mod
        result = cls(
            inner.in_channels, inner.out_channels, inner.kernel_size, inner.stride, inner.padding,
            inner.dilation, inner.groups, inner.bias is not None, inner.padding_mode,
            qconfig=mod.qconfig)
        return take_weights(result, inner)


class Conv1d(_Convolution, modules.Conv1d):
    """A 1-dimensional convolution whose weights are fake-quantized."""


class Conv2d(_Convolution, modules.Conv2d):
    """A 2-dimensional convolution whose weights are fake-quantized."""


class Conv3d(_Convolution, modules.Conv3d):
    """A 3-dimensional convolution whose weights are fake-quantized."""
