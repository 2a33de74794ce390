"""Scaled dot-product attention: ATTENTION nodes, whose kernels store no scores, or, for small
scores, matrix products around a softmax.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....native.loop_ir.ir import Scalar
from ....native.target.graph_costs import (
    FEW_ATTENTION_MATRICES, MAX_FLASH_DEPTH, MAX_STORED_SCORE_BYTES, MIN_ATTENTION_BLOCK,
    MIN_FLASH_COLUMNS,
)
from ....ops.attention.scaled_dot_product import Saved
from ....ops.core.promotion import compute_dtype
from ...fusion.fusion_group import MOVEMENTS
from ...ir.any_length import serves_any_length
from ...ir.graph import Node, Op, reshape
from ...kernels.flash_attention import choose_block_extent
from ..numpy.selection import triangle
from ..numpy.symbolic_array import Symbol, wrap_node
from ..registry import lowering


def _compute_scores(
    q: Symbol, k: Symbol, mask: Any, scale: float, is_causal: bool
) -> Symbol:
    """The scaled and masked scores before softmax."""
    s = np.matmul(q, k.swapaxes(-1, -2)) * scale
    low = s.dtype.type(-math.inf)
    if is_causal:
        s = np.where(wrap_node(triangle(s.shape, 0)), s, low)
    if mask is None:
        return s
    if mask.dtype.kind == "b":
        return np.where(mask, s, low)
    return s + mask.astype(s.dtype)


def _prefers_flash(q: Symbol, k: Symbol, v: Symbol, causal: bool, keep: int) -> bool:
    """Whether to compute scores block by block, and again for the gradients: always if storing them
    takes too much memory, otherwise if measured faster.
    """
    *batch, rows, depth = q.shape
    columns, width, size = k.shape[-2], v.shape[-1], q.dtype.itemsize
    if 0 in (*q.shape, *k.shape, *v.shape) or q.dtype.kind != "f" or serves_any_length():
        return False
    block = choose_block_extent(rows, columns, depth, width, size, causal)
    if block and math.prod(batch) * rows * columns * size > MAX_STORED_SCORE_BYTES:
        return True
    if block < min(MIN_ATTENTION_BLOCK, rows, columns):
        return False
    if keep == Saved.NOTHING:
        return True
    is_serial = math.prod(batch) < FEW_ATTENTION_MATRICES  # backward is parallel over these
    return not is_serial and (causal or depth <= MAX_FLASH_DEPTH or columns >= MIN_FLASH_COLUMNS)


def _mask_nodes(mask: Any, q: Symbol) -> tuple[Node, ...]:
    """The mask as a tuple of input nodes (empty if None), extended to the scores' rank."""
    if mask is None:
        return ()
    node = mask.node if mask.dtype.kind == "b" else mask.astype(q.dtype).node
    return (reshape(node, (1,) * (q.ndim - mask.ndim) + node.shape),)


def _attend_by_blocks(
    q: Symbol, k: Symbol, v: Symbol, mask: Any, scale: float, is_causal: bool, keep: int
) -> tuple[Symbol, Any]:
    """Return the result and the value saved for backward. Probabilities are a formula of the sums,
    so they are never computed if only backward would read them.
    """
    masks = _mask_nodes(mask, q)
    attributes = {"scale": float(scale), "causal": bool(is_causal)}
    inputs = (q.node, k.node, v.node, *masks)
    type = q.node.type
    y = wrap_node(Node(Op.ATTENTION, inputs, (*q.shape[:-1], v.shape[-1]), type, attributes))
    if keep == Saved.NOTHING:
        return y, None
    sums = wrap_node(
        Node(Op.ATTENTION_SUMS, (q.node, k.node, *masks), q.shape[:-1], type, attributes))
    if keep == Saved.LOG_SUMS:
        return y, sums
    return y, np.exp(_compute_scores(q, k, mask, scale, is_causal) - sums[..., None])


def _find_softmax_sums(saved: Symbol) -> Symbol | None:
    """The sums from which _attend_by_blocks's saved value is built; None for other values."""
    node = saved.node
    if node.op is Op.APPLY and node.operation is Scalar.EXP:
        node = node.inputs[0]
        node = node.inputs[-1] if node.op is Op.APPLY and node.operation is Scalar.SUB else node
        while node.op in MOVEMENTS:
            node = node.inputs[0]
    return wrap_node(node) if node.op is Op.ATTENTION_SUMS else None


def _attend_by_softmax(
    q: Symbol, k: Symbol, v: Symbol, mask: Any, scale: float, is_causal: bool, keep: int
) -> tuple[Symbol, Any]:
    """Return the result and the value saved for backward, by products around a softmax."""
    s = _compute_scores(q, k, mask, scale, is_causal)
    if not s.shape[-1]:
        y = np.zeros_like(v, shape=(*q.shape[:-1], v.shape[-1]))
        saved = s if keep == Saved.PROBABILITIES else np.sum(s, -1)
        return y, None if keep == Saved.NOTHING else saved
    row_max = np.max(s, -1, keepdims=True)
    if mask is not None:  # rows may be fully masked: they give 0
        row_max = np.where(np.equal(row_max, -math.inf), s.dtype.type(0), row_max)
    e = np.exp(s - row_max)
    total = np.sum(e, -1, keepdims=True)
    if mask is not None:
        total = np.where(np.equal(total, 0), s.dtype.type(1), total)
    p = e / total
    y = np.matmul(p, v)
    if keep == Saved.LOG_SUMS:
        return y, (np.log(total) + row_max)[..., 0]
    return y, p if keep == Saved.PROBABILITIES else None


@lowering("_attention")
def _attention(
    query: Symbol, key: Symbol, value: Symbol, mask: Any, scale: float,
    is_causal: bool, keep: int,
) -> tuple[Any, Any]:
    working = compute_dtype(query.dtype)
    q, k, v = (x.astype(working, copy=False) for x in (query, key, value))
    is_flash = _prefers_flash(q, k, v, is_causal, keep)
    attend = _attend_by_blocks if is_flash else _attend_by_softmax
    y, saved = attend(q, k, v, mask, scale, is_causal, keep)
    return y.astype(query.dtype), saved


@lowering("_attention_backward")
def _attention_backward(
    g: Symbol, query: Symbol, key: Symbol, value: Symbol, mask: Any,
    y: Symbol, saved: Symbol, scale: float, is_causal: bool, keep: int,
) -> tuple[Symbol, ...]:
    dtype, working = query.dtype, compute_dtype(query.dtype)
    g, q, k, v, y = (x.astype(working, copy=False) for x in (g, query, key, value, y))
    inner = np.sum(g * y, -1, keepdims=True)
    sums = _find_softmax_sums(saved)
    if sums is not None:
        inputs = tuple(x.node for x in (q, k, v, g, sums, inner[..., 0]))
        inputs += _mask_nodes(mask, q)
        attributes = {"scale": float(scale), "causal": bool(is_causal)}
        return tuple(
            wrap_node(Node(Op.ATTENTION_GRADIENT, inputs, x.shape, x.node.type,
                           {**attributes, "of": of})).astype(dtype)
            for of, x in enumerate((q, k, v))
        )
    p = saved
    if keep != Saved.PROBABILITIES:
        p = np.exp(_compute_scores(q, k, mask, scale, is_causal) - saved[..., None])
    ds = (np.matmul(g, v.swapaxes(-1, -2)) - inner) * p * scale
    gradients = (
        np.matmul(ds, k), np.matmul(ds.swapaxes(-1, -2), q), np.matmul(p.swapaxes(-1, -2), g)
    )
    return tuple(x.astype(dtype) for x in gradients)
