"""Convert convolution weights to another memory format."""

from __future__ import annotations

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Store the weights of all Conv2d and ConvTranspose2d in a module in `memory_format`.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3))
    >>> net = nn.utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
    >>> net[0].weight.stride()
    (27, 1, 9, 3)
    """
    from ..modules.conv import Conv2d, ConvTranspose2d

    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Store the weights of all Conv3d and ConvTranspose3d in a module in `memory_format`.

    >>> net = nn.Sequential(nn.Conv3d(3, 8, 2))
    >>> net = nn.utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
    >>> net[0].weight.stride()
    (24, 1, 12, 6, 3)
    """
    from ..modules.conv import Conv3d, ConvTranspose3d

    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module: Any, layers: tuple[type[Any], ...], memory_format: Any) -> Any:
    for child in module.modules():
        if isinstance(child, layers):
            child.weight.data = child.weight.detach().clone(memory_format=memory_format)
    return module
