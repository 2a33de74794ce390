"""Perplexity of a language model: the effective number of tokens it chooses between."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from .labels import find_class_axis
from .metric import Metric, Value, as_array

_MAX_EXPONENT = math.log(sys.float_info.max)


class Perplexity(Metric):
    """exp of the mean negative log-likelihood of the targets, over all tokens.

    Logits are (n, classes), (n, classes, ...) as for cross_entropy, or (..., classes). Targets have
    the shape of the logits without the classes; those equal to `ignore_index` are skipped.

    >>> perplexity = Perplexity()
    >>> perplexity.update(torch.zeros(2, 3, 8), torch.tensor([[0, 1, 2], [3, 4, 5]]))
    >>> round(perplexity.compute(), 6)
    8.0
    """

    states = ("loss", "count")
    higher_is_better = False

    def __init__(self, *, ignore_index: int | None = -100, name: str = "perplexity") -> None:
        self.ignore_index = ignore_index
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.loss = 0.0
        self.count = 0

    def update(self, output: Any, target: Any) -> None:
        """Add a batch of logits and its targets."""
        logits, labels = as_array(output), as_array(target)
        axis = find_class_axis(logits, labels)
        if axis is None:
            raise ValueError(
                f"Perplexity: logits of shape {logits.shape} do not fit targets of shape "
                f"{labels.shape}; expected (n, classes, ...) or (..., classes) with the rest"
            )
        logits = np.moveaxis(logits, axis, -1).reshape(-1, logits.shape[axis])  # (tokens, classes)
        labels = labels.ravel()
        if self.ignore_index is not None and (labels == self.ignore_index).any():
            retained = labels != self.ignore_index
            logits, labels = logits[retained], labels[retained]
        if not len(labels):
            return
        if logits.dtype.itemsize < 4:
            logits = logits.astype(np.float32)
        highest = logits.max(1, keepdims=True)
        total = np.log(np.exp(logits - highest).sum(1, dtype=np.float64)) + highest[:, 0]
        self.loss += float((total - logits[np.arange(len(labels)), labels]).sum())
        self.count += len(labels)

    def compute(self) -> Value:
        """Return the perplexity: NaN before the first token, inf if float64 overflows."""
        if not self.count:
            return self._get_undefined()
        mean = self.loss / self.count
        return math.exp(mean) if mean < _MAX_EXPONENT else math.inf
