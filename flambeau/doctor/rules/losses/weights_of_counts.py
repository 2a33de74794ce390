"""Class weights that favor the class that is frequent already."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....native.foundation.user_frames import find_user_frame
from ...events import LossCall
from ...finding import Level, Place
from ...programs import edit
from ...source import find_assignment
from ..rule import Rule

_TARGETS = 192  # to be seen before shares are believed
_MIN_RATIO, _MAX_FALL = 1.5, 0.67  # of weights: at least, and at most its inverse


class WeightsOfCounts(Rule):
    """Compares the weights of a loss with how often each class occurs."""

    id = "weights-favour-the-frequent"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "class weights grow with the class counts: the rare class is ignored even more"
    why = (
        "Weights against imbalance are inversely proportional to the counts; pos_weight is "
        "negatives / positives. Reported when, for every pair of classes of which one is three "
        "times as frequent, the frequent one weighs at least 1.5 times as much; likewise for "
        f"pos_weight. Judged after {_TARGETS} targets."
    )
    fix = "weight = counts.sum() / counts; pos_weight = negatives / positives"
    broken = """
net = nn.Linear(8, 2)
labels = (torch.arange(64) % 8 == 0).long()
counts = labels.bincount().float()
criterion = nn.CrossEntropyLoss(weight=counts / counts.sum())  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = criterion(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "criterion = nn.CrossEntropyLoss(weight=counts / counts.sum())  # <-":
            "criterion = nn.CrossEntropyLoss(weight=counts.sum() / counts)",
    })
    healthy = ("""
# Equal weights.
net = nn.Linear(8, 2)
labels = (torch.arange(64) % 8 == 0).long()
criterion = nn.CrossEntropyLoss(weight=torch.ones(2))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    criterion(net(x), labels).backward()
    optimizer.step()
""", """
# One class of padding, frequent and weightless; the others as they come.
net = nn.Linear(8, 3)
labels = torch.where(torch.arange(64) % 8 < 6, 0, 1 + torch.arange(64) % 2)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 1.0]))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    criterion(net(x), labels).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.counts: dict[int, tuple[Any, np.ndarray]] = {}  # by weight

    def on_loss(self, call: LossCall) -> None:
        target = getattr(call.target, "_array", None)
        if target is None or not call.recorded or not target.size:
            return
        if call.name in ("cross_entropy", "nll_loss") and target.dtype.kind == "i":
            self._check_classes(call, target)
        elif call.name == "binary_cross_entropy_with_logits":
            self._check_binary(call, target)

    def _check_classes(self, call: LossCall, target: np.ndarray) -> None:
        weight = getattr(call.argument("weight"), "_array", None)
        if weight is None or target.max() >= len(weight):
            return
        counts = self._add(call.argument("weight"),
                           np.bincount(target[target >= 0], minlength=len(weight)))
        occurs = counts > 0
        counts, weight = counts[occurs], weight[occurs]
        if counts.sum() < _TARGETS or not weight.all():
            return
        frequent = counts[:, None] >= 3 * counts[None]
        heavier = weight[:, None] / weight[None]
        if frequent.any() and (heavier[frequent] >= _MIN_RATIO).all():
            self._tell(call, counts, weight)

    def _check_binary(self, call: LossCall, target: np.ndarray) -> None:
        weight = getattr(call.argument("pos_weight"), "_array", None)
        if weight is None or weight.size != 1 or not set(np.unique(target)) <= {0.0, 1.0}:
            return
        counts = self._add(call.argument("pos_weight"),
                           np.array([(target == 0).sum(), (target == 1).sum()]))
        factor = float(weight.reshape(-1)[0])
        if counts.sum() < _TARGETS or not counts.all():
            return
        ratio = counts[0] / counts[1]
        if (ratio > 3 and factor < _MAX_FALL) or (ratio < 1 / 3 and factor > _MIN_RATIO):
            self._tell(call, counts, np.array([1.0, factor]))

    def _add(self, weight: Any, counts: np.ndarray) -> np.ndarray:
        _, total = self.counts.get(id(weight), (weight, np.zeros_like(counts)))
        self.counts[id(weight)] = weight, total + counts
        return total + counts

    def _find_weight_line(self, call: LossCall) -> Place | None:
        """Return the line that assigned the weights."""
        weight = call.argument("weight")
        line = find_assignment(call.argument("pos_weight") if weight is None else weight,
                               find_user_frame(1))
        return Place(*line) if line else None

    def _tell(self, call: LossCall, counts: np.ndarray, weight: np.ndarray) -> None:
        self.report("the weights favor the frequent classes",
                    self._find_weight_line(call), *self.loss_constructor(call), call.spot,
                    counts=[int(c) for c in counts[:6]], weights=[float(w) for w in weight[:6]])
