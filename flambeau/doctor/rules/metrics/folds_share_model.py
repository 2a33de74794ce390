"""Cross-validation whose folds train one model on and on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...events import ModuleCall, Update
from ...finding import Level
from ...programs import edit
from ...samples import LOOKED
from ..rule import Rule

_ROWS = 1 << 14  # that are remembered of a model
_MIN_SAMPLES = 16  # samples that have changed sides
_WEIGHTS = 64  # numbers by which weights are known again


@dataclass
class _Model:
    """What a model was trained and evaluated on, since its weights began."""

    trained: dict[int, int] = field(default_factory=dict)  # by sample: the latest update
    held_out: set[int] = field(default_factory=set)  # evaluated before they were ever trained on
    at: int = 0  # the update at which it was evaluated on them
    is_exchanged: bool = False  # some of them are trained on now
    weights: np.ndarray | None = None  # after the latest update
    is_partial: bool = False  # too many samples to remember


class FoldsShareModel(Rule):
    """Remembers which samples a model had never seen when it was evaluated on them, and looks
    whether they and those of its training change places."""

    id = "folds-share-a-model"
    level = Level.LIKELY
    needs = ("on_call", "after_step", "evaluation")
    title = (
        "cross-validation continues with the same model, which was trained on the samples now "
        "held out"
    )
    why = (
        "From the second fold on, the score is a training score. Reported when samples that were "
        f"held out are trained on, and {_MIN_SAMPLES} others are evaluated in their place that "
        "were trained on earlier and not since. Not reported if weights are reset between folds, "
        "for evaluations of the training data, or for samples that are evaluated first and "
        "learned later."
    )
    fix = "create the model and its optimizer inside the loop over the folds"
    broken = """
net = nn.Linear(8, 3)  # <-
optimizer = optim.SGD(net.parameters(), lr=0.1)
for fold in range(4):
    test = torch.arange(64) % 4 == fold
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x[~test]), y[~test]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        accuracy = (net(x[test]).argmax(1) == y[test]).float().mean()
    net.train()
"""
    fixed = """
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
"""
    healthy = (edit(broken, {
        # One model, whose weights begin anew.
        "net = nn.Linear(8, 3)  # <-": "net = nn.Linear(8, 3)",
        "test = torch.arange(64) % 4 == fold":
            "net.reset_parameters()\ntest = torch.arange(64) % 4 == fold",
    }), """
# Each new part is evaluated first and then learned, with what came before.
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for last in (16, 32, 48):
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x[:last]), y[:last]).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for part in (slice(0, last), slice(last, last + 16)):
            accuracy = (net(x[part]).argmax(1) == y[part]).float().mean()
    net.train()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.models: dict[int, _Model] = {}

    def on_call(self, call: ModuleCall) -> None:
        model = self.models.get(id(call.module))
        if call.recorded and call.module.training:
            self._train(model or self.models.setdefault(id(call.module), _Model()), call)
        elif model is not None and not call.recorded and not call.module.training \
                and not model.is_partial and not self.session.rested:
            self._evaluate(model, call)

    def _train(self, model: _Model, call: ModuleCall) -> None:
        if model.is_partial:
            return
        if model.weights is not None and not np.array_equal(
            model.weights, _sample_weights(call.module)
        ):
            self.models[id(call.module)] = model = _Model()  # set anew, not by an optimizer
        hashes = call.hashes
        model.is_partial = not hashes or len(model.trained) >= _ROWS \
            or len(call.tensors[0]._array) > LOOKED
        model.trained.update(dict.fromkeys(hashes, self.session.updates))
        model.is_exchanged = model.is_exchanged or not model.held_out.isdisjoint(hashes)

    def _evaluate(self, model: _Model, call: ModuleCall) -> None:
        latest = [model.trained.get(sample) for sample in call.hashes]
        if not model.is_exchanged:
            model.held_out.update(
                sample
                for sample, update in zip(call.hashes, latest, strict=True) if update is None)
            model.at = self.session.updates
            return
        n_trained = sum(update is not None and update < model.at for update in latest)
        if n_trained >= _MIN_SAMPLES and n_trained == len(latest):
            name = self.session.name_of(call.module, "the model")
            self.report(
                f"{name} is evaluated on samples that an earlier fold trained it on",
                self.session.built_at.get(call.module), call.spot,
                **{"samples": len(latest), "trained on before": n_trained})

    def after_step(self, update: Update) -> None:
        for root in list(self.session.roots):
            model = self.models.get(id(root))
            if model is not None and not model.is_partial:
                model.weights = _sample_weights(root)


def _sample_weights(module: Any) -> np.ndarray:
    """Some numbers of a module's first parameter."""
    array: np.ndarray = next(
        (p._array.reshape(-1)[:_WEIGHTS].copy() for p in module.parameters()), np.zeros(0))
    return array
