"""ChannelShuffle."""

from __future__ import annotations

from ...tensor import Tensor
from .. import functional as F
from ..module import Module
from .utils import _settings

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Deals the channels of (n, c, *) out over `groups` groups, as one deals cards."""

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return _settings(self, "groups")
