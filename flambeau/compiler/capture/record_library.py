"""Recorders for library functions that branch on values or compute outside the operators.

Each does the same with operators only, without reading values, so that the trace is valid for every
call. They run only during a capture.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...autograd import no_grad
from ...nn.modules import transformer
from ...nn.utils import clip_grad
from ...ops.attention import multihead, scaled_dot_product
from ...ops.creation import dropout
from ...ops.indexing import embedding
from ...ops.linalg import matmul, vector_distance
from ...ops.view import join
from ...optim.elementwise import Elementwise
from ...tensor import tensor as tensors
from ...tensor.random import distributions
from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from .record_optimizer import record_group_step
from .recorder import Recorder


def list_replacements(r: Recorder) -> list[tuple[Any, Callable]]:
    """Return (function, replacement) for functions of the library."""
    return [
        (dropout.apply_alpha_dropout, _record_alpha_dropout),
        (scaled_dot_product.compute_probabilities, _record_probabilities),
        (vector_distance.clamp_from, _record_clamp_from),
        (multihead.convert_to_additive, _record_additive_mask),
        (embedding.one_hot, lambda original, *a, **k: _record_one_hot(r, original, *a, **k)),
        (join.repeat_interleave, _record_repeat_interleave),
        (transformer._detect_is_causal_mask, _trust_is_causal),
        (clip_grad._get_total_norm,
         lambda original, *a, **k: _record_total_norm(r, original, *a, **k)),
        (clip_grad._clip_grads_with_norm_, _record_clipping_by_norm),
        (clip_grad.clip_grad_value_, _record_clipping_by_value),
        (Tensor.__matmul__, _record_matmul),
        (Elementwise._flambeau_step_group,
         lambda original, *a: record_group_step(r, original, *a)),
    ]


def _record_alpha_dropout(
    original: Callable, input: Any, p: Any, train: Any, channels: Any, inplace: Any
) -> Any:
    if p in (0, 1) or not train or not input._array.size:
        return original(input, p, train, channels, inplace)
    a = 1 / math.sqrt((dropout.SELU_LIMIT**2 * p + 1) * (1 - p))
    noise = tensors.wrap(dropout.draw_factors(
        input, channels, lambda result: distributions.fill_bernoulli(result, 1 - p)
    ))
    shift = (noise - 1) * (dropout.SELU_LIMIT * a) + dropout.SELU_LIMIT * a * p
    if inplace:
        return input.mul_(noise * a).add_(shift)
    return input * (noise * a) + shift


def _record_probabilities(
    original: Callable, q: Any, k: Any, mask: Any, scale: Any, causal: Any
) -> Any:
    scores = (q @ k.transpose(-1, -2)) * scale
    if mask is not None and mask.dtype is ops.tensor(True).dtype:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask
    if causal:
        scores = scores + ops.full(scores.shape[-2:], -math.inf).triu(1).to(q.dtype)
    if mask is None:
        return ops.softmax(scores, -1)
    empty = (scores.detach() == -math.inf).all(-1, True)  # fully masked rows
    return ops.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


def _record_clamp_from(original: Callable, x: Any, minimum: Any) -> Any:
    low = x.detach()
    return x + (low.clamp(min=minimum) - low)


def _record_additive_mask(original: Callable, mask: Any, name: Any, like: Any) -> Any:
    if mask is None or mask.is_floating_point() or mask._array.dtype != np.bool_:
        return original(mask, name, like)
    return ops.zeros(mask.shape, dtype=like.dtype).masked_fill(mask, -math.inf)


def _record_one_hot(r: Recorder, original: Callable, tensor: Any, num_classes: Any = -1) -> Any:
    if num_classes < 1 or tensor._array.dtype != np.int64 or not tensor._array.size:
        r.compute()
        return original(tensor, num_classes)
    classes = ops.arange(num_classes)
    try:
        known = classes.index_select(0, tensor.reshape(-1))  # the bounds are checked on each call
    except IndexError:
        original(tensor, num_classes)  # raises for invalid classes, and names them so
        raise
    return (known.unsqueeze(-1) == classes).to(tensor.dtype).reshape(*tensor.shape, num_classes)


def _trust_is_causal(
    original: Callable, mask: Any, is_causal: Any = None, size: Any = None
) -> bool:
    return is_causal is True  # masks may change between calls; they are applied anyway


def _record_repeat_interleave(
    original: Callable, input: Any, repeats: Any = None, dim: Any = None, *,
    output_size: Any = None,
) -> Any:
    if not isinstance(repeats, int):
        return original(input, repeats, dim, output_size=output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    rows = ops.arange(input.shape[dim] * repeats) // repeats
    return input.index_select(dim, rows)


def _record_total_norm(
    r: Recorder, original: Callable, supplied: Any, norm_type: Any = 2.0,
    error_if_nonfinite: Any = False, foreach: Any = None,
) -> Any:
    supplied = [supplied] if isinstance(supplied, Tensor) else list(supplied)
    if not supplied or float(norm_type) != 2.0:
        return original(supplied, norm_type, error_if_nonfinite, foreach)
    if error_if_nonfinite:
        r.compute()
        r.problem(Reason("clip_grad_norm_(error_if_nonfinite=True) reads the norm in Python",
                         Advice.READ_OUTSIDE))
        with r.silence():
            original(supplied, norm_type, True, foreach)  # raises if the norm is not finite
    with no_grad():
        return ops.stack([(t * t).sum() for t in supplied]).sum().sqrt()


@no_grad()
def _record_clipping_by_norm(
    original: Callable, parameters: Any, max_norm: Any, total: Any, foreach: Any = None
) -> Any:
    factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
    for grad in clip_grad.list_grads(parameters):
        grad.mul_(factor)


@no_grad()
def _record_clipping_by_value(
    original: Callable, parameters: Any, clip_value: Any, foreach: Any = None
) -> Any:
    for grad in clip_grad.list_grads(parameters):
        grad.clamp_(-float(clip_value), float(clip_value))


def _record_matmul(original: Callable, self: Any, other: Recorder) -> Any:
    return matmul.matmul(self, other) if isinstance(other, Tensor) else NotImplemented
