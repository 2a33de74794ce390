"""torch.ao.quantization.fuser_method_mappings: the functions that fuse a pattern's modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .fuse_modules import fuse_sequence

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn"]


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution and batch normalization as one module.

    >>> conv, bn = torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval()
    >>> torch.ao.quantization.fuser_method_mappings.fuse_conv_bn(False, conv, bn)
    Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    """
    return fuse_sequence([conv, bn], is_qat)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """A convolution, batch normalization and ReLU as one module."""
    return fuse_sequence([conv, bn, relu], is_qat)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer and batch normalization as one module."""
    return fuse_sequence([linear, bn], is_qat)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution and batch normalization as one module, in evaluation."""
    return fuse_sequence([convt, bn], is_qat)


def _sequential_wrapper2(sequential: Callable[..., Any]) -> Callable[..., Any]:
    """A fuser that puts two modules into a class."""
    def fuse(is_qat: bool, first: Any, second: Any) -> Any:
        return sequential(first, second)

    return fuse
