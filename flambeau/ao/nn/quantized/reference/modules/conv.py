"""Convolutions of torch.ao.nn.quantized.reference."""

from __future__ import annotations

from typing import Any

from ......nn import functional as F
from ......nn import modules as float_modules
from ......tensor import Tensor
from .utils import ReferenceQuantizedModule, adopt


class _Conv(ReferenceQuantizedModule):
    """Base class of reference convolutions."""

    _FLOAT: Any

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._FLOAT.__init__(self, *args, **kwargs)
        self._init_weight_qparams(weight_qparams, None)

    def forward(self: Any, x: Tensor) -> Tensor:
        """The convolution with rounded weights."""
        result: Tensor = self._conv_forward(x, self.get_weight(), self.bias)
        return result

    @classmethod
    def from_float(cls, float_conv: Any, weight_qparams: dict[str, Any]) -> Any:
        """With a float module's weights."""
        c = float_conv
        result = cls(c.in_channels, c.out_channels, c.kernel_size, stride=c.stride,
                     padding=c.padding, dilation=c.dilation, groups=c.groups,
                     bias=c.bias is not None, padding_mode=c.padding_mode,
                     weight_qparams=weight_qparams,
                     **({"output_padding": c.output_padding} if c.transposed else {}))
        return adopt(result, c)


class _ConvTranspose(_Conv):
    def forward(self: Any, x: Tensor, output_size: Any = None) -> Tensor:
        """The transposed convolution with rounded weights."""
        settings = self._flambeau_list_settings(x, output_size)
        function = getattr(F, f"conv_transpose{len(self.kernel_size)}d")
        result: Tensor = function(x, self.get_weight(), self.bias, *settings)
        return result


class Conv1d(_Conv, float_modules.Conv1d):
    """A convolution with rounded weights."""

    _FLOAT = float_modules.Conv1d


class Conv2d(_Conv, float_modules.Conv2d):
    """A convolution with rounded weights."""

    _FLOAT = float_modules.Conv2d


class Conv3d(_Conv, float_modules.Conv3d):
    """A convolution with rounded weights."""

    _FLOAT = float_modules.Conv3d


class ConvTranspose1d(_ConvTranspose, float_modules.ConvTranspose1d):
    """A transposed convolution with rounded weights."""

    _FLOAT = float_modules.ConvTranspose1d


class ConvTranspose2d(_ConvTranspose, float_modules.ConvTranspose2d):
    """A transposed convolution with rounded weights."""

    _FLOAT = float_modules.ConvTranspose2d


class ConvTranspose3d(_ConvTranspose, float_modules.ConvTranspose3d):
    """A transposed convolution with rounded weights."""

    _FLOAT = float_modules.ConvTranspose3d
