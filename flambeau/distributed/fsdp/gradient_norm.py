"""Clip gradients by their norm where each process has a part of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...nn.utils.clip_grad import clip_grad_norm_, _get_total_norm
from ...tensor import Tensor
from ...tensor.promotion import promote_types
from ..collectives import all_reduce
from ..process_group import ProcessGroup
from ..reduce_op import ReduceOp


def _compute_norm(parameters: Sequence[Tensor], norm_type: float) -> Tensor:
    """Return the norm of the gradients in float32."""
    gradients = [p.grad.detach().float() for p in parameters if p.grad is not None]
    return _get_total_norm(gradients, norm_type) if gradients else ops.zeros(())


def clip_sharded_grad_norm(
    parameters: Sequence[Tensor], sharded: Sequence[Any], group: ProcessGroup, max_norm: float,
    norm_type: float,
) -> Tensor:
    """Scale the gradients of `parameters` down to a norm of `max_norm`; return their norm.

    Those of the handles in `sharded` are parts, whose norms are combined over the group.
    """
    if not sharded:
        return clip_grad_norm_(parameters, max_norm, norm_type)
    divided = {id(p) for handle in sharded for p in (
        [segment.parameter for segment in handle.layout.segments] if handle._use_orig_params
        else [handle.flat_param])}
    total = _compute_norm([p for p in parameters if id(p) in divided], norm_type)
    undivided = [p for p in parameters if id(p) not in divided]
    if norm_type == math.inf:
        total = ops.maximum(total, _compute_norm(undivided, norm_type))
        all_reduce(total, ReduceOp.MAX, group)
    else:
        total = total**norm_type
        all_reduce(total, group=group)
        if undivided:
            total = total + _compute_norm(undivided, norm_type) ** norm_type
        total = total ** (1.0 / norm_type)
    gradients = [p.grad for p in parameters if p.grad is not None]
    factor = ops.clamp(max_norm / (total + 1e-6), max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.to(gradient.dtype))
    if not gradients:
        warn(f"Called FSDP.clip_grad_norm_() on rank {group.rank()} with no gradients -- returning "
             f"the total norm in the default dtype {total.dtype}")
        return total
    dtype = gradients[0].dtype
    for gradient in gradients:
        dtype = promote_types(dtype, gradient.dtype)
    return total.to(dtype)
