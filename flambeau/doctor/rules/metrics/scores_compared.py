"""Scores that are compared with labels, where their positions are meant."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_TIMES = 2
_NUMBERS = 8  # that are compared at least
_NEGATIVE = 0.05  # of whole predictions that labels 0 and 1 can never be equal to
_SHARE = 0.9  # of them are no whole numbers


class ScoresCompared(Rule):
    """Looks at the numbers that are compared for equality."""

    id = "scores-compared-with-labels"
    level = Level.CERTAIN
    needs = ("on_compare",)
    title = "scores are compared with labels: a score never equals a class index"
    why = (
        "max(dim) returns the largest scores first and their indices second; probabilities must "
        "be rounded. The accuracy is 0 whatever the model does. Reported when nine in ten numbers "
        f"on one side are not integers and the other side has only integers, {_TIMES} times; "
        "likely if predictions are integers, some are negative, and the labels are 0 and 1, as "
        "for rounded logits."
    )
    fix = "prediction = scores.argmax(1)"
    broken = """
net = nn.Linear(8, 3)
with torch.no_grad():
    for xb, yb in zip(x.split(16), y.split(16)):
        prediction, _ = net(xb).max(1)  # <-
        correct = (prediction == yb).sum()
"""
    fixed = edit(broken, {
        "prediction, _ = net(xb).max(1)  # <-": "_, prediction = net(xb).max(1)",
    })
    healthy = ("""
# Which entries are the greatest of their row.
net = nn.Linear(8, 3)
with torch.no_grad():
    for xb in x.split(16):
        scores = net(xb)
        best = scores == scores.max(1, keepdim=True).values
""", """
# Probabilities that are rounded.
net = nn.Linear(8, 1)
labels = (t > 0).float()
with torch.no_grad():
    for xb, lb in zip(x.split(16), labels.split(16)):
        correct = (torch.sigmoid(net(xb)).round() == lb).sum()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[Spot | None, int] = {}
        self.best: list[tuple[np.ndarray, int, Spot | None]] = []  # scores, axis and line of max()

    def on_best(self, scores: Any, dim: int, indices: Any, spot: Spot | None) -> None:
        self.best = [*self.best[-3:], (scores._array, dim, spot)]

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        if not isinstance(b, Tensor):
            return
        for scores, labels in ((a._array, b._array), (b._array, a._array)):
            if scores.dtype.kind == "f" and scores.shape == labels.shape \
                    and scores.size >= _NUMBERS and _is_whole(labels).all() \
                    and 1 - _is_whole(scores).mean() >= _SHARE and np.ptp(labels) > 0:
                self._count(scores, spot)
            elif scores.dtype.kind == "f" and scores.shape == labels.shape \
                    and scores.size >= _NUMBERS and (scores < 0).mean() > _NEGATIVE \
                    and _is_whole(scores).all() and set(np.unique(labels)) == {0, 1}:
                self._count_negative(scores, spot)

    def _count_negative(self, scores: np.ndarray, spot: Spot | None) -> None:
        self.times[spot] = self.times.get(spot, 0) + 1
        if self.times[spot] >= _TIMES:
            self.report("negative predictions are compared with labels 0 and 1", spot,
                        level=Level.LIKELY, fix="prediction = (logits > 0).float()",
                        negative=f"{float((scores < 0).mean()):.0%}",
                        scores=[float(scores.min()), float(scores.max())])

    def _count(self, scores: np.ndarray, spot: Spot | None) -> None:
        self.times[spot] = self.times.get(spot, 0) + 1
        if self.times[spot] >= _TIMES:
            lines = [line for array, dim, line in self.best if dim < array.ndim
                    and array.size > scores.size and np.array_equal(array.max(dim), scores)]
            self.report("scores are compared with class indices", *lines[-1:], spot,
                        scores=[float(scores.min()), float(scores.max())])


def _is_whole(array: np.ndarray) -> np.ndarray:
    return np.asarray(array == np.round(array)) if array.dtype.kind == "f" else np.ones(
        array.shape, bool)
