"""The confusion matrix: how often each class was predicted as each other class."""

from __future__ import annotations

from typing import Any

import numpy as np

from .labels import Labels
from .metric import Metric, Value, add_values

NORMALIZED = (None, "true", "pred", "all")


def count_confusion(predicted: np.ndarray, wanted: np.ndarray, classes: int) -> np.ndarray:
    """Count into a matrix (classes, classes): rows are target classes, columns predicted ones."""
    predicted, wanted = _convert_to_integers(predicted), _convert_to_integers(wanted)
    if predicted.size:
        lowest = min(int(predicted.min()), int(wanted.min()))
        highest = max(int(predicted.max()), int(wanted.max()))
        if lowest < 0:
            raise ValueError(
                f"confusion: a label is {lowest}; labels start at 0 (exclude labels "
                "with ignore_index)"
            )
        if classes and highest >= classes:
            raise ValueError(f"confusion: a label is {highest}, but there are {classes} classes")
        classes = classes or highest + 1
    counts = np.bincount(wanted * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes)


def _convert_to_integers(labels: np.ndarray) -> np.ndarray:
    return labels if labels.dtype == np.int64 else labels.astype(np.int64)


class ConfusionMatrix(Metric):
    """Counts (classes, classes): rows are target classes, columns predicted classes.

    `normalize` divides by the target class ("true"), the predicted class ("pred") or all ("all").
    The number of classes is that of the scores, or follows from the highest label seen.

    >>> matrix = ConfusionMatrix()
    >>> matrix.update(torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1, 1]))
    >>> matrix.compute().tolist()
    [[1, 0], [1, 1]]
    """

    states = ("counts",)

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        normalize: str | None = None,
        task: str | None = None,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str = "confusion_matrix",
    ) -> None:
        if normalize not in NORMALIZED:
            raise ValueError(f"ConfusionMatrix: normalize must be one of {NORMALIZED}, not "
                             f"{normalize}")
        if task == "multilabel":
            raise ValueError("ConfusionMatrix: multi-label samples have several classes; use "
                             "one matrix per label")
        self.name = name
        self.num_classes = num_classes
        self.normalize = normalize
        self._labels = Labels(type(self).__name__, task, threshold, ignore_index)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        classes = self.num_classes or 0
        self.counts = np.zeros((classes, classes), np.int64)

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores or labels and its targets."""
        _, predicted, labels, classes = self._labels.read(output, target)
        if self.num_classes is not None:
            classes = self.num_classes
        self.counts = add_values(self.counts, count_confusion(predicted, labels, classes))

    def compute(self) -> Value:
        """The matrix: counts, or shares in float64 (0 where nothing was counted)."""
        if self.normalize is None:
            return self.counts.copy()
        axis = {"true": 1, "pred": 0, "all": None}[self.normalize]
        total = self.counts.sum(axis, keepdims=True)
        return self.counts / np.maximum(total, 1)
