"""How good probabilities are: log loss, Brier score, and calibration error."""

from __future__ import annotations

from typing import Any

import numpy as np

from .auroc import as_probabilities
from .metric import Metric, Value, as_array, widen


def as_class_probabilities(who: str, output: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (n, classes) and labels (n,) of a batch.

    Scores (n,) or (n, 1) are binary. Scores that are not probabilities are logits.
    """
    scores, labels = widen(as_array(output)), as_array(target)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if scores.ndim not in (1, 2) or labels.ndim != 1 or len(scores) != len(labels):
        raise ValueError(
            f"{who}: outputs of shape {scores.shape} do not fit targets of shape {labels.shape}; "
            "expected (n,) or (n, classes) with (n,)"
        )
    if scores.ndim == 1:
        if not ((scores >= 0) & (scores <= 1)).all():
            scores = 1 / (1 + np.exp(-scores))
        return np.stack([1 - scores, scores], 1), labels.astype(np.int64)
    return as_probabilities(scores), labels.astype(np.int64)


class _Mean(Metric):
    """The mean over samples of a number that `_measure` works out for each."""

    states = ("total", "count")
    higher_is_better = False

    def __init__(self, *, name: str) -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.total, self.count = 0.0, 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of probabilities or logits, and labels."""
        shares, labels = as_class_probabilities(type(self).__name__, output, target)
        self.total += float(self._measure(shares, labels).sum())
        self.count += len(labels)

    def compute(self) -> Value:
        """The mean; NaN before the first batch."""
        return self.total / self.count if self.count else self._get_undefined()

    def _measure(self, shares: np.ndarray, labels: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class LogLoss(_Mean):
    """The mean of -log p(label), with probabilities of at least 2.2e-16.

    >>> loss = LogLoss()
    >>> loss.update(torch.tensor([0.5, 0.5]), torch.tensor([0, 1]))
    >>> round(loss.compute(), 4)
    0.6931
    """

    def __init__(self, *, name: str = "log_loss") -> None:
        super().__init__(name=name)

    def _measure(self, shares: np.ndarray, labels: np.ndarray) -> np.ndarray:
        chosen = shares[np.arange(len(labels)), labels]
        return -np.log(np.maximum(chosen, np.finfo(np.float64).eps))


class Brier(_Mean):
    """The Brier score: the mean squared distance of probabilities from what happened.

    Binary: (p - y)^2. More classes: the sum over classes, from 0 to 2 (Brier 1950).

    >>> brier = Brier()
    >>> brier.update(torch.tensor([0.9, 0.2]), torch.tensor([1, 0]))
    >>> round(brier.compute(), 4)
    0.025
    """

    def __init__(self, *, name: str = "brier") -> None:
        super().__init__(name=name)

    def _measure(self, shares: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if shares.shape[1] == 2:
            return (shares[:, 1] - labels) ** 2
        happened = labels[:, None] == np.arange(shares.shape[1])
        return ((shares - happened) ** 2).sum(1)


class CalibrationError(Metric):
    """The expected calibration error: how far confidence is from accuracy (Guo et al. 2017).

    Confidences of the chosen class fall into `bins` of equal width; the error is the mean over
    samples of |accuracy - confidence| of their bin.

    >>> error = CalibrationError()
    >>> error.update(torch.tensor([0.8, 0.8]), torch.tensor([1, 0]))
    >>> round(error.compute(), 4)
    0.3
    """

    states = ("confidence", "hits", "counts")
    higher_is_better = False

    def __init__(self, bins: int = 15, *, name: str = "calibration_error") -> None:
        if bins < 1:
            raise ValueError(f"CalibrationError: bins must be at least 1, not {bins}")
        self.bins, self.name = bins, name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.confidence, self.hits = np.zeros(self.bins), np.zeros(self.bins)
        self.counts = np.zeros(self.bins, np.int64)

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of probabilities or logits, and labels."""
        shares, labels = as_class_probabilities("CalibrationError", output, target)
        confidence = shares.max(1)
        place = np.minimum((confidence * self.bins).astype(np.int64), self.bins - 1)
        self.confidence += np.bincount(place, confidence, self.bins)
        self.hits += np.bincount(place, shares.argmax(1) == labels, self.bins)
        self.counts += np.bincount(place, minlength=self.bins)

    def compute(self) -> Value:
        """From 0 to 1; NaN before the first batch."""
        total = self.counts.sum()
        return float(np.abs(self.hits - self.confidence).sum() / total) if total else float("nan")
