"""Regression metrics: mean squared error, mean absolute error, and R2."""

from __future__ import annotations

from typing import Any

import numpy as np

from .metric import Metric, Value, as_array, widen


def pair_rows(who: str, output: Any, target: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = as_array(output), as_array(target)
    if a.shape != b.shape:
        # Broadcasting (n, 1) with (n,) to (n, n) is the classic silent mistake.
        if a.size == b.size and a.ndim == b.ndim + 1 and a.shape[-1] == 1:
            a = a.reshape(b.shape)
        elif a.size == b.size and b.ndim == a.ndim + 1 and b.shape[-1] == 1:
            b = b.reshape(a.shape)
        else:
            raise ValueError(
                f"{who}: outputs of shape {a.shape} do not fit targets of shape {b.shape}"
            )
    return widen(a), widen(b)


class MSE(Metric):
    """The mean squared error over all elements; `squared=False` gives its root.

    >>> mse = MSE()
    >>> mse.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    >>> mse.compute()
    2.5
    """

    states = ("error", "count")
    higher_is_better = False

    def __init__(self, *, squared: bool = True, name: str | None = None) -> None:
        self.squared = squared
        self.name = name or ("mse" if squared else "rmse")
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.error = 0.0
        self.count = 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of predictions and targets of one shape."""
        a, b = pair_rows(type(self).__name__, output, target)
        difference = (a - b).ravel()
        self.error += float(difference.dot(difference))
        self.count += difference.size

    def compute(self) -> Value:
        """The mean; NaN before the first batch."""
        if not self.count:
            return self._get_undefined()
        mean = self.error / self.count
        return mean if self.squared else mean**0.5


class MAE(Metric):
    """The mean absolute error over all elements.

    >>> mae = MAE()
    >>> mae.update(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0]))
    >>> mae.compute()
    1.5
    """

    states = ("error", "count")
    higher_is_better = False

    def __init__(self, *, name: str = "mae") -> None:
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.error = 0.0
        self.count = 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of predictions and targets of one shape."""
        a, b = pair_rows(type(self).__name__, output, target)
        self.error += float(np.abs(a - b).sum())
        self.count += a.size

    def compute(self) -> Value:
        """The mean; NaN before the first batch."""
        return self.error / self.count if self.count else self._get_undefined()


class R2(Metric):
    """The explained share of the targets' variance: 1 - residual / total.

    Predictions and targets are (n,), or (n, outputs), which is averaged over outputs unless
    `average="none"`. 1 is perfect, 0 as good as predicting the mean. The variance is updated per
    batch (Chan, Golub and LeVeque 1979), so large offsets lose no digits.

    >>> r2 = R2()
    >>> r2.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(r2.compute(), 4)
    0.9486
    """

    states = ("count", "mean", "spread", "residual")
    higher_is_better = True

    def __init__(self, *, average: str = "mean", name: str = "r2") -> None:
        if average not in ("mean", "none"):
            raise ValueError(f"R2: average must be mean or none, not {average!r}")
        self.average = average
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.count = 0
        self.mean: Any = 0.0
        self.spread: Any = 0.0
        self.residual: Any = 0.0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of predictions and targets of one shape."""
        a, b = pair_rows("R2", output, target)
        if not len(b):
            return
        rows = (len(b), -1)
        a, b = a.reshape(rows), b.reshape(rows)  # (n, outputs)
        mean = b.mean(0)
        self._join(len(b), mean, ((b - mean) ** 2).sum(0), ((a - b) ** 2).sum(0))

    def merge(self, other: Any) -> R2:
        """Add another metric's sums, and return self."""
        self._join(other.count, other.mean, other.spread, other.residual)
        return self

    def _join(self, count: int, mean: Any, spread: Any, residual: Any) -> None:
        if not count:
            return
        total = self.count + count
        gap = mean - self.mean
        self.spread = self.spread + spread + gap**2 * (self.count * count / total)
        self.mean = self.mean + gap * (count / total)
        self.residual = self.residual + residual
        self.count = total

    def compute(self) -> Value:
        """Return R2: NaN for fewer than two samples; for constant targets, as in scikit-learn, 0
        (or 1 if the residual is 0)."""
        if self.count < 2:
            return self._get_undefined()
        flat = self.spread == 0
        ratio = self.residual / np.where(flat, 1.0, self.spread)
        result = np.where(flat, np.where(self.residual == 0, 1.0, 0.0), 1.0 - ratio)
        return result if self.average == "none" else float(result.mean())
