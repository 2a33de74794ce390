"""Scaled dot-product attention: softmax(query @ key.T * scale + mask) @ value, by heads.

One operator computes it, by kernels or block by block. For backward it saves the probabilities, or
only the log-sum-exp of each row if there are many. Dropout, gradients of the mask and second
derivatives are composed of separate operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS, skip_missing, sum_terms
from ...autograd.tape import requires
from ...native.target.eager_costs import MAX_SAVED_PROBABILITIES, SCORES_PER_NUMPY_BLOCK
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.layout import compute_copy_strides, get_strides
from ...tensor.meta import MetaArray, meta_array
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..activation.softmax import softmax, softmax_backward
from ..core.autocast import Policy
from ..core.operator import Array
from ..core.output_layout import Layout, lay_out_again
from ..core.promotion import compute_dtype
from ..core.registry import composite, opaque, repeats_operators
from ..core.sample_inputs import Rng, Sample
from ..creation.creation import full
from ..creation.dropout import dropout
from ..reduction.numpy_reductions import reduce_max, reduce_sum
from .backend_choice import AttentionSettings, check_choice
from .native import backward as whole_backward
from .native import forward as whole_forward
from .native import attend_in_blocks


class Saved:
    """What the operator saves for backward: plain integers, as traces store arguments."""

    PROBABILITIES, LOG_SUMS, NOTHING = range(3)


def _samples(rng: Rng) -> Iterator[Sample]:
    for batch, n, s in (((2, 2), 3, 4), ((2,), 4, 3), ((), 3, 3)):
        q, k = rng.normal(size=(*batch, n, 3)), rng.normal(size=(*batch, s, 3))
        yield (q, k, rng.normal(size=(*batch, s, 2)), None, 0.7, n != s, Saved.PROBABILITIES), {}
        allowed = rng.random((n, s)) < 0.6
        allowed[0] = True
        yield (q, k, rng.normal(size=(*batch, s, 2)), allowed, 0.7, False, Saved.PROBABILITIES), {}


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


class _Block(NamedTuple):
    """A block of the scores (*batch, l, s): whole rows of one matrix, or several matrices."""

    batch: tuple  # its index along the batch axes, for key and value
    rows: slice  # in each matrix
    window: tuple  # its index along the batch axes and rows, for all other arrays


def _iterate_blocks(shape: tuple[int, ...]) -> Iterator[_Block]:
    """Cut (*batch, l, s) into blocks of about SCORES_PER_NUMPY_BLOCK scores, along the first axis
    whose slices are small enough."""
    row_axis = len(shape) - 2
    slice_scores = [math.prod(shape[axis + 1 :]) for axis in range(row_axis + 1)]
    axis = next((i for i in range(row_axis) if slice_scores[i] <= SCORES_PER_NUMPY_BLOCK), row_axis)
    step = max(1, SCORES_PER_NUMPY_BLOCK // max(slice_scores[axis], 1))
    for outer in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], step):
            window = (*outer, slice(start, start + step))
            if axis == row_axis:
                yield _Block(outer, window[-1], window)
            else:
                yield _Block(window, slice(None), window)


class _Scores:
    """Scaled and masked scores of one call, computed one block at a time."""

    def __init__(self, q: Array, k: Array, mask: Array | None, scale: float, causal: bool) -> None:
        self.q, self.k_transposed = q, k.swapaxes(-1, -2)
        self.scale = np.asarray(scale, q.dtype)
        self.shape = (*q.shape[:-1], k.shape[-2])
        self.mask = None if mask is None else np.broadcast_to(mask, self.shape)
        self.future = None  # -inf if a key's position is after the query's
        if causal:
            self.future = np.triu(np.full(self.shape[-2:], -np.inf, q.dtype), 1)

    def compute(self, block: _Block, scores: Array) -> Array:
        """Write the scores of a block to `scores` and return it."""
        np.matmul(self.q[block.window], self.k_transposed[block.batch], scores)
        scores *= self.scale
        if self.future is not None:
            scores += self.future[block.rows]
        if self.mask is not None:
            part = self.mask[block.window]
            if part.dtype == np.bool_:
                np.copyto(scores, -np.inf, where=~part)
            else:
                scores += part
        return scores


def _softmax_in_place(scores: Array, has_mask: bool) -> Array:
    """Softmax over the last axis. Return each row's log-sum-exp. With a mask, rows of -inf
    become 0.
    """
    row_max = reduce_max(scores, -1, None, None, True)
    if has_mask:
        row_max[row_max == -np.inf] = 0
    scores -= row_max
    np.exp(scores, scores)
    total = reduce_sum(scores, -1, None, None, True)
    if has_mask:
        total[total == 0] = 1
    scores /= total
    return (np.log(total) + row_max)[..., 0]


def _attend_by_kernels(
    q: Array, k: Array, v: Array, scale: float, is_causal: bool, keep: int
) -> tuple[Array, Array | None] | None:
    """Return (result, probabilities to save), or None without a kernel for the arguments."""
    if keep == Saved.PROBABILITIES:
        return whole_forward(q, k, v, scale, is_causal)
    y = attend_in_blocks(q, k, v, scale, is_causal) if keep == Saved.NOTHING else None
    return None if y is None else (y, None)


def _attend_in_blocks(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, is_causal: bool, keep: int
) -> tuple[Array, Array | None]:
    """Return (result, what to save), by NumPy."""
    scores = _Scores(q, k, mask, scale, is_causal)
    y = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    saved: Any = None
    if keep == Saved.PROBABILITIES:
        saved = np.empty(scores.shape, q.dtype)
    elif keep == Saved.LOG_SUMS:
        saved = np.empty(scores.shape[:-1], q.dtype)
    with np.errstate(all="ignore"):
        for block in _iterate_blocks(scores.shape):
            target = y[block.window]
            p = saved[block.window] if keep == Saved.PROBABILITIES else \
                np.empty((*target.shape[:-1], k.shape[-2]), q.dtype)
            if k.shape[-2]:
                log_sums = _softmax_in_place(scores.compute(block, p), mask is not None)
                if keep == Saved.LOG_SUMS:
                    saved[block.window] = log_sums
            np.matmul(p, v[block.batch], target)
    return y, saved


@opaque(extents_follow=True, layout=Layout.FREE,
        name="_attention", node="ScaledDotProductFlashAttentionForCpuBackward0", expose=(),
        constant_outputs=(1,), ref=_reference, samples=_samples)
def compute_attention(
    query: Array, key: Array, value: Array, mask: Array | None, scale: float, is_causal: bool,
    keep: int
) -> tuple[Array, Array | None]:
    """Return (attention's output, the values that `keep` selects to save for backward).

    query (*batch, l, d), key (*batch, s, d), value (*batch, s, e); the mask broadcasts to
    (*batch, l, s).
    """
    dtype, working = query.dtype, compute_dtype(query.dtype)
    if query.__class__ is MetaArray:
        rows = query.shape[:-1]
        return meta_array((*rows, value.shape[-1]), dtype), \
            meta_array((*rows, key.shape[-2]), working)
    q, k, v = (x.astype(working, copy=False) for x in (query, key, value))
    result = None if mask is not None else _attend_by_kernels(q, k, v, scale, is_causal, keep)
    y, saved = result or _attend_in_blocks(q, k, v, mask, scale, is_causal, keep)
    return _lay_out_as_query(y.astype(dtype, copy=False), query), saved


def _lay_out_as_query(y: Array, query: Array) -> Array:
    """Lay the result out as the query, as PyTorch's fused kernel does: if the query's heads are
    views of rows, merging the result's heads is a view."""
    is_fused = y.ndim == 4 and y.shape == query.shape and query.strides[-1] == query.itemsize
    return lay_out_again(y, compute_copy_strides(query.shape, get_strides(query))) if is_fused \
        else np.ascontiguousarray(y)


@compute_attention.vjp
def _(
    gs: tuple[Tensor, None], ys: tuple[Tensor, ...], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, scale: float, is_causal: bool, keep: int
) -> tuple[Tensor | None, ...]:
    if MODE.grad:
        return (*_differentiable_adjoint(gs[0], query, key, value, mask, scale, is_causal), None)
    return (*compute_adjoint(gs[0], query, key, value, mask, ys[0], ys[1], scale, is_causal, keep),
            None)


@compute_attention.jvp
def _(
    query_t: Tensor | None, key_t: Tensor | None, value_t: Tensor | None, mask_t: Tensor | None,
    ys: tuple[Tensor, Tensor | None], query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, scale: float, is_causal: bool, keep: int
) -> tuple[Tensor | None, ...]:
    p = ys[1] if keep == Saved.PROBABILITIES and not MODE.grad else None
    if p is None:
        p = compute_probabilities(query, key, mask, scale, is_causal)
    scores_t = sum_terms(
        skip_missing(lambda t: (t * scale) @ key.transpose(-1, -2), query_t),
        skip_missing(lambda t: (query * scale) @ t.transpose(-1, -2), key_t), mask_t)
    p_t = skip_missing(lambda t: softmax_backward(t.expand(p.shape), p, -1, None), scores_t)
    return sum_terms(skip_missing(lambda t: t @ value, p_t),
                     skip_missing(lambda t: p @ t, value_t)), None


@opaque(layout=Layout.FREE,
        name="_attention_backward", expose=(), differentiable=False, ref=None, samples=None)
def compute_adjoint(
    g: Array, query: Array, key: Array, value: Array, mask: Array | None, y: Array, saved: Array,
    scale: float, is_causal: bool, keep: int
) -> tuple[Array, ...]:
    """Return the cotangents of query, key and value."""
    dtype, working = query.dtype, compute_dtype(query.dtype)
    g, q, k, v, y = (x.astype(working, copy=False) for x in (g, query, key, value, y))
    result = None
    if keep == Saved.PROBABILITIES:
        result = whole_backward(g, q, k, v, y, saved, scale)
    if result is None:
        scores = _Scores(q, k, mask, scale, is_causal)
        result = _differentiate_in_blocks(g, q, k, v, y, scores, saved, keep)
    return tuple(x.astype(dtype, copy=False) for x in result)


def _differentiate_in_blocks(
    g: Array, q: Array, k: Array, v: Array, y: Array, scores: _Scores, saved: Array, keep: int
) -> tuple[Array, Array, Array]:
    """Return the cotangents of q, k and v, by NumPy."""
    dq, dk, dv = np.empty(q.shape, q.dtype), np.zeros(k.shape, q.dtype), np.zeros(v.shape, q.dtype)
    v_transposed = v.swapaxes(-1, -2)
    inner = np.einsum("...i,...i->...", g, y)[..., None]  # what softmax's derivative subtracts
    with np.errstate(all="ignore"):
        for block in _iterate_blocks(scores.shape):
            batch, window = block.batch, block.window
            dy = g[window]
            if keep == Saved.PROBABILITIES:
                p = saved[window]
            else:
                p = scores.compute(block, np.empty((*dy.shape[:-1], k.shape[-2]), q.dtype))
                p -= saved[window][..., None]
                np.exp(p, p)
            dv[batch] += np.matmul(p.swapaxes(-1, -2), dy)
            ds = np.matmul(dy, v_transposed[batch])
            ds -= inner[window]
            ds *= p
            ds *= scores.scale
            np.matmul(ds, k[batch], dq[window])
            dk[batch] += np.matmul(ds.swapaxes(-1, -2), q[window])
    return dq, dk, dv


@compute_attention.batch
def _(
    batch: Batch, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float,
    is_causal: bool, keep: int
) -> Any:
    q, k, v = map(batch.expand, (query, key, value))
    return compute_attention(q, k, v, _lower_mask(batch, mask, query), scale, is_causal, keep)


@compute_adjoint.batch
def _(
    batch: Batch, g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    y: Tensor, saved: Tensor, scale: float, is_causal: bool, keep: int
) -> Any:
    g, q, k, v, y, saved = map(batch.expand, (g, query, key, value, y, saved))
    return compute_adjoint(g, q, k, v, _lower_mask(batch, mask, query), y, saved, scale, is_causal,
                           keep)


def _lower_mask(batch: Batch, mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Lower the mask; a batched one gets as many axes after the batch's as the query has."""
    if mask is None or not batch.holds(mask):
        return batch.lower(mask)
    return batch.view(mask, *[1] * (query.dim() - mask.dim()))


def _differentiable_adjoint(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cotangents of query, key and value, computed by differentiable operators."""
    p = compute_probabilities(q, k, mask, scale, causal)
    dp = g @ v.transpose(-1, -2)
    ds = (dp - (dp * p).sum(-1, keepdim=True)) * p * scale
    return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ g


def compute_probabilities(
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


@repeats_operators(lambda: AttentionSettings.allowed)
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
    _check_arguments(query, key, value, attn_mask, dropout_p)
    settings = AttentionSettings.allowed
    if (is_causal and attn_mask is not None) or not (settings["math"] and settings["flash"]):
        check_choice(query, key, value, attn_mask, dropout_p, is_causal)
    if enable_gqa:
        key, value = _repeat_heads(query, key, value)
    if scale is None:
        scale = 1 / math.sqrt(query._array.shape[-1]) if query._array.shape[-1] else math.inf
    q, k, v = query._array.shape, key._array.shape, value._array.shape
    has_equal_batches = q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]
    if dropout_p > 0 or not has_equal_batches \
            or (attn_mask is not None and _is_recorded(attn_mask)):
        p = compute_probabilities(query, key, attn_mask, scale, is_causal)
        return (dropout(p, dropout_p, True) if dropout_p > 0 else p) @ value
    keep = Saved.NOTHING
    if LEVELS.active or any(map(_is_recorded, (query, key, value))):  # derivatives need it
        is_small = math.prod(q[:-1]) * k[-2] <= MAX_SAVED_PROBABILITIES
        keep = Saved.PROBABILITIES if is_small else Saved.LOG_SUMS
    return compute_attention(query, key, value, attn_mask, scale, is_causal, keep)[0]


def _is_recorded(x: Tensor) -> bool:
    return MODE.grad and x._tracked and requires(x)


def _repeat_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
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


def _check_arguments(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float
) -> None:
    """Raise RuntimeError if dtypes, ranks or the probability do not fit."""
    dtypes = [x._array.dtype for x in (query, key, value)]
    if not dtypes[0] == dtypes[1] == dtypes[2]:
        names = [_name_dtype(x) for x in (query, key, value)]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    if not FROM_NUMPY[dtypes[0]].is_floating_point and dtypes[0].kind != "c":
        name = _name_dtype(query).capitalize()
        raise RuntimeError(f"expected scalar type Float but found {name}")
    ranks = [x._array.ndim for x in (query, key, value)]
    if min(ranks) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]} key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if mask is not None and mask._array.dtype not in (np.bool_, dtypes[0], np.float32):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {_name_dtype(mask)} and  query.dtype: {_name_dtype(query)} instead."
        )
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _name_dtype(x: Tensor) -> str:
    name = legacy_name(x.dtype).removesuffix("Tensor").split(".")[-1].lower()
    return {"long": "long int"}.get(name, name)
