"""ChannelShuffle."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .utils import format_settings

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleave the channels of (n, c, *) across `groups` groups.

    Zhang et al., ShuffleNet, 2017.

    >>> nn.ChannelShuffle(2)(torch.arange(4).reshape(1, 4, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return format_settings(self, "groups")
