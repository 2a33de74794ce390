"""Agreement beyond chance, from the confusion matrix: Cohen's kappa and Matthews' correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .confusion import ConfusionMatrix
from .metric import Metric, Value

_WEIGHTS = (None, "linear", "quadratic")


class OfConfusion(Metric):
    """A number worked out from a confusion matrix."""

    states = ("counts",)
    higher_is_better = True

    def __init__(self, *, task: str | None, threshold: float, ignore_index: int | None,
                 name: str) -> None:
        self.name = name
        self._matrix = ConfusionMatrix(task=task, threshold=threshold, ignore_index=ignore_index)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.counts = np.zeros((0, 0), np.int64)

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores or labels and its targets."""
        self._matrix.counts = self.counts
        self._matrix.update(output, target)
        self.counts = self._matrix.counts


class CohenKappa(OfConfusion):
    """Cohen's kappa: 1 for perfect agreement, 0 for agreement by chance.

    `weights` "linear" or "quadratic" counts a confusion of distant classes as worse (Cohen 1968).

    >>> kappa = CohenKappa()
    >>> kappa.update(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    >>> kappa.compute()
    0.5
    """

    def __init__(
        self, weights: str | None = None, *, task: str | None = None, threshold: float = 0.0,
        ignore_index: int | None = None, name: str = "kappa",
    ) -> None:
        if weights not in _WEIGHTS:
            raise ValueError(f"CohenKappa: weights must be one of {_WEIGHTS}, not {weights!r}")
        self.weights = weights
        super().__init__(task=task, threshold=threshold, ignore_index=ignore_index, name=name)

    def compute(self) -> Value:
        """Kappa; NaN before the first batch, and if there is only one class."""
        total = self.counts.sum()
        if not total:
            return self._get_undefined()
        expected = np.outer(self.counts.sum(1), self.counts.sum(0)) / total
        classes = np.arange(len(self.counts))
        distance = np.abs(classes[:, None] - classes)
        penalty = {None: distance != 0, "linear": distance, "quadratic": distance**2}[self.weights]
        chance = float((penalty * expected).sum())
        return 1 - float((penalty * self.counts).sum()) / chance if chance else float("nan")


class MatthewsCorrelation(OfConfusion):
    """Matthews' correlation coefficient, for any number of classes (Gorodkin 2004).

    >>> mcc = MatthewsCorrelation()
    >>> mcc.update(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    >>> round(mcc.compute(), 4)
    0.5774
    """

    def __init__(
        self, *, task: str | None = None, threshold: float = 0.0, ignore_index: int | None = None,
        name: str = "mcc",
    ) -> None:
        super().__init__(task=task, threshold=threshold, ignore_index=ignore_index, name=name)

    def compute(self) -> Value:
        """From -1 to 1; 0 where all predictions or all targets are of one class."""
        total = float(self.counts.sum())
        if not total:
            return self._get_undefined()
        actual, predicted = self.counts.sum(1, dtype=float), self.counts.sum(0, dtype=float)
        covariance = float(np.trace(self.counts) * total - actual.dot(predicted))
        scale = (total**2 - predicted.dot(predicted)) * (total**2 - actual.dot(actual))
        return covariance / float(np.sqrt(scale)) if scale else 0.0
