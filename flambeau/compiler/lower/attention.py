"""Scaled dot-product attention as products around a softmax; passes fuse them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.attention import _LOG_SUMS, _NOTHING, _PROBABILITIES
from ...ops.promotion import compute_dtype
from .registry import lowering
from .selection import triangle
from .symbol import Symbol, symbol


def _scores(
    q: Symbol, k: Symbol, mask: Any, scale: float, is_causal: bool
) -> Symbol:
    """What softmax is taken of."""
    s = np.matmul(q, k.swapaxes(-1, -2)) * scale
    low = s.dtype.type(-math.inf)
    if is_causal:
        s = np.where(symbol(triangle(s.shape, 0)), s, low)
    if mask is None:
        return s
    if mask.dtype.kind == "b":
        return np.where(mask, s, low)
    return s + mask.astype(s.dtype)


@lowering("_attention")
def _attention(
    query: Symbol, key: Symbol, value: Symbol, mask: Any, scale: float,
    is_causal: bool, keep: int,
) -> tuple[Any, Any]:  # fmt: skip
    inside = compute_dtype(query.dtype)
    q, k, v = (x.astype(inside, copy=False) for x in (query, key, value))
    s = _scores(q, k, mask, scale, is_causal)
    if not s.shape[-1]:
        y = np.zeros_like(v, shape=(*q.shape[:-1], v.shape[-1]))
        kept = s if keep == _PROBABILITIES else np.sum(s, -1)
        return y.astype(query.dtype), None if keep == _NOTHING else kept
    top = np.max(s, -1, keepdims=True)
    if mask is not None:  # rows may be masked everywhere: they give 0
        top = np.where(np.equal(top, -math.inf), inside.type(0), top)
    e = np.exp(s - top)
    total = np.sum(e, -1, keepdims=True)
    if mask is not None:
        total = np.where(np.equal(total, 0), inside.type(1), total)
    p = e / total
    y = np.matmul(p, v).astype(query.dtype)
    if keep == _LOG_SUMS:
        return y, (np.log(total) + top)[..., 0]
    return y, p if keep == _PROBABILITIES else None


@lowering("_attention_backward")
def _attention_backward(
    g: Symbol, query: Symbol, key: Symbol, value: Symbol, mask: Any,
    y: Symbol, kept: Symbol, scale: float, is_causal: bool, keep: int,
) -> tuple[Symbol, ...]:  # fmt: skip
    kind, inside = query.dtype, compute_dtype(query.dtype)
    g, q, k, v, y = (x.astype(inside, copy=False) for x in (g, query, key, value, y))
    p = kept
    if keep != _PROBABILITIES:
        p = np.exp(_scores(q, k, mask, scale, is_causal) - kept[..., None])
    inner = np.sum(g * y, -1, keepdims=True)
    ds = (np.matmul(g, v.swapaxes(-1, -2)) - inner) * p * scale
    found = (np.matmul(ds, k), np.matmul(ds.swapaxes(-1, -2), q),
             np.matmul(p.swapaxes(-1, -2), g))  # fmt: skip
    return tuple(x.astype(kind) for x in found)
