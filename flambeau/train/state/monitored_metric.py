"""Monitored metrics: their values, and whether higher or lower is better."""

from __future__ import annotations

import math
from typing import Any

from ..events.suggestions import suggest
from .formatting import list_scalars, stage_of

# Words in a metric's name that imply which direction is better.
_LOWER = ("loss", "error", "mse", "rmse", "mae", "perplexity", "nll", "entropy")
_HIGHER = ("accuracy", "acc", "f1", "precision", "recall", "auroc", "auc", "score", "r2", "top")


def guess_higher_is_better(name: str) -> bool | None:
    """Whether higher is better, by a metric's name; None if the name does not tell.

    >>> [guess_higher_is_better(name) for name in ("valid_loss", "accuracy", "size")]
    [False, True, None]
    """
    lowercase = name.lower()
    if any(word in lowercase for word in _LOWER):
        return False
    return True if any(word in lowercase for word in _HIGHER) else None


def is_higher_better(run: Any, name: str) -> bool | None:
    """Whether higher is better: as the run's metric declares, else by its name."""
    metrics = getattr(run, "metrics", {})
    _, metric = stage_of(name)
    for candidate in (name, metric, metric.partition("/")[0]):
        if candidate in metrics:
            declared = getattr(metrics[candidate], "higher_is_better", None)
            if declared is not None:
                return bool(declared)
    return guess_higher_is_better(name)


class Monitor:
    """Read the metric `name` at the end of epochs, and compare.

    `mode` is "min" or "max"; None asks the metric itself (`is_higher_better`), then its name.
    Raises ValueError, at the first comparison, if neither says; MissingMetric if the metric does
    not exist.
    """

    def __init__(self, name: str, mode: str | None = None, min_delta: float = 0.0) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode must be 'min', 'max' or "
                             f"None{suggest(str(mode), ('min', 'max'))}")
        if min_delta < 0:
            raise ValueError(f"min_delta must not be negative, got {min_delta}")
        self.name, self.mode, self.min_delta = name, mode, float(min_delta)

    def higher(self, run: Any) -> bool:
        """Whether higher is better."""
        if self.mode is not None:
            return self.mode == "max"
        declared = is_higher_better(run, self.name)
        if declared is None:
            raise ValueError(
                f"whether a higher '{self.name}' is better is not known: say mode='max' or 'min'"
            )
        return declared

    def value(self, run: Any) -> float | None:
        """Return this epoch's value, or None if the epoch was cut short."""
        if not run.epoch_over or (run.ending is not None and self.name not in run.state.metrics):
            return None
        scalars = list_scalars({self.name: run.metric(self.name)})
        if self.name not in scalars:
            raise ValueError(f"'{self.name}' is not a single number: it cannot be monitored")
        return scalars[self.name]

    def better(self, run: Any, value: float, best: float | None) -> bool:
        """Whether `value` is better than `best` by more than `min_delta`; NaN never is."""
        is_higher_better = self.higher(run)
        if math.isnan(value):
            return False
        if best is None or math.isnan(best):
            return True
        return value > best + self.min_delta if is_higher_better else value < best - self.min_delta
