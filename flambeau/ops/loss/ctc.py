"""Connectionist temporal classification (Graves et al., 2006), over a batch at once.

A target is extended with blanks between its labels and around them; alpha and beta are the log
probabilities of the paths up to, and from, each of its positions. Both run over time, on arrays
(batch, positions).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import add_notes
from ...tensor.dtypes import int64
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ..core.autocast import Policy, make_autocasting
from ..core.operator import Array, publish
from ..core.output_layout import Layout
from ..core.registry import composite, opaque
from ..core.value_rules import ValueRule
from ..creation.interchange import tensor
from ..native.scan import scan_paths
from ..pointwise.selection import where
from .reduction import MEAN, NONE, parse_reduction

_NEVER = -np.inf


def _extend(targets: Array, lengths: Array, blank: int) -> Array:
    """Return targets with blanks around each label."""
    n, s = targets.shape
    result = np.full((n, 2 * s + 1), blank, np.int64)
    result[:, 1::2] = np.where(np.arange(s) < lengths[:, None], targets, blank)
    return result


def _find_skips(extended: Array) -> Array:
    """Where paths may skip the last position: a label follows another one. A blank never differs
    from the blank before it; a target may hold the blank as a label."""
    skip = np.zeros(extended.shape, np.bool_)
    skip[:, 2:] = extended[:, 2:] != extended[:, :-2]
    return skip


def _emit(log_probs: Array, extended: Array) -> Array:
    """The log probability of each position's label at each time: (time, batch, positions)."""
    index = np.broadcast_to(extended, (len(log_probs), *extended.shape))
    return np.take_along_axis(log_probs, index, 2).astype(np.float64)


def _sum_paths(emitted: Array, skip: Array) -> Array:
    """alpha: the log probabilities of the paths that reach each position at each time."""
    if (y := scan_paths(emitted, skip)) is not None:
        return y
    result = np.full(emitted.shape, _NEVER)
    if not len(result):
        return result
    result[0, :, :2] = emitted[0, :, :2]
    for t in range(1, len(result)):
        before, now = result[t - 1], result[t]
        now[...] = before
        now[:, 1:] = np.logaddexp(now[:, 1:], before[:, :-1])
        skipped = np.where(skip[:, 2:], before[:, :-2], _NEVER)
        now[:, 2:] = np.logaddexp(now[:, 2:], skipped)
        now += emitted[t]
    return result


def _sum_paths_from(emitted: Array, extended: Array, times: Array, lengths: Array) -> Array:
    """beta: the log probabilities of the paths from each position and time to the end. They are
    the paths to it if time and positions run backwards from the end of each sample."""
    count, batch, positions = emitted.shape
    sample = np.arange(batch)[:, None]
    place = 2 * lengths[:, None] - np.arange(positions)
    time = (times - 1 - np.arange(count)[:, None])[:, :, None]
    inside = (time >= 0) & (place >= 0)
    turned = np.where(inside, emitted[time, sample, place], _NEVER)
    skip = _find_skips(extended[sample, place])
    result: Array = np.where(inside, _sum_paths(turned, skip)[time, sample, place], _NEVER)
    return result


def _compute_losses(alpha: Array, times: Array, lengths: Array) -> Array:
    """Minus the log probability of each target."""
    rows = np.arange(len(times))
    if not len(alpha):
        return np.where(lengths == 0, 0.0, np.inf)
    last = alpha[np.maximum(times, 1) - 1, rows]
    total = last[rows, 2 * lengths]
    other = np.where(lengths > 0, last[rows, np.maximum(2 * lengths - 1, 0)], _NEVER)
    total = np.logaddexp(total, other)
    return -np.where(times > 0, total, np.where(lengths == 0, 0.0, _NEVER))


def _takes_labels(log_probs: Array, targets: Array, times: Array, lengths: Array, blank: int,
                  *rest: Any) -> bool:
    """Whether labels and lengths fit the classes, the times and each other."""
    try:
        labels, _, lengths = _check(targets, times, lengths, len(log_probs))
    except RuntimeError:
        return False
    extended = _extend(labels, lengths, blank)
    classes = log_probs.shape[2]
    return not (len(log_probs) and extended.size) or bool(
        -classes <= extended.min() and extended.max() < classes)


# No samples: as in PyTorch, the gradient is only correct after a log_softmax.
@opaque(name="_ctc_loss", node="CtcLossBackward0", expose=(), ref=None, samples=None,
        second_order=False,
        values=ValueRule(("targets", "input_lengths", "target_lengths"), _takes_labels))
def _ctc(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int,
         zero_infinity: bool) -> Array:
    """Minus the log probability of each target.

    log_probs (time, batch, classes), targets (batch, labels) or all labels concatenated. All checks
    of values happen in here, so compiled programs can call it directly.
    """
    targets, input_lengths, target_lengths = _check(
        targets, input_lengths, target_lengths, len(log_probs)
    )
    extended = _extend(targets, target_lengths, blank)
    with np.errstate(all="ignore"):
        alpha = _sum_paths(_emit(log_probs, extended), _find_skips(extended))
        return _compute_losses(alpha, input_lengths, target_lengths).astype(log_probs.dtype)


@_ctc.vjp("log_probs")
def _(
    g: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int, zero_infinity: bool
) -> Tensor:
    return _ctc_backward(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)


@opaque(layout=Layout.FREE,
        name="_ctc_loss_backward", expose=(), ref=None, samples=None, second_order=False)
def _ctc_backward(
    g: Array, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array,
    blank: int, zero_infinity: bool,
) -> Array:
    """The cotangent of the log probabilities, in the form that log_softmax's backward expects."""
    targets, input_lengths, target_lengths = _check(
        targets, input_lengths, target_lengths, len(log_probs)
    )
    extended = _extend(targets, target_lengths, blank)
    with np.errstate(all="ignore"):
        emitted = _emit(log_probs, extended)
        alpha = _sum_paths(emitted, _find_skips(extended))
        beta = _sum_paths_from(emitted, extended, input_lengths, target_lengths)
        losses = _compute_losses(alpha, input_lengths, target_lengths)
        share = np.exp(alpha + beta - emitted + losses[:, None])
        _drop_final_blank(share, extended, input_lengths, target_lengths)
        result = np.exp(np.ascontiguousarray(log_probs, np.float64))
        times, batch, classes = result.shape
        rows = classes * np.arange(times * batch).reshape(times, batch, 1)
        np.subtract.at(result.reshape(-1), (rows + extended % classes).reshape(-1),
                       share.reshape(-1))
        result *= g[:, None]
    result[np.arange(len(result))[:, None] >= input_lengths] = 0
    if zero_infinity:
        result[:, np.isinf(losses)] = 0
    return result.astype(log_probs.dtype)


def _drop_final_blank(share: Array, extended: Array, times: Array, lengths: Array) -> None:
    """Drop the last blank's share at the last time if the label before it is also a blank.

    PyTorch writes both shares to the same class, and the label's overwrites the blank's.
    """
    rows = np.flatnonzero((lengths > 0) & (times > 0))
    last = 2 * lengths[rows]
    rows = rows[extended[rows, last] == extended[rows, last - 1]]
    share[times[rows] - 1, rows, 2 * lengths[rows]] = 0


# ------------------------------------------------------------------------------- arguments


def _read_lengths(values: Any, name: str, count: int) -> Tensor:
    if isinstance(values, Tensor):
        if values._array.dtype.kind not in "iu":
            raise RuntimeError(f"{name} must be integral")
        result = values.reshape(-1)
    else:
        result = tensor([int(value) for value in values], dtype=int64)
    if len(result) != count:
        raise add_notes(RuntimeError(f"{name} must be of size batch_size"),
                        f"There are {count} samples and {len(result)} lengths.")
    return result


def _check(targets: Array, times: Array, lengths: Array, time: int) -> tuple[Array, ...]:
    """Check targets and lengths; return targets as (batch, labels) and int64 lengths."""
    times, lengths = times.astype(np.int64), lengths.astype(np.int64)
    if times.max(initial=0) > time:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {time}, but got value "
            f"{times[times > time][0]} (while checking arguments for ctc_loss_allocate_outputs)"
        )
    if (times < 0).any() or (lengths < 0).any():
        raise RuntimeError("Expected input_lengths and target_lengths to have values at least 0")
    return _split_into_rows(targets, lengths), times, lengths


def _split_into_rows(targets: Array, lengths: Array) -> Array:
    """Return targets as (batch, labels), given in that form or concatenated."""
    longest = int(lengths.max(initial=0))
    where_ = "(while checking arguments for ctc_loss_allocate_outputs)"
    if targets.ndim == 1:
        total = int(lengths.sum())
        if len(targets) != total:
            raise RuntimeError(f"Expected tensor to have size {total} at dimension 0, but got size "
                               f"{len(targets)} for argument #2 'targets' {where_}")
        actual = np.zeros((len(lengths), longest), np.int64)
        actual[np.arange(longest) < lengths[:, None]] = targets
        return actual
    if targets.shape[0] != len(lengths) or targets.shape[1] < longest:
        axis = int(targets.shape[0] == len(lengths))
        expected = f"at least {longest}" if axis else str(len(lengths))
        raise RuntimeError(
            f"Expected tensor to have size {expected} at dimension {axis}, but got size "
            f"{targets.shape[axis]} for argument #2 'targets' {where_}"
        )
    return targets[:, :longest].astype(np.int64)


def _ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int], blank: int = 0, reduction: int | str = NONE,
    zero_infinity: bool = False
) -> Tensor:
    """Compute the connectionist temporal classification loss, with the reduction as a number.

    Args:
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> log_probs = torch.zeros(3, 1, 2).log_softmax(2)
    >>> torch.ctc_loss(log_probs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]), 0, 1)
    tensor(0.2877)
    """
    kind = log_probs._array.dtype
    if kind not in (np.float32, np.float64):
        raise build_missing_kernel_error("ctc_loss_cpu", kind)
    single = log_probs.dim() == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    _, batch, classes = x._array.shape
    times = _read_lengths(input_lengths, "input_lengths", batch)
    lengths = _read_lengths(target_lengths, "target_lengths", batch)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    labels = targets[:1] if single and targets.dim() == 2 else targets
    losses = _ctc(x, labels, times, lengths, blank, zero_infinity)
    if zero_infinity:
        losses = where(losses == np.inf, 0, losses)
    if reduction == NONE:
        return losses.squeeze(0) if single else losses
    if reduction == MEAN:
        return (losses / lengths.clamp(1).to(losses.dtype)).mean()
    return losses.sum()


publish(make_autocasting("ctc_loss", _ctc_loss, Policy.FULL), ("ctc_loss",), ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int], blank: int = 0, reduction: int | str = "mean",
    zero_infinity: bool = False
) -> Tensor:
    """Compute the connectionist temporal classification loss of unaligned label sequences.

    log_probs (time, batch, classes) or (time, classes); targets (batch, labels) or all labels
    concatenated; the lengths of both per sequence. "mean" first divides by the targets' lengths.
    `zero_infinity`: inputs too short for their targets contribute zero.

    >>> log_probs = torch.zeros(3, 1, 2).log_softmax(2)  # class 0 is the blank
    >>> lengths = torch.tensor([3]), torch.tensor([1])
    >>> torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1]]), *lengths)
    tensor(0.2877)
    """
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                     parse_reduction(reduction), zero_infinity)
