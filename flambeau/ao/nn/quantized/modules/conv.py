"""Convolutions of quantized tensors."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import functional as F
from .....nn import modules as float_modules
from .....ops.quantized.packed_conv import ConvPackedParams
from .....tensor import Tensor
from .....tensor.dtypes import qint8
from .observed import find_inner_module, quantize_parts
from .scaled_output import ScaledOutput


def repeat_per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each axis, of one or several."""
    return (value,) * rank if isinstance(value, int) else tuple(value)


class _ConvNd(ScaledOutput):
    """Base class of convolutions: packed weights, an output scale and zero point."""

    _RANK = 2
    _FLOAT_MODULE: Any = float_modules.Conv2d
    _RELU = False
    _PADDING_MODES: tuple[str, ...] = ("zeros", "reflect")
    transposed = False
    output_padding: tuple[int, ...] = (0, 0)

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in self._PADDING_MODES:
            raise ValueError(f"'padding_mode' {padding_mode} is not supported by quantized "
                             "convolution")
        rank = self._RANK
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = (
            repeat_per_axis(value, rank) for value in (kernel_size, stride, padding, dilation))
        self.groups, self.padding_mode = groups, padding_mode
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = [channels[0], channels[1] // groups, *self.kernel_size]
        weight = ops._empty_affine_quantized(shape, scale=1.0, zero_point=0, dtype=qint8)
        self.set_weight_bias(weight, ops.zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        """Pack other weights."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._RANK
        self._packed_params = ConvPackedParams(
            w, b, self.stride, padding, self.dilation, self.groups)

    def _weight_bias(self) -> tuple[Tensor, Tensor | None]:
        return self._packed_params.unpack()

    def weight(self) -> Tensor:
        """The weights."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """The bias, or None."""
        return self._weight_bias()[1]

    def forward(self, input: Any) -> Tensor:
        """The quint8 result of a quint8 tensor."""
        return self._packed_params.convolve_static(
            self._pad(input), self.scale, self.zero_point, self._RELU)

    def _pad(self, input: Any) -> Any:
        """Pad the input unless `padding_mode` is zeros; ValueError for another rank."""
        if input.dim() != self._RANK + 2:
            axes = {1: "L", 2: "H, W", 3: "D, H, W"}[self._RANK]
            raise ValueError(f"Input shape must be `(N, C, {axes})`!")
        if self.padding_mode == "zeros":
            return input
        widths = [n for n in reversed(self.padding) for _ in range(2)]
        return F.pad(input, widths, mode=self.padding_mode)

    def _get_name(self) -> str:
        return f"QuantizedConv{'ReLU' if self._RELU else ''}{self._RANK}d"

    def extra_repr(self) -> str:
        """Sizes and parameters, as of the float module."""
        settings = (f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                    f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}")
        if any(self.padding):
            settings += f", padding={self.padding}"
        if any(n != 1 for n in self.dilation):
            settings += f", dilation={self.dilation}"
        if any(self.output_padding):
            settings += f", output_padding={self.output_padding}"
        if self.groups != 1:
            settings += f", groups={self.groups}"
        return settings + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized convolution of a float one, or of a fused one, that was observed."""
        return cls._pack(*quantize_parts(mod))

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized convolution of a reference one, or of one that is fused."""
        inner = find_inner_module(ref_qconv)
        return cls._pack(inner, inner.get_quantized_weight(), inner.bias, float(output_scale),
                         int(output_zero_point))

    @classmethod
    def _pack(cls, mod: Any, weight: Tensor, bias: Any, scale: float, zero_point: int) -> Any:
        result = cls._from_geometry(mod, bias is not None)
        result.set_weight_bias(weight, bias)
        result.scale, result.zero_point = scale, zero_point
        return result

    @classmethod
    def _from_geometry(cls, mod: Any, bias: bool) -> Any:
        """One with the sizes of a float module."""
        return cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
                   mod.dilation, mod.groups, bias, mod.padding_mode)


class Conv1d(_ConvNd):
    """A 1-dimensional convolution of quint8 tensors: weights of qint8."""

    _RANK = 1
    _FLOAT_MODULE = float_modules.Conv1d


class Conv2d(_ConvNd):
    """A 2-dimensional convolution of quint8 tensors: weights of qint8.

    >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 4, 4), 0.1, 0, torch.quint8)
    >>> torch.ao.nn.quantized.Conv2d(1, 2, 3)(x).shape
    torch.Size([1, 2, 2, 2])
    """


class Conv3d(_ConvNd):
    """A 3-dimensional convolution of quint8 tensors: weights of qint8."""

    _RANK = 3
    _FLOAT_MODULE = float_modules.Conv3d
