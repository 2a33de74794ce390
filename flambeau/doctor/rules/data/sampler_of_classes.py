"""A sampler that was given a weight for each class instead of one for each sample."""

from __future__ import annotations

from typing import Any

from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MIN_RATIO = 10  # of samples to weights


class SamplerOfClasses(Rule):
    """Compares the number of weights of a WeightedRandomSampler with that of the samples."""

    id = "sampler-weights-are-of-classes"
    level = Level.LIKELY
    needs = ("on_loader",)
    title = (
        "WeightedRandomSampler has fewer weights than there are samples: most samples are never "
        "drawn"
    )
    why = (
        "Weight i belongs to sample i: with two weights, only the first two samples are drawn. "
        "Reported when more than nine in ten samples have no weight."
    )
    fix = "weights[labels]: one weight per sample"
    broken = """
labels = (torch.arange(64) % 8 == 0).long()
weights = 1 / labels.bincount().double()
sampler = torch.utils.data.WeightedRandomSampler(weights, 64)  # <-
loader = DataLoader(TensorDataset(x, labels), batch_size=16, sampler=sampler)
net = nn.Linear(8, 2)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "sampler = torch.utils.data.WeightedRandomSampler(weights, 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(weights[labels], 64)",
    })
    healthy = (edit(broken, {
        # Few samples, each drawn many times.
        "sampler = torch.utils.data.WeightedRandomSampler(weights, 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(weights, 64)\nx, labels = x[:2], "
            "labels[:2]",
    }), edit(broken, {
        # A validation part at the end that is never drawn.
        "sampler = torch.utils.data.WeightedRandomSampler(weights, 64)  # <-":
            "sampler = torch.utils.data.WeightedRandomSampler(weights[labels[:48]], 48)",
    }))

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        sampler: Any = getattr(loader, "sampler", None)
        if type(sampler).__name__ != "WeightedRandomSampler":
            return
        weights, samples = len(sampler.weights), len(loader.dataset)
        if weights * _MIN_RATIO < samples:
            self.report(f"the sampler has {weights} weights for {samples} samples: only the first "
                        f"{weights} are drawn", self.session.built_at.get(sampler), spot,
                        weights=weights, samples=samples)
