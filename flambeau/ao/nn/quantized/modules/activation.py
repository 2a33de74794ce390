"""Activations of quantized tensors, with output scales and zero points chosen by observers."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import modules
from .....nn.module import Module
from .....ops.quantized import arithmetic
from .....tensor import Tensor
from .....tensor.dtypes import quint8
from .observed import FromReference


def compute_observed_parameters(mod: Any) -> tuple[float, int]:
    """Return the scale and the zero point that a float module's observer computes."""
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


class ReLU6(modules.ReLU):
    """Clamp to 0 .. 6; the result has the input's scale.

    >>> x = torch.quantize_per_tensor(torch.tensor([-1., 7.]), 0.5, 10, torch.quint8)
    >>> torch.ao.nn.quantized.ReLU6()(x).dequantize()
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """Convert a float ReLU6."""
        return ReLU6(mod.inplace)


class Hardswish(FromReference, modules.Hardswish):
    """x relu6(x + 3) / 6, with a given output scale and zero point."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.register_buffer("scale", ops.tensor(scale))
        self.register_buffer("zero_point", ops.tensor(zero_point))

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.hardswish(input, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """Convert an observed Hardswish."""
        return cls(*compute_observed_parameters(mod))


class ELU(FromReference, modules.ELU):
    """x above 0, below it alpha (exp(x) - 1), with a given output scale and zero point."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> ELU:
        """Convert an observed ELU."""
        return cls(*compute_observed_parameters(mod), mod.alpha)


class LeakyReLU(FromReference, modules.LeakyReLU):
    """x above 0, below it x times the slope, with a given output scale and zero point."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 1e-2, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(negative_slope, inplace)
        self.register_buffer("scale", ops.tensor(scale))
        self.register_buffer("zero_point", ops.tensor(zero_point))

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.leaky_relu(
            input, self.negative_slope, self.inplace, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> LeakyReLU:
        """Convert an observed LeakyReLU."""
        return cls(*compute_observed_parameters(mod), mod.negative_slope, mod.inplace)


class Sigmoid(FromReference, modules.Sigmoid):
    """1 / (1 + exp(-x)), with a given output scale and zero point."""

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Sigmoid:
        """Convert an observed Sigmoid."""
        return cls(*compute_observed_parameters(mod))


class Softmax(FromReference, modules.Softmax):
    """The softmax along an axis, with a given output scale and zero point."""

    def __init__(self, dim: Any = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        dim = self.dim if self.dim is not None else 0 if input.dim() in (0, 1, 3) else 1
        return arithmetic.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Softmax:
        """Convert an observed Softmax."""
        return Softmax(mod.dim, *compute_observed_parameters(mod))


class PReLU(FromReference, Module):
    """x above 0, else x times its channel's weight, with a given output scale and zero point."""

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(ops.quantize_per_tensor(
            ops.randn(num_parameters), 1.0, 0, quint8))

    def set_weight(self, w: Tensor) -> None:
        """Set the slopes."""
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        """Return the quantized result."""
        return arithmetic.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> PReLU:
        """Convert an observed PReLU."""
        result = cls(*compute_observed_parameters(mod), mod.num_parameters)
        observer = mod.qconfig.weight()
        observer(mod.weight.detach())
        scale, zero_point = observer.calculate_qparams()
        if scale.numel() > 1:
            raise NotImplementedError("PReLU with slopes quantized per channel is not implemented "
                                      "in flambeau")
        result.set_weight(ops.quantize_per_tensor(
            mod.weight.detach().float(), float(scale), int(zero_point), quint8))
        return result


class Dropout(FromReference, modules.Dropout):
    """Returns its input: quantized models do not train."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """Convert a float Dropout."""
        return cls(mod.p, mod.inplace)


class MaxPool2d(modules.MaxPool2d):
    """The maximum of each window."""

    def _get_name(self) -> str:
        return "QuantizedMaxPool2d"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> MaxPool2d:
        """Convert a float MaxPool2d."""
        return MaxPool2d(mod.kernel_size, mod.stride, mod.padding, mod.dilation,
                         ceil_mode=mod.ceil_mode)
