"""Quality of an order by score: average precision, and normalized discounted cumulative gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from .metric import Metric, Value, as_array, widen


def average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """The sum of precision times the step in recall at each threshold; NaN without positives."""
    positives = int(np.count_nonzero(positive))
    if not positives:
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    hits = np.cumsum(positive[order])
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True])  # of equal scores
    precision, recall = hits[last] / (last + 1), hits[last] / positives
    return float((precision * np.diff(recall, prepend=0.0)).sum())


class AveragePrecision(Metric):
    """The area under the precision-recall curve, as a sum of steps.

    Binary scores (n,) or (n, 1); multi-class scores (n, classes) with labels (n,), each class
    against the rest; multi-label scores and targets (n, labels). The mean over classes that have
    positives.

    >>> precision = AveragePrecision()
    >>> precision.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    >>> round(precision.compute(), 4)
    0.8333
    """

    states = ("scores", "targets")
    higher_is_better = True
    costly = True

    def __init__(self, *, name: str = "average_precision") -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.scores: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores and targets."""
        scores, targets = widen(as_array(output)), as_array(target)
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if scores.ndim == 1 and targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if len(scores) != len(targets) or scores.ndim not in (1, 2):
            raise ValueError(
                f"AveragePrecision: outputs of shape {scores.shape} do not fit targets of shape "
                f"{targets.shape}"
            )
        self.scores.append(scores.copy())
        self.targets.append(targets.astype(np.int64))

    def compute(self) -> Value:
        """From 0 to 1; NaN before the first batch."""
        if not self.scores:
            return self._get_undefined()
        scores, targets = np.concatenate(self.scores), np.concatenate(self.targets)
        if scores.ndim == 1:
            return average_precision(scores, targets == 1)
        positive = targets == 1
        if targets.ndim == 1:
            positive = targets[:, None] == np.arange(scores.shape[1])
        areas = [average_precision(scores[:, i], positive[:, i]) for i in range(scores.shape[1])]
        defined = [area for area in areas if area == area]
        return float(np.mean(defined)) if defined else float("nan")


class NDCG(Metric):
    """Normalized discounted cumulative gain of rows: scores and relevances (queries, documents).

    `k` counts the first documents only. Equal scores share their discounts (McSherry and Najork
    2008). Gains are the relevances themselves, not 2^relevance.

    >>> ndcg = NDCG()
    >>> ndcg.update(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[10.0, 0.0, 5.0]]))
    >>> round(ndcg.compute(), 4)
    0.7602
    """

    states = ("total", "count")
    higher_is_better = True

    def __init__(self, k: int | None = None, *, name: str | None = None) -> None:
        if k is not None and k < 1:
            raise ValueError(f"NDCG: k must be at least 1, not {k}")
        self.k, self.name = k, name or ("ndcg" if k is None else f"ndcg@{k}")
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.total, self.count = 0.0, 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of queries."""
        scores, relevance = widen(as_array(output)), widen(as_array(target))
        if scores.shape != relevance.shape or scores.ndim != 2:
            raise ValueError(
                f"NDCG: outputs of shape {scores.shape} and targets of shape {relevance.shape}; "
                "both are (queries, documents)"
            )
        discount = 1 / np.log2(np.arange(scores.shape[1]) + 2)
        if self.k is not None:
            discount[self.k :] = 0
        for row, gains in zip(scores, relevance, strict=True):
            best = float(np.sort(gains)[::-1].dot(discount))
            self.total += _sum_gains(row, gains, discount) / best if best else 0.0
            self.count += 1

    def compute(self) -> Value:
        """The mean over queries, from 0 to 1; NaN before the first batch."""
        return self.total / self.count if self.count else self._get_undefined()


def _sum_gains(scores: np.ndarray, gains: np.ndarray, discount: np.ndarray) -> float:
    """The discounted gain of a query; documents of equal score share their discounts."""
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    means = np.bincount(group, gains) / sizes
    ends = np.cumsum(sizes)
    cumulated = np.concatenate([[0.0], np.cumsum(discount)])
    return float(means.dot(cumulated[ends] - cumulated[ends - sizes]))
