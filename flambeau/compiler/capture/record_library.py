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
from ...optim.kernel import count_writes
from ...tensor import tensor as tensors
from ...tensor.layout import find_owner
from ...tensor.random import distributions
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from ..trace.trace import UPDATE
from .recorder import Recorder


def list_replacements(r: Recorder) -> list[tuple[Any, Callable]]:
    """Return (function, replacement) for functions of the library."""
    return [
        (dropout._apply_alpha_dropout, _record_alpha_dropout),
        (scaled_dot_product._compute_probabilities, _compute_probabilities),
        (vector_distance._clamp_from, _clamp_from),
        (multihead._convert_to_additive, _record_additive_mask),
        (embedding.one_hot, lambda original, *a, **k: _record_one_hot(r, original, *a, **k)),
        (join.repeat_interleave, _repeat_interleave),
        (transformer._detect_is_causal_mask, _trust_is_causal),
        (clip_grad._get_total_norm,
         lambda original, *a, **k: _record_total_norm(r, original, *a, **k)),
        (clip_grad._clip_grads_with_norm_, _clip_by),
        (clip_grad.clip_grad_value_, _clip_values),
        (Tensor.__matmul__, _record_matmul),
        (Elementwise._flambeau_step_group,
         lambda original, *a: record_group_step(r, original, *a)),
    ]


def _record_alpha_dropout(
    original: Callable, input: Any, p: Any, train: Any, channels: Any, inplace: Any
) -> Any:
    if p in (0, 1) or not train or not input._array.size:
        return original(input, p, train, channels, inplace)
    a = 1 / math.sqrt((dropout._ALPHA**2 * p + 1) * (1 - p))
    noise = tensors.wrap(dropout._draw_factors(
        input, channels, lambda result: distributions.fill_bernoulli(result, 1 - p)
    ))
    shift = (noise - 1) * (dropout._ALPHA * a) + dropout._ALPHA * a * p
    if inplace:
        return input.mul_(noise * a).add_(shift)
    return input * (noise * a) + shift


def _compute_probabilities(
    original: Callable, q: Any, k: Any, mask: Any, scale: Any, causal: Any
) -> Any:
    if mask is None:
        scores = (q @ k.transpose(-1, -2)) * scale
        if causal:
            future = ops.full(scores.shape[-2:], -math.inf).triu(1)
            scores = scores + future.to(q.dtype)
        return ops.softmax(scores, -1)
    scores = (q @ k.transpose(-1, -2)) * scale
    if mask.dtype is ops.tensor(True).dtype:
        scores = scores.masked_fill(~mask, -math.inf)
    else:
        scores = scores + mask
    if causal:
        scores = scores + ops.full(scores.shape[-2:], -math.inf).triu(1).to(q.dtype)
    empty = (scores.detach() == -math.inf).all(-1, True)  # fully masked rows
    return ops.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)


def _clamp_from(original: Callable, x: Any, minimum: Any) -> Any:
    low = x.detach()
    return x + (low.clamp(min=minimum) - low)


def _record_additive_mask(original: Callable, mask: Any, name: Any, like: Any) -> Any:
    if mask is None or mask.is_floating_point() or mask._array.dtype != np.bool_:
        return original(mask, name, like)
    return ops.zeros(mask.shape, dtype=like.dtype).masked_fill(mask, -math.inf)


def _record_one_hot(r: Recorder, original: Callable, tensor: Any, num_classes: Any = -1) -> Any:
    r.compute()
    if num_classes < 1 or tensor._array.dtype != np.int64 or not tensor._array.size:
        return original(tensor, num_classes)
    original(tensor, num_classes)  # raises for invalid classes
    classes = ops.arange(num_classes)
    known = classes.index_select(0, tensor.reshape(-1))  # the bounds are checked on each call
    return (known.unsqueeze(-1) == classes).to(tensor.dtype).reshape(*tensor.shape, num_classes)


def _trust_is_causal(
    original: Callable, mask: Any, is_causal: Any = None, size: Any = None
) -> bool:
    return is_causal is True  # masks may change between calls; they are applied anyway


def _repeat_interleave(
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
def _clip_by(
    original: Callable, parameters: Any, max_norm: Any, total: Any, foreach: Any = None
) -> Any:
    factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
    for grad in clip_grad._list_grads(parameters):
        grad.mul_(factor)


@no_grad()
def _clip_values(original: Callable, parameters: Any, clip_value: Any, foreach: Any = None) -> Any:
    for grad in clip_grad._list_grads(parameters):
        grad.clamp_(-float(clip_value), float(clip_value))


def _record_matmul(original: Callable, self: Any, other: Recorder) -> Any:
    return matmul.matmul(self, other) if isinstance(other, Tensor) else NotImplemented


# ---------------------------------------------------------------------------- optimizers


def record_group_step(r: Recorder, original: Callable, self: Any, group: dict[str, Any]) -> None:
    """Record a step over one group, as one event per set of flags and scalars."""
    if group.get("differentiable") or group.get("capturable"):
        r.compute()
        r.problem(f"{type(self).__name__} runs with differentiable or capturable")
        return original(self, group)
    number = next(i for i, item in enumerate(self.param_groups) if item is group)
    names = self._flambeau_states(group)
    alike: dict[Any, list[Any]] = {}
    for position, param in enumerate(group["params"]):
        if param.grad is not None:
            state = self.state[param] if names else {}
            key = _begin_parameter(r, self, group, param, state)
            alike.setdefault(key, []).append((position, param, param.grad, state))
    for key, rows in alike.items():
        with r.silence():
            flags, scalars = self._flambeau_plan(group, key)
        deferred = _update(r, self, number, flags, scalars, rows, names)
        with r.silence():
            for _, param, grad, state in rows:
                states = [state[n] for n in names]
                if deferred:
                    counts = count_writes(
                        type(self)._flambeau_formula, flags, type(scalars),  # type: ignore[arg-type]
                        len(states),
                    )
                    for tensor, writes in zip((param, *states), counts, strict=True):
                        tensor._bump(writes)
                else:
                    self._flambeau_run_formula(flags, scalars, param, grad, states)
    return None


def _begin_parameter(
    r: Recorder, optimizer: Any, group: dict[str, Any], param: Any, state: dict
) -> Any:
    """Begin a parameter's step. State that it creates counts as existing before the call."""
    old = dict(state)
    had_counters = bool(_copy_counters(state))
    with r.silence():
        key = optimizer._flambeau_begin(group, param, state)
    result = [t for n, t in state.items() if isinstance(t, Tensor) and old.get(n) is not t]
    for tensor in result:
        r.trace.existing_tensors.add(id(tensor))
        r.trace.known_owners.add(id(find_owner(tensor._array)))
        r.keep_alive.append((tensor, find_owner(tensor._array)))
        r.note_version(tensor)
    r.begun.update(id(t) for t in state.values() if isinstance(t, Tensor))
    if result and _goes_on_otherwise(r, optimizer, group, param, state, key):
        r.problem(f"{type(optimizer).__name__} does something else in its first step")
    if r.deferred is not None:
        r.deferred.note_state(optimizer.state, param, state, had_counters)
    return key


def _goes_on_otherwise(
    r: Recorder, optimizer: Any, group: dict[str, Any], param: Any, state: dict, key: Any
) -> bool:
    """Whether the step's flags after the first step, which has key `key`, differ from it."""
    old = dict(state)
    counters = _copy_counters(state)
    with r.silence():
        versions = [(t, get_version(t)) for t in state.values() if isinstance(t, Tensor)]
        following = optimizer._flambeau_begin(group, param, state)
        for array, before in counters.values():
            array[...] = before
        for tensor, version in versions:
            if writes := get_version(tensor) - version:
                tensor._bump(-writes)
                r.versions.append((tensor, version - writes))  # every step starts with this version
        state.update(old)
        return bool(
            optimizer._flambeau_plan(group, key)[0] != optimizer._flambeau_plan(group, following)[0]
        )


def _copy_counters(state: dict[str, Any]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return a state's scalar arrays with copies, by name."""
    return {name: (t._array, t._array.copy()) for name, t in state.items()
            if isinstance(t, Tensor) and not t._array.ndim}


def _update(r: Recorder, optimizer: Any, group: int, flags: Any, scalars: Any, rows: list,
            names: tuple[str, ...]) -> bool:
    """Record an update; return whether it is deferred, so that the caller need not run it."""
    if any(isinstance(s, Tensor) for s in scalars):
        r.compute()
        r.problem(f"{type(optimizer).__name__} has options that are tensors")
        return False
    fields = {"optimizer": optimizer, "group": group, "flags": flags, "names": names,
              "positions": tuple(row[0] for row in rows)}
    refs = tuple(
        (r.refer(param), r.refer(grad), tuple(r.refer(state[n]) for n in names))
        for _, param, grad, state in rows
    )
    deferred = r.deferred
    if deferred is not None:
        deferred.scalars[len(r.trace.events)] = scalars
    r.add(UPDATE, function=type(optimizer)._flambeau_formula, args=refs, kwargs=fields,
          array=np.array(scalars, np.float64))
    return deferred is not None and deferred.defers_update
