"""Normalization over each sample (LayerNorm, GroupNorm, RMSNorm), and over adjacent channels."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...native.foundation.shared_constructors import own_constructor
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter
from .utils import format_settings

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _ResponseNorm(Module):
    """Settings of local response normalization."""

    __init_subclass__ = own_constructor

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        return f"{self.size}, {format_settings(self, 'alpha', 'beta', 'k')}"


class LocalResponseNorm(_ResponseNorm):
    """x / (k + alpha mean(x^2))^beta, with the mean over `size` neighboring channels.

    Input (n, c, *). Krizhevsky et al., 2012.

    >>> nn.LocalResponseNorm(3, alpha=3., beta=1.)(torch.ones(1, 3, 1)).flatten()
    tensor([0.3333, 0.2500, 0.3333])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_ResponseNorm):
    """x / (k + alpha / size S)^beta of (n, c, h, w), with S summing x^2 over nearby channels.

    The window spans (size - 1) // 2 channels on each side. Raises ValueError for other dimensions.

    >>> nn.CrossMapLRN2d(3)(torch.zeros(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        square = input * input
        padded = F.pad(square, (0, 0, 0, 0, reach, reach))
        sums = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        if reach + 1 < input.size(1):
            # PyTorch's running sum never drops channel 0; models were trained that way.
            later_sums = sums[:, reach + 1 :] + square[:, :1]
            sums = ops.cat([sums[:, : reach + 1], later_sums], dim=1)
        return input * (self.k + self.alpha / self.size * sums) ** -self.beta


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape: Any = normalized_shape
    alone = isinstance(shape, numbers.Integral)
    return (shape,) if alone else tuple(shape)


class _Scaled(Module):
    """Holds a weight initialized to 1 and a bias initialized to 0; either may be None."""

    def _flambeau_register_scale(
        self, shape: int | tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
    ) -> None:
        for name, present in (("weight", weight), ("bias", bias)):
            value = Parameter(ops.empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, value)

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Scaled):
    """Normalize over the last dimensions `normalized_shape`, then scale and shift.

    Computes (x - mean) / sqrt(var + eps) weight + bias; weight and bias have that shape. Ba, Kiros
    and Hinton, 2016.

    >>> nn.LayerNorm(10)
    LayerNorm((10,), eps=1e-05, elementwise_affine=True, bias=True)
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        self._flambeau_register_scale(self.normalized_shape, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = format_settings(self, "eps", "elementwise_affine")
        return f"{self.normalized_shape}, {affine}, bias={self.bias is not None}"


class GroupNorm(_Scaled):
    """Normalize each of `num_groups` channel groups of (n, c, *), then scale and shift.

    Computes (x - mean) / sqrt(var + eps) weight + bias, with weight and bias per channel. Raises
    ValueError if the channels do not divide evenly. Wu and He, 2018.

    >>> nn.GroupNorm(2, 4)(torch.randn(1, 4, 8)).shape
    torch.Size([1, 4, 8])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._flambeau_register_scale(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = format_settings(self, "eps", "affine")
        return f"{self.num_groups}, {self.num_channels}, {affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Root mean square norm, x / sqrt(mean(x^2) + eps) weight, over `normalized_shape`.

    eps None uses the resolution of the dtype. Zhang and Sennrich, 2019.

    >>> nn.RMSNorm(2)(torch.tensor([[3., 4.], [0.3, 0.4]]))
    tensor([[0.8485, 1.1314],
            [0.8485, 1.1314]], grad_fn=<MulBackward0>)
    """

    normalized_shape: tuple[int, ...]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {format_settings(self, 'eps', 'elementwise_affine')}"
