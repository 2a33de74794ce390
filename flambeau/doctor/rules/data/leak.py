"""Samples that are trained on and evaluated on."""

from __future__ import annotations

import weakref
from typing import Any

from ....native.foundation.user_frames import find_user_frame, is_internal
from ...events import Backward, ModuleCall
from ...finding import Level, Place
from ...places import Spot
from ...programs import edit
from ...samples import LOOKED
from ...source import find_assignment
from ..rule import Rule

_ROWS = 1 << 14  # that are remembered of a model
_MAX_PENDING = 8  # batches that no step has trained on yet
_MIN_ROWS = 16  # that were trained on
_MIN_SHARE, _MAX_SHARE = 0.05, 0.95  # of a batch that was trained on: all of it is intended
_MAX_TOTAL_SHARE = 0.98  # of an evaluation


class Leak(Rule):
    """Remembers samples that a model was trained on, and looks for them in its evaluations."""

    id = "train-test-leak"
    level = Level.LIKELY
    needs = ("on_call", "on_backward", "evaluation")
    title = "some evaluation samples were used for training"
    why = (
        "Reported when at least 16 evaluation samples, and between 5 % and 100 % of them, "
        "appeared bit for bit in earlier training batches; also when all of them did while "
        "another loader is never used. Not reported for evaluations of the training data if not "
        "all training batches were observed, or for integers and one-hot rows."
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
        # By model, data and the lines that are running: samples, of them trained on, mixed batches.
        self.looked: dict[Any, list[int]] = {}
        self.partial: set[int] = set()  # models of which not all training samples are known
        self.loader: tuple[Any, Spot | None] = None, None  # what gave the latest batch
        self.unused: list[tuple[Any, Spot | None]] = []  # loaders that gave none, weakly
        self.again: dict[Spot | None, int] = {}  # samples evaluated that all were trained on

    def on_loader(self, loader: Any, spot: Spot | None) -> None:
        self.unused = [*self.unused[-15:], (weakref.ref(loader), spot)]

    def on_batch(self, iterator: Any, batch: Any, spot: Spot | None) -> None:
        loader = self.session.loaders.get(iterator)
        if loader is not self.loader[0]:
            self.unused = [entry for entry in self.unused if entry[0]() is not loader]
        self.loader = loader, spot

    def on_call(self, call: ModuleCall) -> None:
        if not call.tensors or call.tensors[0]._array.ndim < 2:
            return
        array = call.tensors[0]._array
        key = id(call.module)
        if call.recorded and call.module.training:
            trained = self.trained.get(key)
            if len(array) > LOOKED or len(self.pending) >= _MAX_PENDING \
                    or trained and len(trained[1]) >= _ROWS:
                self.partial.add(key)
            if key not in self.partial:
                self.pending.append((call.module, call.hashes))
        elif not call.recorded and not call.module.training and key in self.trained \
                and key not in self.partial and not self.session.rested:
            self._judge_evaluation(call, call.hashes, self.trained[key][1])

    def _judge_evaluation(self, call: ModuleCall, hashes: list[int], trained: set[int]) -> None:
        data = id(getattr(self.loader[0], "dataset", None))
        counts = self.looked.setdefault(
            (id(call.module), data, _list_lines(find_user_frame(1))), [0, 0, 0]
        )
        n_trained = sum(h in trained for h in hashes)
        counts[0] += len(hashes)
        counts[1] += n_trained
        counts[2] += _MIN_SHARE * len(hashes) <= n_trained < _MAX_SHARE * len(hashes)
        if n_trained >= _MIN_ROWS and n_trained == len(hashes):
            spot = self.loader[1] if self.loader[0] is not None else call.spot
            self.again[spot] = self.again.get(spot, 0) + n_trained
        elif hashes:
            self.again[None] = 1
        has_loader = self.loader[0] is not None  # else the same line may read training data
        is_in_part = _MIN_SHARE * counts[0] <= counts[1] < _MAX_TOTAL_SHARE * counts[0]
        if counts[1] >= _MIN_ROWS and is_in_part and (counts[2] or has_loader):
            dataset = getattr(self.loader[0], "dataset", None)
            line = find_assignment(dataset, find_user_frame(1)) if has_loader else None
            self.report("evaluation samples were in the training batches",
                        Place(*line) if line else None, call.spot, samples=counts[0],
                        **{"trained on": counts[1]})

    def on_backward(self, backward: Backward) -> None:
        for module, hashes in self.pending:
            self.trained.setdefault(id(module), (module, set()))[1].update(hashes)
        self.pending.clear()

    on_gradient = on_backward

    def finish(self) -> None:
        """Evaluations of nothing but training data, beside a loader that nobody asks."""
        unused = [spot for loader, spot in self.unused if loader() is not None]
        if not unused or len(self.again) != 1 or self.session.error is not None:
            return
        (spot, samples), = self.again.items()
        self.report("the model is evaluated on the data that it was trained on, and another "
                    "loader is never used", spot, *unused[:1], fix="iterate over the other loader",
                    samples=samples)


def _list_lines(frame: Any) -> tuple[int, ...]:
    """Return the bytecode offsets of the user's innermost frames, which identify a call."""
    offsets: list[int] = []
    while frame is not None and len(offsets) < 4:
        if not is_internal(frame.f_code):
            offsets.append(frame.f_lasti)
        frame = frame.f_back
    return tuple(offsets)
