"""Scaled dot-product attention: softmax(query @ key.T * scale + mask) @ value, by heads.

One operator computes it block by block. For backward it saves the probabilities, or only the
log-sum-exp of each row if there are many. Dropout, gradients of the mask and second derivatives are
composed of separate operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.tangents import LEVELS, sum_terms, unless_missing
from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...native.target.eager_costs import MAX_SAVED_PROBABILITIES, SCORES_PER_NUMPY_BLOCK
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.layout import ordered_strides
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..activation.softmax import softmax, softmax_backward
from ..core.autocast import Policy
from ...tensor.windows.batch import Batch
from ..core.operator import Array
from ..core.output_layout import Layout, lay_out_again
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..reduction.numpy_reductions import reduce_max, reduce_sum
from ..creation.creation import full
from ..creation.dropout import dropout
from .backend_choice import AttentionSettings, check_choice
from .native import backward as whole_backward
from .native import forward as whole_forward
from .native import in_parts

# Values of `keep`: what the operator saves for backward.
_PROBABILITIES, _LOG_SUMS, _NO_STATE = range(3)


def _samples(rng: Rng) -> Iterator[Sample]:
    for batch, n, s in (((2, 2), 3, 4), ((2,), 4, 3), ((), 3, 3)):
        q, k = rng.normal(size=(*batch, n, 3)), rng.normal(size=(*batch, s, 3))
        yield (q, k, rng.normal(size=(*batch, s, 2)), None, 0.7, n != s, _PROBABILITIES), {}
        allowed = rng.random((n, s)) < 0.6
        allowed[0] = True
        yield (q, k, rng.normal(size=(*batch, s, 2)), allowed, 0.7, False, _PROBABILITIES), {}


def _reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float,
    is_causal: bool, keep: int
) -> tuple[np.ndarray, np.ndarray]:
    scores = np.einsum("...ld,...sd->...ls", q, k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    e = np.exp(scores)
    p = e / e.sum(-1, keepdims=True)
    return np.einsum("...ls,...sd->...ld", p, v), p


def _windows(shape: tuple[int, ...]) -> Iterator[tuple]:
    """Yield indices that cut (*batch, l, s) into blocks of about SCORES_PER_NUMPY_BLOCK scores."""
    *batch, n, s = shape
    if not batch:
        step = max(1, SCORES_PER_NUMPY_BLOCK // max(s, 1))
        for start in range(0, n, step):
            yield (slice(start, start + step),)
        return
    inner = math.prod(batch[1:]) * n * s
    if inner > SCORES_PER_NUMPY_BLOCK:
        for i in range(batch[0]):
            for rest in _windows((*batch[1:], n, s)):
                yield (i, *rest)
        return
    step = max(1, SCORES_PER_NUMPY_BLOCK // max(inner, 1))
    for start in range(0, batch[0], step):
        yield (slice(start, start + step),)


class _Scores:
    """Scaled and masked scores of one call, computed one window at a time."""

    def __init__(self, q: Array, k: Array, mask: Array | None, scale: float, causal: bool) -> None:
        self.rank = q.ndim - 2
        self.q, self.k_turned = q, k.swapaxes(-1, -2)
        self.scale = np.asarray(scale, q.dtype)
        shape = (*q.shape[:-1], k.shape[-2])
        self.mask = None if mask is None else np.broadcast_to(mask, shape)
        self.future = None
        if causal:
            self.future = np.triu(np.full(shape[-2:], -np.inf, q.dtype), 1)
        self.masked = self.mask is not None

    def of(self, window: tuple, scores: Array) -> Array:
        """Write the scores of a window to `scores` and return it."""
        np.matmul(self.q[window], self.k_turned[window[: self.rank]], scores)
        scores *= self.scale
        if self.future is not None:
            scores += self.future[window[self.rank :]]
        if self.mask is not None:
            part = self.mask[window]
            if part.dtype == np.bool_:
                np.copyto(scores, -np.inf, where=~part)
            else:
                scores += part
        return scores


def _softmax(scores: Array, masked: bool) -> Array:
    """Softmax over the last axis in place. Return each row's log-sum-exp.

    If `masked`, rows of -inf become 0.
    """
    top = reduce_max(scores, -1, None, None, True)
    if masked:
        top[top == -np.inf] = 0
    scores -= top
    np.exp(scores, scores)
    total = reduce_sum(scores, -1, None, None, True)
    if masked:
        total[total == 0] = 1
    scores /= total
    return (np.log(total) + top)[..., 0]


@opaque(extents_follow=True, layout=Layout.FREE,
        name="_attention", node="ScaledDotProductFlashAttentionForCpuBackward0", expose=(),
        constant_outputs=(1,), ref=_reference, samples=_samples)
def attention(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float, is_causal: bool,
    keep: float
) -> tuple[Array, Array | None]:
    """Return (attention's output, the values that `keep` selects to save for backward).

    query (*batch, l, d), key (*batch, s, d), value (*batch, s, e); the mask broadcasts to
    (*batch, l, s).
    """
    shape = (*query.shape[:-1], key.shape[-2])
    kind, inside = query.dtype, compute_dtype(query.dtype)
    if query.__class__ is MetaArray:
        return meta_array((*shape[:-1], value.shape[-1]), kind), meta_array(shape, inside)
    q, k, v = (x.astype(inside, copy=False) for x in (query, key, value))
    if keep == _PROBABILITIES and mask is None:
        result = whole_forward(q, k, v, scale, is_causal)
        if result is not None:
            return _positions_outside(result[0].astype(kind, copy=False)), result[1]
    if keep == _NO_STATE and mask is None:
        alone = in_parts(q, k, v, scale, is_causal)
        if alone is not None:
            return _positions_outside(alone.astype(kind, copy=False)), None
    y = np.empty((*shape[:-1], v.shape[-1]), inside)
    scores = _Scores(q, k, mask, scale, is_causal)
    saved: Any = None
    if keep != _NO_STATE:
        saved = np.empty(shape if keep == _PROBABILITIES else shape[:-1], inside)
    with np.errstate(all="ignore"):
        for window in _windows(shape):
            target = y[window]
            new = saved[window] if keep == _PROBABILITIES else \
                np.empty((*target.shape[:-1], shape[-1]), inside)
            if shape[-1]:
                sums = _softmax(scores.of(window, new), scores.masked)
                if keep == _LOG_SUMS:
                    saved[window] = sums
            np.matmul(new, v[window[: scores.rank]], target)
    return _positions_outside(y.astype(kind, copy=False)), saved


def _positions_outside(y: Array) -> Array:
    """Lay (batch, heads, l, e) out as (batch, l, heads, e), so that merging the heads is a view."""
    if y.ndim != 4:
        return y
    return lay_out_again(y, ordered_strides(y.shape, (3, 1, 2, 0), 1))


@attention.vjp
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, scale: float, is_causal: bool, keep: float
) -> tuple[Tensor | None, ...]:
    if MODE.grad:
        return (*_differentiable_adjoint(gs[0], query, key, value, mask, scale, is_causal), None)
    return (*adjoint(gs[0], query, key, value, mask, ys[0], ys[1], scale, is_causal, keep), None)


@attention.jvp
def _(
    query_t: Tensor | None, key_t: Tensor | None, value_t: Tensor | None, mask_t: Tensor | None,
    ys: tuple[Tensor, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, scale: float, is_causal: bool, keep: float
) -> tuple[Tensor | None, ...]:
    p = ys[1] if keep == _PROBABILITIES and not MODE.grad else None
    if p is None:
        p = _probabilities(query, key, mask, scale, is_causal)
    scores_t = sum_terms(
        unless_missing(lambda t: (t * scale) @ key.transpose(-1, -2), query_t),
        unless_missing(lambda t: (query * scale) @ t.transpose(-1, -2), key_t), mask_t)
    p_t = unless_missing(lambda t: softmax_backward(t.expand(p.shape), p, -1, None), scores_t)
    return sum_terms(unless_missing(lambda t: t @ value, p_t),
                     unless_missing(lambda t: p @ t, value_t)), None


@opaque(layout=Layout.FREE,
        name="_attention_backward", expose=(), differentiable=False, ref=None, samples=None)
def adjoint(
    g: Array, query: Array, key: Array, value: Array, mask: Array | None, y: Array, saved: Array,
    scale: float, is_causal: bool, keep: float
) -> tuple[Array, ...]:
    """Return the cotangents of query, key and value."""
    kind, inside = query.dtype, compute_dtype(query.dtype)
    g, q, k, v, y = (x.astype(inside, copy=False) for x in (g, query, key, value, y))
    if keep == _PROBABILITIES:
        result = whole_backward(g, q, k, v, y, saved, scale)
        if result is not None:
            return tuple(x.astype(kind, copy=False) for x in result)
    scores = _Scores(q, k, mask, scale, is_causal)
    dq = np.empty(q.shape, inside)
    dk, dv = np.zeros(k.shape, inside), np.zeros(v.shape, inside)
    v_turned = v.swapaxes(-1, -2)
    inner = np.einsum("...i,...i->...", g, y)[..., None]  # what softmax's derivative subtracts
    with np.errstate(all="ignore"):
        for window in _windows((*q.shape[:-1], k.shape[-2])):
            outer = window[: scores.rank]
            part = g[window]
            if keep == _PROBABILITIES:
                p = saved[window]
            else:
                p = scores.of(window, np.empty((*part.shape[:-1], k.shape[-2]), inside))
                p -= saved[window][..., None]
                np.exp(p, p)
            dv[outer] += np.matmul(p.swapaxes(-1, -2), part)
            ds = np.matmul(part, v_turned[outer])
            ds -= inner[window]
            ds *= p
            ds *= scores.scale
            np.matmul(ds, k[outer], dq[window])
            dk[outer] += np.matmul(ds.swapaxes(-1, -2), q[window])
    return tuple(x.astype(kind, copy=False) for x in (dq, dk, dv))


@attention.batch
def _(
    batch: Batch, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float,
    is_causal: bool, keep: float
) -> Any:
    q, k, v = map(batch.expand, (query, key, value))
    return attention(q, k, v, _mask_below(batch, mask, query), scale, is_causal, keep)


@adjoint.batch
def _(
    batch: Batch, g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    y: Tensor, saved: Tensor, scale: float, is_causal: bool, keep: float
) -> Any:
    g, q, k, v, y, saved = map(batch.expand, (g, query, key, value, y, saved))
    return adjoint(g, q, k, v, _mask_below(batch, mask, query), y, saved, scale, is_causal, keep)


def _mask_below(batch: Batch, mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Lower the mask; a batched one gets as many axes after the batch's as the query has."""
    if mask is None or not batch.holds(mask):
        return batch.lower(mask)
    return batch.view(mask, *[1] * (query.dim() - mask.dim()))


def _differentiable_adjoint(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cotangents of query, key and value, computed by differentiable operators."""
    p = _probabilities(q, k, mask, scale, causal)
    dp = g @ v.transpose(-1, -2)
    ds = (dp - (dp * p).sum(-1, keepdim=True)) * p * scale
    return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g


def _probabilities(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> Tensor:
    """Return softmax(q @ k.T * scale + mask); fully masked rows are 0."""
    scores = (q @ k.transpose(-1, -2)) * scale
    if causal:
        scores = scores + full(scores.shape[-2:], -math.inf, dtype=q.dtype).triu(1)
    if mask is None:
        return softmax(scores, -1)
    if mask._array.dtype == np.bool_:
        scores = scores.masked_fill(~mask, -math.inf)
    else:
        scores = scores + mask
    empty = (scores.detach() == -math.inf).all(-1, True)  # operators: a compiled step records them
    return softmax(scores.masked_fill(empty, 0), -1).masked_fill(empty, 0)


@composite(autocast=Policy.LOWER, expose=("nn.functional",))
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False
) -> Tensor:
    """Compute softmax(query @ key.T * scale + attn_mask) @ value.

    query (..., heads, l, d), key (..., heads, s, d), value (..., heads, s, e): result
    (..., heads, l, e). `attn_mask`, broadcast to (..., l, s), is either bool, True where attention
    is allowed, or floating, added to the scores. `scale` defaults to 1 / sqrt(d). `enable_gqa`:
    key and value may have fewer heads, each shared by a group of query heads. Raises RuntimeError
    if shapes or dtypes do not fit. Vaswani et al., Attention Is All You Need, 2017.

    Args:
        dropout_p: The probability with which an attention weight is dropped; in training pass
            it, else 0.

    >>> x = torch.eye(2)
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.3302, 0.6698]])
    """
    _check(query, key, value, attn_mask, dropout_p)
    settings = AttentionSettings.allowed
    if (is_causal and attn_mask is not None) or not (settings["math"] and settings["flash"]):
        check_choice(query, key, value, attn_mask, dropout_p, is_causal)
    if enable_gqa:
        key, value = _repeat(query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(query._array.shape[-1]) if query._array.shape[-1] else math.inf
    q, k, v = query._array.shape, key._array.shape, value._array.shape
    plain = q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]
    if dropout_p > 0 or not plain or (attn_mask is not None and _record(attn_mask)):
        p = _probabilities(query, key, attn_mask, scale, is_causal)
        return (dropout(p, dropout_p, True) if dropout_p > 0 else p) @ value
    keep = _NO_STATE
    if LEVELS.active or any(map(_record, (query, key, value))):  # jvp and vjp read what is saved
        keep = _PROBABILITIES if math.prod(q[:-1]) * k[-2] <= MAX_SAVED_PROBABILITIES else _LOG_SUMS
    return attention(query, key, value, attn_mask, scale, is_causal, keep)[0]


def _record(x: Tensor) -> bool:
    return MODE.grad and x._tracked and requires(x)


def _repeat(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """Return key and value with their heads repeated to as many as the query has."""
    heads = query.size(-3)
    if key.size(-3) == 0 or value.size(-3) == 0 or heads % key.size(-3) or heads % value.size(-3):
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query: "
            f"{key.size(-3)} and {value.size(-3)} do not divide {heads}"
        )
    return tuple(
        x if x.size(-3) == heads else x.repeat_interleave(heads // x.size(-3), -3)
        for x in (key, value)
    )


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> None:
    kinds = [x._array.dtype for x in (query, key, value)]
    if not kinds[0] == kinds[1] == kinds[2]:
        names = [_word(x) for x in (query, key, value)]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    if not FROM_NUMPY[kinds[0]].is_floating_point and kinds[0].kind != "c":
        raise RuntimeError(f"expected scalar type Float but found {_word(query).capitalize()}")
    ranks = [x._array.ndim for x in (query, key, value)]
    if min(ranks) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]} key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if mask is not None and mask._array.dtype not in (np.bool_, kinds[0], np.float32):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {_word(mask)} and  query.dtype: {_word(query)} instead."
        )
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _word(x: Tensor) -> str:
    name = legacy_name(x.dtype).removesuffix("Tensor").split(".")[-1].lower()
    return {"long": "long int"}.get(name, name)
