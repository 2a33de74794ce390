"""Correlation of predictions with targets: Pearson's of values, Spearman's of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .auroc import compute_ranks
from .metric import Metric, Value
from .regression import pair_rows


def correlate(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation; NaN where either is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt(a.dot(a) * b.dot(b)))
    return float(a.dot(b)) / scale if scale else float("nan")


class _Correlation(Metric):
    """Keeps all outputs and targets until `reset`."""

    states = ("outputs", "targets")
    higher_is_better = True
    costly = True

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name or type(self).__name__.lower()
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.outputs: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of predictions and targets of one shape."""
        output, target = pair_rows(type(self).__name__, output, target)
        self.outputs.append(output.ravel().copy())
        self.targets.append(target.ravel().copy())

    def compute(self) -> Value:
        """The correlation, from -1 to 1; NaN before the first batch, and for constant values."""
        if not self.outputs:
            return self._get_undefined()
        return self._correlate(np.concatenate(self.outputs), np.concatenate(self.targets))

    def _correlate(self, output: np.ndarray, target: np.ndarray) -> float:
        raise NotImplementedError


class Pearson(_Correlation):
    """Pearson's correlation coefficient of all elements.

    >>> pearson = Pearson()
    >>> pearson.update(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.0]))
    >>> pearson.compute()
    1.0
    """

    def _correlate(self, output: np.ndarray, target: np.ndarray) -> float:
        return correlate(output, target)


class Spearman(_Correlation):
    """Spearman's rank correlation: Pearson's of the ranks, equal values sharing their mean rank.

    >>> spearman = Spearman()
    >>> spearman.update(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([2.0, 4.0, 6.0]))
    >>> spearman.compute()
    1.0
    """

    def _correlate(self, output: np.ndarray, target: np.ndarray) -> float:
        return correlate(compute_ranks(output), compute_ranks(target))
