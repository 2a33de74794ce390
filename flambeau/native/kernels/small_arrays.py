"""Kernels for arrays so small that the number of arguments dominates the cost of a call."""

from __future__ import annotations

import math

from ..loop_ir.expression_builder import Value, constant, where
from ..loop_ir.ir import (
    Accumulator, Affine, Begin, Constant, IndexValue, Kernel, Load, Loop, ReduceOp, Statement,
    Store, Type, Update,
)
from .softmax_and_layer_norm import RowKernelBuilder, apply_exp, apply_log


def softmax(type: Type) -> Kernel:
    """Softmax of each row of x, in place."""
    r = RowKernelBuilder(type)
    buffer = r.buffer("x")
    x = Value(Load(buffer, r.whole))
    shifted = apply_exp(x - r.fold(ReduceOp.MAXIMUM, x))
    total = r.fold(ReduceOp.SUM, shifted)  # before the store, which overwrites x
    r.sweep(stores=[(buffer, shifted * (1 / total))])
    return r.kernel("small_softmax")


def log_softmax(type: Type) -> Kernel:
    """Log-softmax of each row of x, in place."""
    r = RowKernelBuilder(type)
    buffer = r.buffer("x")
    x = Value(Load(buffer, r.whole))
    shifted = x - r.fold(ReduceOp.MAXIMUM, x)
    total = r.fold(ReduceOp.SUM, apply_exp(shifted))
    r.sweep(stores=[(buffer, shifted - apply_log(total))])
    return r.kernel("small_log_softmax")


def _is_target(r: RowKernelBuilder) -> Value:
    """Return whether a column is its row's class. Adds the kernel's `target` buffer."""
    target = Load(r.buffer("target", Type.I64), r.each)
    return Value(IndexValue(r.along)) == Value(target)


def cross_entropy(type: Type, mean: bool) -> Kernel:
    """Log-softmax of x in place, and the negative log-likelihood, summed or averaged (`mean`).

    Buffers: x, target (I64), loss. The loss is NaN if a target is out of range.
    """
    r = RowKernelBuilder(type)
    buffer = r.buffer("x")
    x, is_target = Value(Load(buffer, r.whole)), _is_target(r)
    loss = r.buffer("loss")
    all_rows, count = Accumulator(ReduceOp.SUM, type), Accumulator(ReduceOp.SUM, type)
    shifted = x - r.fold(ReduceOp.MAXIMUM, x)
    total, target_score, has_target = r.sweep([
        (ReduceOp.SUM, apply_exp(shifted)),
        (ReduceOp.SUM, where(is_target, shifted, constant(0, type))),
        (ReduceOp.ANY, is_target),
    ])
    log_total = apply_log(total)
    row_loss = where(has_target, log_total - target_score, constant(math.nan, type))
    r.body += [Update(all_rows, row_loss.expression), Update(count, Constant(type, 1))]
    r.sweep(stores=[(buffer, shifted - log_total)])
    loss_value = Value(all_rows) / Value(count) if mean else Value(all_rows)
    body: list[Statement] = [Begin(all_rows), Begin(count), Loop(r.row, r.rows, r.body),
                             Store(loss, Affine(), loss_value.expression)]
    return Kernel("small_cross_entropy", r.buffers, body, [r.rows, r.columns])


def cross_entropy_backward(type: Type) -> Kernel:
    """Replace log-softmax by (softmax - 1 at the target) * share.

    Buffers: logs, target (I64). `share` is a scalar.
    """
    r = RowKernelBuilder(type)
    buffer = r.buffer("logs")
    logs = Value(Load(buffer, r.whole))
    one_hot = where(_is_target(r), constant(1, type), constant(0, type))
    share = r.number("share")
    r.sweep(stores=[(buffer, (apply_exp(logs) - one_hot) * share)])
    return r.kernel("small_cross_entropy_backward")
