"""Fake quantization with learned scales and zero points, or with an observer in the same call.

Gradients of scales and zero points follow https://arxiv.org/abs/1902.08153 and 1903.08066.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...autograd.mode import no_grad
from ...tensor.quantizers import choose_even_parameters, choose_parameters
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..core.registry import composite, opaque
from .fake import (
    codes_before_saturation, fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine,
    representable, round_to_codes,
)


class _Grid(NamedTuple):
    """The numbers that an integer type represents, as they broadcast against an input.

    steps: their distances. zeros: the integers that mean 0.
    """

    steps: np.ndarray
    zeros: np.ndarray
    lowest: int
    highest: int

    def find_codes(self, input: Array) -> tuple[Array, Array]:
        """Return the unsaturated code of each element, and whether it lies within the range."""
        codes = codes_before_saturation(input, self.steps, self.zeros)
        return codes, (codes >= self.lowest) & (codes <= self.highest)


def _create_grid(
    input: Array, scale: Array, zero_point: Array, axis: int | None, quant_min: int, quant_max: int
) -> _Grid:
    """Return the grid of an input, with zero points as integers within the range.

    Halves round to even. PyTorch rounds them up in the per-tensor backward, so its gradient belongs
    to a slightly different function; ours matches the forward.
    """
    zeros = np.clip(np.rint(zero_point), quant_min, quant_max).astype(np.int64)
    shape = [1] * input.ndim
    if axis is None:  # one number for all elements
        scale, zeros = scale.reshape(-1)[:1], zeros.reshape(-1)[:1]
    else:
        shape[axis] = -1
    return _Grid(scale.reshape(shape), zeros.reshape(shape), quant_min, quant_max)


@opaque(name="_learned_fake_quantize_scale_slope", expose=(), differentiable=False)
def _scale_slope(
    input: Array, scale: Array, zero_point: Array, axis: Any, quant_min: int, quant_max: int
) -> Array:
    """The derivative of each rounded element by its scale."""
    grid = _create_grid(input, scale, zero_point, axis, quant_min, quant_max)
    codes, within = grid.find_codes(input)
    shifted = (np.clip(codes, quant_min, quant_max) - grid.zeros).astype(np.float32)
    slope = np.where(
        within, (shifted * grid.steps - input) * (np.float32(1) / grid.steps), shifted)
    return slope.astype(input.dtype, copy=False)


@opaque(name="_learned_fake_quantize_zero_point_slope", expose=(), differentiable=False)
def _zero_point_slope(
    input: Array, scale: Array, zero_point: Array, axis: Any, quant_min: int, quant_max: int
) -> Array:
    """The derivative of each rounded element by its zero point: 0 unless saturated."""
    grid = _create_grid(input, scale, zero_point, axis, quant_min, quant_max)
    _, within = grid.find_codes(input)
    return np.where(within, np.float32(0), -grid.steps).astype(input.dtype, copy=False)


def _sum_to(slopes: Tensor, like: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return slopes.sum().reshape([1] * like.ndim).expand_as(like)
    return slopes.sum([d for d in range(slopes.ndim) if d != axis % slopes.ndim])


def _declare(name: str, node: str) -> Any:
    """Declare one operator per PyTorch node name."""

    def body(
        input: Array, scale: Array, zero_point: Array, axis: Any, quant_min: int, quant_max: int,
        grad_factor: float,
    ) -> Array:
        """Round the input to the numbers represented by integers from quant_min to quant_max."""
        grid = _create_grid(input, scale, zero_point, axis, quant_min, quant_max)
        return round_to_codes(input, *grid)

    function = opaque(name=name, expose=(), node=node)(body)

    @function.vjp("input")
    def _(
        g: Tensor, input: Tensor, scale: Tensor, zero_point: Tensor, axis: Any, quant_min: int,
        quant_max: int,
    ) -> Tensor:
        grid = _create_grid(
            input._array, scale._array, zero_point._array, axis, quant_min, quant_max)
        return g * representable(input, *grid)

    @function.vjp("scale")
    def _(
        g: Tensor, input: Tensor, scale: Tensor, zero_point: Tensor, axis: Any, quant_min: int,
        quant_max: int, grad_factor: float,
    ) -> Tensor:
        slope = _scale_slope(input, scale, zero_point, axis, quant_min, quant_max)
        return _sum_to(g * slope, scale, axis) * grad_factor

    @function.vjp("zero_point")
    def _(
        g: Tensor, input: Tensor, scale: Tensor, zero_point: Tensor, axis: Any, quant_min: int,
        quant_max: int, grad_factor: float,
    ) -> Tensor:
        slope = _zero_point_slope(input, scale, zero_point, axis, quant_min, quant_max)
        return _sum_to(g * slope, zero_point, axis) * grad_factor

    return function


_by_tensor = _declare("_learned_fake_quantize_by_tensor",
                      "FakeQuantizeLearnablePerTensorAffineBackward0")
_by_channel = _declare("_learned_fake_quantize_by_channel",
                       "FakeQuantizeLearnablePerChannelAffineBackward0")


@composite(name="_fake_quantize_learnable_per_tensor_affine", expose=("torch",))
def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Any:
    """`fake_quantize_per_tensor_affine`, differentiable in the scale and zero point.

    `grad_factor` multiplies those two gradients.

    >>> scale, zero = torch.tensor([0.1], requires_grad=True), torch.tensor([0.])
    >>> x = torch.tensor([0.26, 9.])
    >>> torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15).sum().backward()
    >>> scale.grad
    tensor([15.4000])
    """
    return _by_tensor(input, scale, zero_point, None, quant_min, quant_max, grad_factor)


@composite(name="_fake_quantize_learnable_per_channel_affine", expose=("torch",))
def _fake_quantize_learnable_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Any:
    """`_fake_quantize_learnable_per_tensor_affine` for each index along `axis`.

    >>> scales, zeros = torch.tensor([0.1, 0.5]), torch.zeros(2)
    >>> x = torch.tensor([[0.26], [0.26]])
    >>> torch._fake_quantize_learnable_per_channel_affine(x, scales, zeros, 0, 0, 15)
    tensor([[0.3000],
            [0.5000]])
    """
    return _by_channel(input, scale, zero_point, axis, quant_min, quant_max, grad_factor)


# ------------------------------------------------------------------ observed in the same call


def _observe(
    input: Tensor, running_min: Tensor, running_max: Tensor, averaging_const: float, axis: Any
) -> None:
    """Move the running minimum and maximum towards the input's."""
    values = input._array
    others = None if axis is None else tuple(d for d in range(values.ndim) if d != axis)
    constant = np.float32(averaging_const)
    for running, extreme in ((running_min, values.min(others)), (running_max, values.max(others))):
        before = running._array
        new = np.where(np.isinf(before), extreme, before + constant * (extreme - before))
        running.copy_(wrap(new.astype(before.dtype).reshape(before.shape)))


def _set_parameters(
    running_min: Tensor, running_max: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int,
    quant_max: int, symmetric: bool,
) -> None:
    """Set scales and zero points from the running minimum and maximum."""
    choose = choose_even_parameters if symmetric else choose_parameters
    spans = zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist(), strict=True)
    for i, (low, high) in enumerate(spans):
        scale[i], zero_point[i] = choose(low, high, quant_min, quant_max)


@composite(expose=("torch",))
def fused_moving_avg_obs_fake_quant(
    input: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor,
    running_max: Tensor, scale: Tensor, zero_point: Tensor, averaging_const: float,
    quant_min: int, quant_max: int, ch_axis: int, per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Any:
    """Observe a tensor's range, update scale and zero point, and fake-quantize it.

    Updates `running_min`, `running_max`, `scale` and `zero_point`. `observer_on` and
    `fake_quant_on` are one-element tensors; if the second is 0 the result is a copy.
    `per_row_fake_quant`: quantize each index along `ch_axis` separately.

    >>> low, high = torch.tensor(float("inf")), torch.tensor(float("-inf"))
    >>> scale, zero, on = torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.tensor(1)
    >>> torch.fused_moving_avg_obs_fake_quant(
    ...     torch.tensor([0., 0.26, 1.5]), on, on, low, high, scale, zero, 0.01, 0, 15, 0)
    tensor([0.0000, 0.3000, 1.5000])
    """
    if input.numel() == 0:
        return input.clone()
    if ch_axis >= input.ndim:
        raise RuntimeError("Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < "
                           "self.dim()")
    axis = ch_axis if per_row_fake_quant else None
    with no_grad():
        if per_row_fake_quant and running_min.numel() == 0:
            count = input.shape[ch_axis]
            running_min.resize_(count).fill_(float("inf"))
            running_max.resize_(count).fill_(float("-inf"))
            scale.resize_(count)
            zero_point.resize_(count)
        if observer_on.item():
            _observe(input, running_min, running_max, averaging_const, axis)
        rounds = bool(fake_quant_on.item())
        if rounds:
            _set_parameters(running_min, running_max, scale, zero_point, quant_min, quant_max,
                            symmetric_quant)
    if not rounds:
        return input.clone()
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(
            input, scale, zero_point, ch_axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)
