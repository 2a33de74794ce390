"""Predictions and labels that broadcast when they are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..losses.loss_broadcast import match_column_and_row
from ..rule import Rule


class ComparisonBroadcast(Rule):
    """Looks at the shapes of tensors that are compared for equality."""

    id = "comparison-broadcast"
    level = Level.LIKELY
    needs = ("on_compare",)
    title = "predictions (N, 1) and labels (N,) are compared as (N, N): the accuracy is wrong"
    why = (
        "The count of equal pairs is divided by the number of samples. Not reported if a tensor "
        "is compared with itself, as for masks of pairs."
    )
    fix = "give both the same shape: prediction.squeeze(1)"
    broken = """
net = nn.Linear(8, 1)
labels = (t[:, 0] > 0).long()
with torch.no_grad():
    prediction = (torch.sigmoid(net(x)) > 0.5).long()
    accuracy = (prediction == labels).sum() / 64  # <-
"""
    fixed = edit(broken, {
        "accuracy = (prediction == labels).sum() / 64  # <-":
            "accuracy = (prediction.squeeze(1) == labels).sum() / 64",
    })
    healthy = ("""
# Which pairs have the same label.
same = y.unsqueeze(1) == y
""", """
# Classes along a new axis.
one_hot = y.unsqueeze(1) == torch.arange(3)
""")

    def on_compare(self, a: Any, b: Any, result: Any, spot: Spot | None) -> None:
        n = match_column_and_row(a, b)
        if n and not np.shares_memory(a._array, b._array):
            self.report(f"{a._array.shape} == {b._array.shape} compares all pairs", spot,
                        samples=n, pairs=n * n)
