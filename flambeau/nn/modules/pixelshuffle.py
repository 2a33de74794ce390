"""PixelShuffle and its inverse."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .utils import format_settings

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearrange (*, c r^2, h, w) into (*, c, h r, w r), where r is `upscale_factor`.

    >>> nn.PixelShuffle(2)(torch.zeros(1, 8, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return format_settings(self, "upscale_factor")


class PixelUnshuffle(Module):
    """Rearrange (*, c, h r, w r) into (*, c r^2, h, w), where r is `downscale_factor`.

    >>> nn.PixelUnshuffle(2)(torch.zeros(1, 2, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return format_settings(self, "downscale_factor")
