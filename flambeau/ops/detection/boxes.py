"""Non-maximum suppression of overlapping boxes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...native.target.eager_costs import BOXES_COMPARED_FIRST, BOX_PAIRS_PER_BLOCK
from ...tensor.meta import MetaArray
from ..core.operator import Array
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from .arguments import check_dtype


def _boxes(rng: Rng) -> Iterator[Sample]:
    for count in (0, 1, 40):
        corners = rng.uniform(0, 20, (count, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(1, 12, (count, 2))], 1)
        yield (boxes, rng.normal(size=count), 0.3), {}


def _one_by_one(dets: np.ndarray, scores: np.ndarray, iou_threshold: float) -> np.ndarray:
    """Reference: keep the best remaining box, drop those that overlap it too much, repeat."""
    remaining, chosen = list(np.argsort(-scores, kind="stable")), []
    while remaining:
        best = remaining.pop(0)
        chosen.append(best)
        remaining = [other for other in remaining
                     if _overlap(dets[best], dets[other]) <= iou_threshold]
    return np.array(chosen, np.int64)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


@opaque(expose=(), differentiable=False, ref=_one_by_one, samples=_boxes)
def nms(dets: Array, scores: Array, iou_threshold: float) -> Array:
    """Non-maximum suppression: return the indices of the boxes to keep, best score first.

    dets (n, 4): x1, y1, x2, y2; scores (n,). In order of decreasing score, a box is kept unless
    its intersection over union with a box already kept exceeds `iou_threshold`:
    |a & b| / (|a| + |b| - |a & b|). RuntimeError for other shapes and for mismatched dtypes.

    >>> from flambeau.ops.detection.boxes import nms
    >>> boxes = torch.tensor([[0., 0., 4., 4.], [0., 0., 4., 3.], [5., 5., 6., 6.]])
    >>> nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    _check(dets, scores)
    if dets.__class__ is MetaArray:
        raise NotImplementedError("nms on meta tensors: how many boxes it keeps depends on values")
    if not len(dets):
        return np.empty(0, np.int64)
    order = _rank_by_score(scores)
    ranked = np.ascontiguousarray(dets[order].T)  # x1, y1, x2, y2: (4, n), best first
    return order[_suppress_in_rounds(ranked, _round_down(iou_threshold, dets.dtype))]


def _rank_by_score(scores: Array) -> Array:
    """Return the stable order of descending scores; NaN comes first."""
    order = np.argsort(-scores, kind="stable")
    if not np.isnan(scores[order[-1]]):
        return order
    return np.roll(order, np.count_nonzero(np.isnan(scores)))


def _suppress_in_rounds(ranked: Array, limit: np.floating) -> Array:
    """Return the ranks of the boxes (4, n) that are kept.

    If many boxes show the same object, a few of the best ones suppress most others cheaply. Once
    such a round drops less than half of the rest, compare all remaining boxes at once.
    """
    remaining, chosen = np.arange(ranked.shape[1]), []
    while len(remaining) > 2 * BOXES_COMPARED_FIRST:
        best, rest = remaining[:BOXES_COMPARED_FIRST], remaining[BOXES_COMPARED_FIRST:]
        best = best[_keep_unsuppressed(ranked[:, best], limit)]
        chosen.append(best)
        step = max(BOX_PAIRS_PER_BLOCK // len(best), 1)
        free = [
            ~_exceeds_iou(ranked[:, best, None], ranked[:, None, rest[a : a + step]], limit).any(0)
            for a in range(0, len(rest), step)
        ]
        remaining = rest[np.concatenate(free)]
        if 2 * len(remaining) > len(rest):
            break
    chosen.append(remaining[_keep_unsuppressed(ranked[:, remaining], limit)])
    return np.concatenate(chosen)


def _keep_unsuppressed(ranked: Array, limit: np.floating) -> Array:
    """Return whether each box is kept, by going through all pairs that overlap too much."""
    suppressed = bytearray(ranked.shape[1])
    if suppressed:
        better, worse = _find_overlapping_pairs(ranked, limit)
        starts = np.searchsorted(better, np.arange(len(suppressed) + 1)).tolist()
        for i in np.unique(better).tolist():
            if not suppressed[i]:
                for other in worse[starts[i] : starts[i + 1]].tolist():
                    suppressed[other] = 1
    return np.frombuffer(suppressed, np.uint8) == 0


def _check(dets: Array, scores: Array) -> None:
    if dets.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.ndim}D")
    if dets.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if dets.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.shape[0]} and {scores.shape[0]}"
        )
    if dets.dtype != scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    check_dtype("nms_kernel", dets, half=False)


def _find_overlapping_pairs(ranked: Array, limit: np.floating) -> tuple[Array, Array]:
    """Return the pairs of ranks (better, worse) whose overlap exceeds the limit, ordered by better.

    Boxes are sorted by their left edge: each is compared only with those that begin before it ends.
    """
    by_left = np.argsort(ranked[0], kind="stable")
    boxes = ranked[:, by_left]
    count = boxes.shape[1]
    ends = np.searchsorted(boxes[0], boxes[2], "right")
    ends = np.maximum(ends, np.arange(count) + 1 if limit >= 0 else count)
    pairs, first = [], 0
    while first < count:
        last = first + 1
        widest = int(ends[first]) - first
        while last < count \
                and (last - first + 1) * max(widest, int(ends[last]) - first) \
                <= BOX_PAIRS_PER_BLOCK:
            widest = max(widest, int(ends[last]) - first)
            last += 1
        pairs.append(_compare_block(boxes, first, last, first + widest, limit))
        first = last
    a, b = (by_left[np.concatenate(side)] for side in zip(*pairs, strict=True))
    better, worse = np.minimum(a, b), np.maximum(a, b)
    by_better = np.argsort(better, kind="stable")
    return better[by_better], worse[by_better]


def _round_down(threshold: float, kind: np.dtype) -> np.floating:
    """Return the largest number of the dtype up to the threshold. Overlaps, which have this dtype,
    exceed it if and only if they exceed the threshold."""
    limit = kind.type(threshold)
    return np.nextafter(limit, kind.type(-np.inf)) if float(limit) > threshold else limit


def _compare_block(
    boxes: Array, first: int, last: int, end: int, limit: np.floating
) -> tuple[Array, Array]:
    """Return the pairs over the limit of a box in [first, last) and a later one before `end`."""
    i, j = np.nonzero(_exceeds_iou(boxes[:, first:last, None], boxes[:, None, first:end], limit))
    later = j > i
    return i[later] + first, j[later] + first


def _exceeds_iou(a: Array, b: Array, limit: np.floating) -> Array:
    """Return whether each pair's intersection over union exceeds the limit, (n, m), for a
    (4, n, 1) and b (4, 1, m)."""
    (x1, y1, x2, y2), (u1, v1, u2, v2) = a, b
    zero = a.dtype.type(0)
    common = np.maximum(np.minimum(x2, u2) - np.maximum(x1, u1), zero)
    common *= np.maximum(np.minimum(y2, v2) - np.maximum(y1, v1), zero)
    union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1)
    union -= common
    common /= union
    return common > limit
