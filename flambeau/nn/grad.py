"""Gradients of convolutions with respect to their input or their weight, as functions.

A convolution is linear in each, so its gradient can be taken at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import autograd
from ..autograd.backward import require_gradients
from ..ops.spatial.convolution import conv1d, conv2d, conv3d
from ..tensor import Tensor


def _compute_gradient(
    conv: Any, operand: str, size: Sequence[int], other: Tensor, grad_output: Tensor,
    options: tuple[Any, ...],
) -> Tensor:
    """Return the cotangent of the input or weight (`operand`) of `size`, given the other.

    It can be differentiated itself.
    """
    zero = require_gradients(other.new_zeros(tuple(size)))
    records = autograd.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    with autograd.enable_grad():
        pair = (zero, other) if operand == "input" else (other, zero)
        output = conv(*pair, None, *options)
    actual = autograd.grad(output, zero, grad_output, create_graph=records)[0]
    assert actual is not None
    return actual


def conv1d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv1d with respect to its input, of shape `input_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv1d, "input", input_size, weight, grad_output, options)


def conv1d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv1d with respect to its weight, of shape `weight_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv1d, "weight", weight_size, input, grad_output, options)


def conv2d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv2d with respect to its input, of shape `input_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv2d, "input", input_size, weight, grad_output, options)


def conv2d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv2d with respect to its weight, of shape `weight_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv2d, "weight", weight_size, input, grad_output, options)


def conv3d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv3d with respect to its input, of shape `input_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv3d, "input", input_size, weight, grad_output, options)


def conv3d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """The gradient of conv3d with respect to its weight, of shape `weight_size`."""
    options = (stride, padding, dilation, groups)
    return _compute_gradient(conv3d, "weight", weight_size, input, grad_output, options)
