"""Precision, recall and their harmonic mean, from counts of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from .confusion import count_confusion
from .labels import Labels
from .metric import Metric, Value, add_values

AVERAGES = ("binary", "micro", "macro", "weighted", "none")


class _ByClass(Metric):
    """Hits, predictions and occurrences of each class; subclasses make a ratio of them.

    `average`: "binary" the class 1 alone; "micro" over all decisions; "macro" the mean over the
    classes that occur; "weighted" the same weighted by how often they do; "none" an array. By
    default "binary" for binary data and "macro" for the rest. A ratio 0/0 is 0.
    """

    states = ("hits", "predicted", "actual", "binary")
    higher_is_better = True
    title = ""

    def __init__(
        self,
        average: str | None = None,
        *,
        task: str | None = None,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        who = type(self).__name__
        if average is not None and average not in AVERAGES:
            raise ValueError(f"{who}: average must be one of {', '.join(AVERAGES)}, not "
                             f"{average!r}")
        self.name = name or self.title
        self.average = average
        self._labels = Labels(who, task, threshold, ignore_index)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.hits = np.zeros(0, np.int64)
        self.predicted = np.zeros(0, np.int64)
        self.actual = np.zeros(0, np.int64)
        self.binary = False

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores or labels and its targets."""
        task, predicted, labels, classes = self._labels.read(output, target)
        if task == "multilabel":
            predicted, labels = predicted.astype(bool), labels.astype(bool)
            counts = (predicted & labels).sum(0), predicted.sum(0), labels.sum(0)
        else:
            matrix = count_confusion(predicted, labels, classes)
            counts = np.diagonal(matrix), matrix.sum(0), matrix.sum(1)
        self.binary = task == "binary" or self.binary
        self.hits = add_values(self.hits, counts[0])
        self.predicted = add_values(self.predicted, counts[1])
        self.actual = add_values(self.actual, counts[2])

    def merge(self, other: Any) -> Any:
        """Add another metric's counts, and return self."""
        super().merge(other)
        self.binary = bool(self.binary)
        return self

    def compute(self) -> Value:
        """The averaged ratio, or for "none" that of each class; NaN before the first batch."""
        average = self.average or ("binary" if self.binary else "macro")
        if not len(self.hits):
            return self._get_undefined()
        if average == "micro":
            totals = (counts.sum() for counts in (self.hits, self.predicted, self.actual))
            return float(self._compute_ratio(*totals))
        ratios = self._compute_ratio(self.hits, self.predicted, self.actual)
        if average == "none":
            return ratios
        if average == "binary":
            if len(ratios) != 2:
                raise ValueError(
                    f"{self.name}: average='binary' needs two classes, but there are "
                    f"{len(ratios)}; choose micro, macro, weighted or none"
                )
            return float(ratios[1])
        weight = self.actual if average == "weighted" else self.predicted + self.actual > 0
        total = weight.sum()
        return float((ratios * weight).sum() / total) if total else 0.0

    def _compute_ratio(self, hits: Any, predicted: Any, actual: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__}._compute_ratio")


def _divide(a: Any, b: Any) -> np.ndarray:
    """a / b, and 0 where b is 0 (then a is 0 too)."""
    return np.asarray(a, np.float64) / np.maximum(b, 1e-300)


class Precision(_ByClass):
    """The share of the predictions of a class that are correct.

    >>> precision = Precision("none")
    >>> precision.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]))
    >>> precision.compute().round(3).tolist()
    [1.0, 0.667]
    """

    title = "precision"

    def _compute_ratio(self, hits: Any, predicted: Any, actual: Any) -> np.ndarray:
        return _divide(hits, predicted)


class Recall(_ByClass):
    """The share of the samples of a class that are predicted as it.

    >>> recall = Recall("none")
    >>> recall.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]))
    >>> recall.compute().tolist()
    [0.5, 1.0]
    """

    title = "recall"

    def _compute_ratio(self, hits: Any, predicted: Any, actual: Any) -> np.ndarray:
        return _divide(hits, actual)


class F1(_ByClass):
    """The harmonic mean of precision and recall; with `beta`, recall counting beta times as much.

    >>> f1 = F1("micro")
    >>> f1.update(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]))
    >>> f1.compute()
    0.75
    """

    title = "f1"

    def __init__(self, average: str | None = None, *, beta: float = 1.0, **options: Any) -> None:
        super().__init__(average, **options)
        if beta <= 0:
            raise ValueError(f"F1: beta must be positive, not {beta}")
        self.beta = beta

    def _compute_ratio(self, hits: Any, predicted: Any, actual: Any) -> np.ndarray:
        square = self.beta**2
        return _divide((1 + square) * hits, square * actual + predicted)
