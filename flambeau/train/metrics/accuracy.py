"""Accuracy: the share of correct predictions; TopK: the share with the class in the top k."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from .labels import Labels, find_class_axis
from .metric import Metric, Value, as_array


class Accuracy(Metric):
    """The share of correct predictions: multi-class, binary or multi-label.

    Scores (n, classes, ...) with targets (n, ...), or binary scores or labels of the targets' own
    shape. `threshold` is 0 for logits; give 0.5 for probabilities. A multi-label sample counts
    label by label, or with `exact=True` only as a whole. Raises ValueError if the shapes do not
    fit or are ambiguous: then pass `task`.

    >>> accuracy = Accuracy()
    >>> accuracy.update(torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([1, 0, 0]))
    >>> round(accuracy.compute(), 3)
    0.667
    """

    states = ("correct", "total")
    higher_is_better = True

    def __init__(
        self,
        task: str | None = None,
        *,
        threshold: float = 0.0,
        exact: bool = False,
        ignore_index: int | None = None,
        name: str = "accuracy",
    ) -> None:
        self.name = name
        self.exact = exact
        self._labels = Labels(type(self).__name__, task, threshold, ignore_index)
        self._plain = task in (None, "multiclass") and ignore_index is None
        self._lowest, self._highest = 0.0, 0.0
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.correct = 0
        self.total = 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores or labels and its targets."""
        scores, labels = as_array(output), as_array(target)
        shape = scores.shape
        # Fast path for the usual case.
        if self._plain and len(shape) == 2 and shape[:1] == labels.shape and shape[1] > 1:
            self.correct += int(np.count_nonzero(scores.argmax(1) == labels))
            self.total += shape[0]
            return
        task, predicted, labels, _ = self._labels.read(scores, labels)
        right = predicted == labels
        if task != "multiclass":
            self._watch(scores)
        if task == "multilabel" and self.exact:
            right = right.all(1)
        self.correct += int(np.count_nonzero(right))
        self.total += right.size

    def compute(self) -> Value:
        """The share, from 0 to 1; NaN before the first batch."""
        if self._highest > 0.0 and self._lowest >= 0.0 and self._highest <= 1.0:
            self._highest = 0.0  # warn once
            warn(
                f"{self.name}: all scores lie between 0 and 1 and the threshold is 0, so each "
                "counts as a 1; for probabilities pass Accuracy(threshold=0.5)",
            )
        return self.correct / self.total if self.total else self._get_undefined()

    def _watch(self, scores: np.ndarray) -> None:
        """Note the range of binary scores: probabilities compared with 0 are a mistake."""
        if self._labels.threshold == 0.0 and scores.size and scores.dtype.kind not in "iub":
            self._lowest = min(self._lowest, float(scores.min()))
            self._highest = max(self._highest, float(scores.max()))


class TopK(Metric):
    """The share of samples whose class is among the k highest scores.

    Scores (n, classes, ...), targets (n, ...). Among equal scores the lower class comes first.

    >>> top2 = TopK(2)
    >>> top2.update(torch.tensor([[0.1, 0.5, 0.4], [0.7, 0.2, 0.1]]), torch.tensor([2, 2]))
    >>> top2.compute()
    0.5
    """

    states = ("correct", "total")
    higher_is_better = True

    def __init__(
        self, k: int = 5, *, ignore_index: int | None = None, name: str | None = None
    ) -> None:
        if k < 1:
            raise ValueError(f"TopK: k must be at least 1, not {k}")
        self.k = k
        self.ignore_index = ignore_index
        self.name = name or f"top{k}"
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.correct = 0
        self.total = 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of scores and its targets."""
        scores, labels = as_array(output), as_array(target)
        axis = find_class_axis(scores, labels)
        if axis is None:
            raise ValueError(
                f"TopK: outputs of shape {scores.shape} do not fit targets of shape "
                f"{labels.shape}; expected scores (n, classes, ...) with targets (n, ...)"
            )
        if self.k > scores.shape[axis]:
            raise ValueError(f"TopK: top{self.k} of {scores.shape[axis]} classes is always 1")
        scores = np.moveaxis(scores, axis, -1).reshape(-1, scores.shape[axis])  # (samples, classes)
        labels = labels.ravel()
        if self.ignore_index is not None:
            retained = labels != self.ignore_index
            scores, labels = scores[retained], labels[retained]
        # Counting the classes ranked before it is cheaper than sorting, and exact about ties.
        target_score = scores[np.arange(len(labels)), labels][:, None]
        earlier = np.arange(scores.shape[1]) < labels[:, None]
        rank = ((scores > target_score) | ((scores == target_score) & earlier)).sum(1)
        is_number = ~np.isnan(target_score[:, 0])
        self.correct += int(np.count_nonzero((rank < self.k) & is_number))
        self.total += len(labels)

    def compute(self) -> Value:
        """The share, from 0 to 1; NaN before the first batch."""
        return self.correct / self.total if self.total else self._get_undefined()
