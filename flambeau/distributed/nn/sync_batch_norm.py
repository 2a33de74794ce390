"""Batch normalization with statistics over all processes' batches, for training SyncBatchNorm."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...autograd.mode import no_grad
from ...tensor import Tensor
from .functional import all_reduce


def sync_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, eps: float, momentum: float, group: Any,
) -> Tensor:
    """Normalize (n, c, *) per channel over all processes; update the running statistics.

    Two all-reduces: of the sums, then of the squared distances to the mean.
    """
    channels = input.shape[1]
    axes = [axis for axis in range(input.dim()) if axis != 1]
    shape = [channels if axis == 1 else 1 for axis in range(input.dim())]
    values = input if input.dtype.itemsize >= 4 else input.float()
    count = ops.full((1,), input.numel() // channels, dtype=values.dtype)
    totals = all_reduce(ops.cat([values.sum(axes), count]), group=group)
    n = totals[-1].detach()
    mean = totals[:-1] / n
    distance = values - mean.reshape(shape)
    var = all_reduce((distance * distance).sum(axes), group=group) / n
    if running_mean is not None and running_var is not None:
        with no_grad():
            unbiased = var.detach() * (n / (n - 1).clamp_min(1))
            running_mean.mul_(1 - momentum).add_(mean.detach() * momentum)
            running_var.mul_(1 - momentum).add_(unbiased * momentum)
    y = distance * (var + eps).rsqrt().reshape(shape)
    if weight is not None:
        y = y * weight.reshape(shape)
    if bias is not None:
        y = y + bias.reshape(shape)
    return y.to(input.dtype)
