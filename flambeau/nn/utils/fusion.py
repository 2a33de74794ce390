"""Fold batch normalization in evaluation mode into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from ... import ops
from ...tensor import Tensor
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]


def _check_eval(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of `conv` that computes bn(conv(x)); both must be in evaluation mode.

    >>> conv, bn = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    >>> fused, x = nn.utils.fuse_conv_bn_eval(conv, bn), torch.randn(2, 3, 8, 8)
    >>> torch.allclose(fused(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the fused convolution. `transpose`: outputs are axis 1 of weight.

    >>> weight, ones = torch.ones(1, 1, 1), torch.ones(1)
    >>> nn.utils.fuse_conv_bn_weights(weight, None, ones * 3, ones, 0.0, ones * 2, ones)
    (Parameter containing:
    tensor([[[2.]]]), Parameter containing:
    tensor([-5.]))
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fuse(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of `linear` that computes bn(linear(x)); both must be in evaluation mode.

    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> fused, x = nn.utils.fuse_linear_bn_eval(linear, bn), torch.randn(2, 3)
    >>> torch.allclose(fused(x), bn(linear(x)), atol=1e-6)
    True
    """
    _check_eval(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the fused linear layer.

    >>> ones = torch.ones(1)
    >>> nn.utils.fuse_linear_bn_weights(torch.ones(1, 1), None, ones * 3, ones, 0.0, ones * 2, ones)
    (Parameter containing:
    tensor([[2.]]), Parameter containing:
    tensor([-5.]))
    """
    return _fuse(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fuse(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float,
    gain: Tensor | None, shift: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:
    """Fold the statistics; `shape` broadcasts one factor per output channel over the weight."""
    bias_dtype = weight.dtype if bias is None else bias.dtype
    bias_trains = bias is not None and bias.requires_grad
    scale = ops.rsqrt(variance + eps)
    if gain is not None:
        scale = scale * gain
    fused_bias = (-mean if bias is None else bias - mean) * scale
    if shift is not None:
        fused_bias = fused_bias + shift
    fused_weight = (weight * scale.reshape(shape)).to(dtype=weight.dtype)
    return (
        Parameter(fused_weight, weight.requires_grad),
        Parameter(fused_bias.to(dtype=bias_dtype), bias_trains),
    )
