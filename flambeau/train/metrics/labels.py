"""Read a network's output as classes: scores along an axis, a threshold, or labels.

The task follows from the shapes if they are unambiguous; otherwise pass it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .metric import as_array

TASKS = ("multiclass", "binary", "multilabel")


def find_class_axis(output: np.ndarray, target: np.ndarray) -> int | None:
    """The axis of `output` that holds scores of classes: 1 as in PyTorch's losses, or the last."""
    if output.ndim != target.ndim + 1 or output.ndim < 2:
        return None
    shape = output.shape
    if shape[:1] + shape[2:] == target.shape:
        return 1
    return output.ndim - 1 if shape[:-1] == target.shape else None


def check_task(task: str | None, who: str) -> None:
    """Raise for an unknown task."""
    if task is not None and task not in TASKS:
        raise ValueError(f"{who}: task must be one of {', '.join(TASKS)} or None, not {task!r}")


class Labels:
    """Reads batches as predicted and wanted labels.

    `task` None means: scores (n, c, ...) with targets (n, ...) are multi-class; floats of the
    targets' own shape (n,) or (n, 1, ...) are binary scores; integers are labels already.
    `threshold` is where a binary score turns into a 1: 0 for logits, 0.5 for probabilities.
    """

    def __init__(
        self, who: str, task: str | None, threshold: float, ignore_index: int | None
    ) -> None:
        check_task(task, who)
        self.who = who
        self.task = task
        self.threshold = threshold
        self.ignore_index = ignore_index

    def read(self, output: Any, target: Any) -> tuple[str, np.ndarray, np.ndarray, int]:
        """(task, predicted labels, wanted labels, number of classes or 0 where not known).

        Labels are flat for multi-class and binary, (n, labels) for multi-label.
        """
        scores, labels = as_array(output), as_array(target)
        task = self.task or self._determine_task(scores, labels)
        if task == "multiclass":
            predicted, labels, classes = self._as_classes(scores, labels)
        else:
            predicted, labels = self._threshold(scores, labels, task)
            classes = 2
        if task == "multilabel":
            # (n, labels, ...) -> (samples, labels)
            predicted, labels = _as_rows(predicted), _as_rows(labels)
        else:
            predicted, labels = predicted.ravel(), labels.ravel()
        if self.ignore_index is not None and task != "multilabel":
            retained = labels != self.ignore_index
            predicted, labels = predicted[retained], labels[retained]
        return task, predicted, labels, classes

    def _determine_task(self, scores: np.ndarray, labels: np.ndarray) -> str:
        if find_class_axis(scores, labels) is not None and scores.shape[1] != 1:
            return "multiclass"
        same = scores.shape == labels.shape
        if same and scores.dtype.kind in "iu":
            return "multiclass"
        if same and scores.dtype.kind == "b":
            return "binary"
        if _drop_singleton(scores) == _drop_singleton(labels) and scores.dtype.kind not in "iu":
            if scores.ndim < 2 or scores.shape[1] == 1:
                return "binary"
            raise ValueError(
                f"{self.who}: outputs and targets both have shape {scores.shape}; say "
                "task='multilabel' (each column a label of its own), task='multiclass' (targets "
                "are one-hot or probabilities) or task='binary' (each element a decision)"
            )
        raise self._describe_mismatch(scores, labels)

    def _describe_mismatch(self, scores: np.ndarray, labels: np.ndarray) -> ValueError:
        return ValueError(
            f"{self.who}: outputs of shape {scores.shape} ({scores.dtype}) do not fit targets of "
            f"shape {labels.shape} ({labels.dtype}); expected scores (n, classes, ...) with "
            "targets (n, ...), or both of one shape"
        )

    def _as_classes(
        self, scores: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        axis = find_class_axis(scores, labels)
        soft = scores.shape == labels.shape and scores.dtype.kind not in "iub"
        if axis is None and soft and scores.ndim >= 2:  # the targets are one-hot or probabilities
            return scores.argmax(1), labels.argmax(1), scores.shape[1]
        if axis is not None:
            return scores.argmax(axis), labels, scores.shape[axis]
        if scores.shape != labels.shape or scores.dtype.kind not in "iub":
            raise self._describe_mismatch(scores, labels)
        return scores, labels, 0

    def _threshold(
        self, scores: np.ndarray, labels: np.ndarray, task: str
    ) -> tuple[np.ndarray, np.ndarray]:
        if scores.shape != labels.shape:
            if _drop_singleton(scores) != _drop_singleton(labels) or task == "multilabel":
                raise self._describe_mismatch(scores, labels)
            scores = scores.reshape(labels.shape)  # (n, 1, ...) -> (n, ...)
        if labels.dtype.kind == "f":
            self._check_decisions(labels)
        predicted = scores if scores.dtype.kind in "iub" else scores > self.threshold
        return predicted, labels

    def _check_decisions(self, labels: np.ndarray) -> None:
        """That real targets are 0 or 1: otherwise nothing is ever right."""
        unexpected = labels[(labels != 0) & (labels != 1) & (labels != self.ignore_index)]
        if unexpected.size:
            raise ValueError(
                f"{self.who}: the targets are {unexpected.flat[0]:.4g} and the like, but classes "
                "are 0 or 1; for real numbers use 'mae', 'mse' or 'r2'"
            )


def _drop_singleton(array: np.ndarray) -> tuple[int, ...]:
    """The shape without an axis 1 of length 1."""
    shape = array.shape
    return shape[:1] + shape[2:] if len(shape) > 1 and shape[1] == 1 else shape


def _as_rows(labels: np.ndarray) -> np.ndarray:
    if labels.ndim < 2:
        return labels.reshape(1, -1)
    return np.moveaxis(labels, 1, -1).reshape(-1, labels.shape[1])
