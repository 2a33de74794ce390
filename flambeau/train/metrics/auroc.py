"""The area under the ROC curve, exact: the chance that a positive scores above a negative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from .labels import check_task
from .metric import Metric, Value, as_array, widen


def compute_ranks(scores: np.ndarray) -> np.ndarray:
    """Rank from 1, equal scores sharing the mean of theirs."""
    order = scores.argsort(kind="stable")
    ordered = scores[order]
    # The start of each distinct score, and the end.
    edges = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    means = (edges[:-1] + edges[1:] + 1) / 2
    result = np.empty(len(scores))
    result[order] = np.repeat(means, np.diff(edges))
    return result


def compute_area(scores: np.ndarray, positive: np.ndarray) -> float:
    """The area for one class; NaN if there are only positives or only negatives."""
    positives = int(np.count_nonzero(positive))
    negatives = len(positive) - positives
    if not positives or not negatives or np.isnan(scores).any():
        return float("nan")
    above = compute_ranks(scores)[positive].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


class AUROC(Metric):
    """The area under the ROC curve over all scores seen (stored until `reset`).

    Binary scores (n,) or (n, 1) (or two columns), multi-class scores (n, classes) each class
    against the rest, multi-label scores and targets (n, labels). Multi-class rows that are not
    probabilities are treated as logits and get a softmax. `average`: "macro", "weighted" or
    "none". A class that is always or never present has no area: it is left out of the average,
    with a warning.

    >>> auroc = AUROC()
    >>> auroc.update(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    >>> auroc.compute()
    0.75
    """

    states = ("scores", "targets")
    higher_is_better = True
    costly = True

    def __init__(
        self, average: str = "macro", *, task: str | None = None, name: str = "auroc"
    ) -> None:
        if average not in ("macro", "weighted", "none"):
            raise ValueError(f"AUROC: average must be macro, weighted or none, not {average!r}")
        check_task(task, "AUROC")
        self.name = name
        self.average = average
        self.task = task
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.scores: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def update(self, output: Any, target: Any) -> None:
        """Keep a copy of a batch's scores and targets."""
        scores, labels = as_array(output), as_array(target)
        if scores.shape[:1] != labels.shape[:1] or scores.ndim not in (1, 2) or labels.ndim > 2:
            raise ValueError(
                f"AUROC: outputs of shape {scores.shape} do not fit targets of shape "
                f"{labels.shape}; expected (n,) or (n, classes) with (n,), or both (n, labels)"
            )
        self.scores.append(scores.astype(np.float64))
        self.targets.append(labels.astype(np.int64))

    def compute(self) -> Value:
        """The area, from 0 to 1."""
        if not self.scores:
            return self._get_undefined()
        scores, targets = np.concatenate(self.scores), np.concatenate(self.targets)
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if scores.ndim == 1:
            return self._warn_of_nan(compute_area(scores, targets == 1))
        if targets.ndim == 2:
            return self._average(scores, targets == 1)
        scores = as_probabilities(scores)
        if scores.shape[1] == 2:
            return self._warn_of_nan(compute_area(scores[:, 1], targets == 1))
        return self._average(scores, targets[:, None] == np.arange(scores.shape[1]))

    def _average(self, scores: np.ndarray, positive: np.ndarray) -> Value:
        areas = np.array([
            compute_area(scores[:, i], positive[:, i]) for i in range(scores.shape[1])])
        if self.average == "none":
            return areas
        is_defined = ~np.isnan(areas)
        if not is_defined.all():
            self._warn_of_nan(float("nan"))
        if not is_defined.any():
            return float("nan")
        weights = positive.sum(0)[is_defined] if self.average == "weighted" else None
        return float(np.average(areas[is_defined], weights=weights))

    def _warn_of_nan(self, value: float) -> float:
        if value != value:
            warn(
                f"{self.name}: the area is undefined: a class is always or never present, or a "
                "score is NaN",
            )
        return value


def as_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return rows that add up to 1: unchanged if they already do, their softmax otherwise."""
    scores = widen(scores)
    if (scores >= 0).all() and np.allclose(scores.sum(1), 1, atol=1e-3):
        return scores
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
