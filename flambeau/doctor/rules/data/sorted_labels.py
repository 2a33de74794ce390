"""Batches of one class each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, LossCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_BATCHES = 8
_MOST_RISING = 0.85  # share of the batches that go on in order
_MOST_PURE = 0.75  # share of the batches of a single class


class SortedLabels(Rule):
    """Looks at the labels that losses are given, batch after batch."""

    id = "labels-in-order"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "the data is sorted by class: batches hold hardly more than one class"
    why = (
        "The network learns the current class and forgets the others. Reported when three "
        f"quarters of at least {_BATCHES} batches hold a single class, there are several classes "
        "in all, and each forms one run of batches. Not reported for batches of fewer than 4 "
        "samples."
    )
    fix = "shuffle=True in the DataLoader"
    broken = """
labels = torch.arange(4).repeat_interleave(24)
data = TensorDataset(torch.randn(96, 8), labels)
loader = DataLoader(data, batch_size=8)  # <-
net = nn.Linear(8, 4)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for xb, yb in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(xb), yb).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loader = DataLoader(data, batch_size=8)  # <-":
            "loader = DataLoader(data, batch_size=8, shuffle=True)",
    })
    healthy = ("""
# A rare class: most batches have none of it.
net = nn.Linear(8, 2)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(12):
    labels = torch.zeros(16, dtype=torch.long)
    labels[0] = int(step % 4 == 0)
    optimizer.zero_grad()
    F.cross_entropy(net(x[:16]), labels).backward()
    optimizer.step()
""", """
# A GAN: real ones first, then fakes, in turn.
net = nn.Linear(8, 2)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    F.cross_entropy(net(x), torch.ones(64, dtype=torch.long)).backward()
    F.cross_entropy(net(x - 1), torch.zeros(64, dtype=torch.long)).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.classes: list[int] = []  # of each batch; -1 where it has several
        self.rising = 0  # batches whose labels go on where the one before ended, in order
        self.last = -1
        self.loader: Spot | None = None
        self.pending: list[tuple[LossCall, np.ndarray]] = []

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        self.spots = {**getattr(self, "spots", {}), id(loader): spot}

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        self.loader = getattr(self, "spots", {}).get(id(self.session.loaders[iterator]))

    def on_loss(self, call: LossCall) -> None:
        target = call.target
        if not call.recorded or not isinstance(target, Tensor) or target._array.dtype.kind \
                not in "iu" or target._array.ndim != 1 or target._array.size < 4:
            return
        if call.name in ("cross_entropy", "nll_loss") and (call.classes or 0) > 1:
            self.pending.append((call, target._array))

    def on_backward(self, backward: Backward) -> None:
        pending, self.pending = self.pending, []
        if len(pending) != 1:
            return
        call, labels = pending[0]
        first = int(labels[0])
        self.classes.append(first if bool((labels == first).all()) else -1)
        has_several = len(np.unique(labels)) > 1
        self.rising += bool((np.diff(labels) >= 0).all()
                            and (first >= self.last or not has_several))
        self.last = int(labels[-1])
        if len(self.classes) < _BATCHES:
            return
        if self.rising >= _MOST_RISING * len(self.classes) and -1 in self.classes \
                and len({*self.classes} - {-1}) > 1:
            self.report("the labels of the batches are in order", self.loader, call.spot,
                        **{"batches in order": f"{self.rising} of {len(self.classes)}"})
            return
        pure = [c for c in self.classes if c >= 0]
        distinct = set(pure)
        changes = sum(a != b for a, b in zip(pure, pure[1:], strict=False))
        if len(pure) >= _MOST_PURE * len(self.classes) and len(distinct) > 1 \
                and changes < len(pure) / 2:
            self.report("most batches hold a single class, and the classes form runs",
                        self.loader, call.spot,
                        **{"batches of one class": f"{len(pure)} of {len(self.classes)}",
                           "classes": len(distinct), "runs": changes + 1})

    on_gradient = on_backward
