"""A sampler that draws the frequent class more often still."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_GROUPS = 64  # more different weights than this are not those of classes
_MIN_IMBALANCE = 1.5  # between the most and the least frequent class
_MIN_ROWS_PER_WEIGHT = 8  # fewer are weights of samples, not of classes
_TOLERANCE = 1e-3  # of ratios of weights to counts that are equal


class SamplerFavoursFrequent(Rule):
    """Compares the weights of a WeightedRandomSampler with how many samples have each."""

    id = "sampler-favours-the-frequent"
    level = Level.LIKELY
    needs = ("on_loader",)
    title = (
        "samples are weighted by the count of their class, so the rare class is almost never drawn"
    )
    why = (
        "Weights against imbalance are 1 / count. Reported when the weights take few values, each "
        "proportional to the number of samples that have it. Not reported for classes of equal "
        "size or if every sample has its own weight."
    )
    fix = "weights = 1 / counts[labels]"
    broken = """
labels = (torch.arange(64) % 8 == 0).long()
counts = labels.bincount().double()
sampler = torch.utils.data.WeightedRandomSampler(counts[labels], 64)  # <-
loader = DataLoader(TensorDataset(x, labels), batch_size=16, sampler=sampler)
net = nn.Linear(8, 2)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "sampler = torch.utils.data.WeightedRandomSampler(counts[labels], 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(1 / counts[labels], 64)",
    })
    healthy = (edit(broken, {
        # Hard samples come more often, each by its own loss.
        "sampler = torch.utils.data.WeightedRandomSampler(counts[labels], 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(x.abs().sum(1), 64)",
    }), edit(broken, {
        # The square root of the inverse: between the natural shares and equal ones.
        "sampler = torch.utils.data.WeightedRandomSampler(counts[labels], 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(counts[labels] ** -0.5, 64)",
    }))

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        sampler: Any = getattr(loader, "sampler", None)
        if type(sampler).__name__ != "WeightedRandomSampler":
            return
        weights: np.ndarray = sampler.weights._array
        values, counts = np.unique(weights, return_counts=True)
        if not 2 <= len(values) <= _GROUPS or values[0] <= 0 \
                or max(counts) < _MIN_IMBALANCE * min(counts) \
                or len(values) * _MIN_ROWS_PER_WEIGHT > len(weights):
            return
        ratio = values / counts
        if np.ptp(ratio) < _TOLERANCE * ratio[0]:
            self.report("the weights of the samples grow with the counts of their classes",
                        self.session.built_at.get(sampler), spot,
                        counts=[int(n) for n in counts[:6]],
                        weights=[float(v) for v in values[:6]])
