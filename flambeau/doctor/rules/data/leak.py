"""Samples that are trained on and evaluated on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward, ModuleCall
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_ROWS = 1 << 14  # that are remembered of a model
_LOOKED = 1024  # of a batch


def row_hashes(array: np.ndarray) -> list[int]:
    """A number for each sample; none for samples that are constant or of few different values."""
    rows = array.reshape(len(array), -1)
    if rows.dtype.kind != "f" or rows.shape[1] < 3:
        return []
    rows = rows[:_LOOKED]
    head = np.sort(rows[:, :16], axis=1)
    several = (np.diff(head, axis=1) != 0).sum(1) > 1  # three different values or more
    fractions = (head != np.round(head)).any(1)
    return [hash(row.tobytes()) for row in rows[several & fractions]]


class Leak(Rule):
    """Remembers samples that a model was trained on, and looks for them in its evaluations."""

    id = "train-test-leak"
    level = Level.LIKELY
    needs = ("on_call", "on_backward", "evaluation")
    title = "some samples of the evaluation were trained on"
    why = (
        "Told when at least 5 % and less than all of the samples that a model is evaluated on, "
        "and 16 or more, were in its training batches before, to the last bit. Silent where all of "
        "them were (an evaluation of the training data), where not all training batches were seen, "
        "and for integers and one-hot rows."
    )
    fix = "split the samples before training, each into one part only"
    broken = """
train, test = x[:48], x[28:]
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(train), y[:48]).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(test).argmax(1) == y[28:]).float().mean()  # <-
"""
    fixed = edit(broken, {
        "train, test = x[:48], x[28:]": "train, test = x[:48], x[48:]",
        "accuracy = (net(test).argmax(1) == y[28:]).float().mean()  # <-":
            "accuracy = (net(test).argmax(1) == y[48:]).float().mean()",
    })
    healthy = ("""
# The accuracy on the training data.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(x).argmax(1) == y).float().mean()
""", """
# Cross-validation: each fold has a model of its own.
for fold in range(4):
    net = nn.Linear(8, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    test = torch.arange(64) % 4 == fold
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x[~test]), y[~test]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        accuracy = (net(x[test]).argmax(1) == y[test]).float().mean()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.trained: dict[int, tuple[Any, set[int]]] = {}
        self.pending: list[tuple[Any, list[int]]] = []
        self.looked: dict[int, list[int]] = {}  # by model: samples evaluated, of them trained on
        self.partial: set[int] = set()  # models of which not all training samples are known

    def on_call(self, call: ModuleCall) -> None:
        if not call.tensors or call.tensors[0]._array.ndim < 2:
            return
        array = call.tensors[0]._array
        key = id(call.module)
        if call.recorded and call.module.training:
            known = self.trained.get(key)
            if len(array) > _LOOKED or len(self.pending) >= 8 or known and len(known[1]) >= _ROWS:
                self.partial.add(key)
            if key not in self.partial:
                self.pending.append((call.module, row_hashes(array)))
        elif not call.recorded and not call.module.training and key in self.trained \
                and key not in self.partial and not self.session.rested:
            seen = self.trained[key][1]
            hashes = row_hashes(array)
            counts = self.looked.setdefault(key, [0, 0])
            counts[0] += len(hashes)
            counts[1] += sum(h in seen for h in hashes)
            self._judge(call, counts)

    def on_backward(self, backward: Backward) -> None:
        for module, hashes in self.pending:
            self.trained.setdefault(id(module), (module, set()))[1].update(hashes)
        self.pending.clear()

    on_gradient = on_backward

    def _judge(self, call: ModuleCall, counts: list[int]) -> None:
        samples, known = counts
        if known >= 16 and 0.05 * samples <= known < 0.98 * samples:
            self.report("samples that the model is evaluated on were in its training batches",
                        call.spot, samples=samples, **{"trained on": known})
