"""Transposed convolutions of quantized tensors."""

from __future__ import annotations

from typing import Any

from .....nn import modules as float_modules
from .....ops.quantized.packed_conv import ConvPackedParams
from .....tensor import Tensor
from .conv import _ConvNd, repeat_per_axis


class _ConvTransposeNd(_ConvNd):
    """Base class of transposed convolutions."""

    _PADDING_MODES = ("zeros",)
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self.output_padding = repeat_per_axis(output_padding, self._RANK)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation,
                         groups, bias, padding_mode, device, dtype)

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack other weights (in, out / groups, ...)."""
        self._packed_params = ConvPackedParams(
            w, b, self.stride, self.padding, self.dilation, self.groups, True,
            self.output_padding)

    def _get_name(self) -> str:
        return f"QuantizedConvTranspose{self._RANK}d"

    @classmethod
    def _from_geometry(cls, mod: Any, bias: bool) -> Any:
        return cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
                   mod.output_padding, mod.groups, bias, mod.dilation, mod.padding_mode)


class ConvTranspose1d(_ConvTransposeNd):
    """A 1-dimensional transposed convolution of quint8 tensors: weights of qint8."""

    _RANK = 1
    _FLOAT_MODULE = float_modules.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """A 2-dimensional transposed convolution of quint8 tensors: weights of qint8.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 4, 4), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.ConvTranspose2d(1, 2, 3)(x).shape
    torch.Size([1, 2, 6, 6])
    """

    _FLOAT_MODULE = float_modules.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """A 3-dimensional transposed convolution of quint8 tensors: weights of qint8."""

    _RANK = 3
    _FLOAT_MODULE = float_modules.ConvTranspose3d
