"""Unfold, which lays out a convolution's windows as columns, and Fold, which sums them back."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..common_types import _size_any_t
from ..module import Module
from .utils import format_settings

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sum columns (n, c product(kernel_size), l) into an image (n, c, *output_size).

    >>> columns = F.unfold(torch.ones(1, 1, 3, 3), 2)
    >>> nn.Fold((3, 3), 2)(columns)  # in how many windows each pixel was
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """

    def __init__(
        self,
        output_size: _size_any_t,
        kernel_size: _size_any_t,
        dilation: _size_any_t = 1,
        padding: _size_any_t = 0,
        stride: _size_any_t = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return format_settings(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Unfold(Module):
    """Extract windows of an image (n, c, h, w) as columns (n, c product(kernel_size), l).

    >>> nn.Unfold(2)(torch.arange(6.).reshape(1, 1, 2, 3))
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """

    def __init__(
        self,
        kernel_size: _size_any_t,
        dilation: _size_any_t = 1,
        padding: _size_any_t = 0,
        stride: _size_any_t = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return format_settings(self, "kernel_size", "dilation", "padding", "stride")
