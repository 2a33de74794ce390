"""Shuffles: channels to pixels and back, and channels among groups."""

from __future__ import annotations

from ...tensor.tensor import Tensor
from ..core.registry import composite
from ..creation.copies import in_suggested_format

_BOTH = ("torch", "nn.functional")


def _check_spatial(name: str, shape: tuple[int, ...], factor: int, word: str) -> None:
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {len(shape)} "
            f"dimension(s): {list(shape)}"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")


@composite(expose=_BOTH, explains=True, node="PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange (..., c r r, h, w) into (..., c, h r, w r), where r is upscale_factor.

    RuntimeError unless r squared divides the channels. Shi et al., 2016.

    >>> torch.pixel_shuffle(torch.arange(4.).view(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    shape, r = input._array.shape, upscale_factor
    _check_spatial("pixel_shuffle", shape, r, "upscale_factor")
    *batch, c, h, w = shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    k = len(batch)
    y = input.reshape(*batch, c // (r * r), r, r, h, w)  # (..., c, r, r, h, w)
    y = y.permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)  # (..., c, h, r, w, r)
    return in_suggested_format(y.reshape(*batch, c // (r * r), h * r, w * r), input)


@composite(expose=_BOTH, explains=True, node="PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange (..., c, h r, w r) into (..., c r r, h, w), the inverse of pixel_shuffle.

    >>> torch.pixel_unshuffle(torch.zeros(1, 2, 6, 6), 2).shape
    torch.Size([1, 8, 3, 3])
    """
    shape, r = input._array.shape, downscale_factor
    _check_spatial("pixel_unshuffle", shape, r, "downscale_factor")
    *batch, c, h, w = shape
    for axis, label, n in ((-2, "height", h), (-1, "width", w)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {label} to be divisible by downscale_factor, but "
                f"input.size({axis})={n} is not divisible by {r}"
            )
    k = len(batch)
    y = input.reshape(*batch, c, h // r, r, w // r, r)  # (..., c, h, r, w, r)
    y = y.permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)  # (..., c, r, r, h, w)
    return in_suggested_format(y.reshape(*batch, c * r * r, h // r, w // r), input)


@composite(expose=_BOTH, aliases=("native_channel_shuffle",), explains=True,
           node="ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the channels of (n, c, ...) across `groups` groups.

    >>> torch.channel_shuffle(torch.arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    shape = input._array.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    n, c, *rest = shape
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    y = input.reshape(n, groups, c // groups, *rest)
    return in_suggested_format(y.transpose(1, 2).reshape(n, c, *rest), input)
