"""Training that goes on in evaluation mode."""

from __future__ import annotations

from typing import Any

from ....nn.module import Module
from ...events import Backward, ModuleCall, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule


def _list_switched_off(module: Any) -> list[str]:
    """Layers that eval() makes behave otherwise."""
    return [
        path or type(layer).__name__ for path, layer in module.named_modules()
        if "Dropout" in type(layer).__name__ or "BatchNorm" in type(layer).__name__
    ]


class TrainForgotten(Rule):
    """Looks at the mode in which the outputs of a step were computed."""

    id = "train-forgotten"
    level = Level.LIKELY
    needs = ("on_step", "on_call")
    title = "after an evaluation, training continues in evaluation mode"
    why = (
        "Without dropout and with frozen statistics, training is different. Reported when a model "
        "that was trained in training mode is updated three times entirely in evaluation mode and "
        "has layers for which that matters. Not reported for parts in evaluation mode (frozen "
        "batch norm) or for models that never were in training mode."
    )
    fix = "model.train() at the start of each epoch, or after the evaluation"
    broken = """
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for epoch in range(3):
    for xb, yb in zip(x.split(16), y.split(16)):
        loss = F.cross_entropy(net(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()  # <-
    with torch.no_grad():
        accuracy = (net(x).argmax(1) == y).float().mean()
"""
    fixed = edit(broken, {
        "for epoch in range(3):": "for epoch in range(3):\n    net.train()",
        "net.eval()  # <-": "net.eval()",
    })
    healthy = ("""
# Batch norm is frozen after a while; the model as a whole stays in training mode.
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for step in range(8):
    if step == 3:
        net[1].eval()
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# An attack in evaluation mode, before each update in training mode.
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = optim.Adam(net.parameters())
for _ in range(5):
    net.eval()
    image = x.clone().requires_grad_()
    F.cross_entropy(net(image), y).backward()
    net.train()
    optimizer.zero_grad()
    F.cross_entropy(net(image + 0.1 * image.grad.sign()), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.evaluated: dict[int, Spot | None] = {}  # where eval() was called
        self.called: dict[int, tuple[Module, bool]] = {}  # since the last backward pass
        self.used: dict[int, tuple[Module, bool]] = {}  # by the last backward pass
        self.trained: set[int] = set()  # updated in training mode
        self.times: dict[int, int] = {}

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        if training:
            self.evaluated.pop(id(module), None)
            self.times[id(module)] = 0
        else:
            self.evaluated[id(module)] = spot

    def on_call(self, call: ModuleCall) -> None:
        if call.recorded:
            self.called[id(call.module)] = call.module, call.module.training

    def on_backward(self, backward: Backward) -> None:
        self.used = {**self.called}
        self.called.clear()

    def on_step(self, update: Update) -> None:
        updated = {id(p) for p in update.params}
        for key, (module, training) in self.used.items():
            if training:
                self.trained.add(key)
            elif key in self.trained and key in self.evaluated \
                    and any(id(p) in updated for p in module.parameters()) \
                    and not any(layer.training for layer in module.modules()):
                self.times[key] = self.times.get(key, 0) + 1
                layers = _list_switched_off(module)
                if self.times[key] >= 3 and layers:
                    name = self.session.name_of(module, "the model")
                    self.report(f"{name} is trained in evaluation mode since this eval()",
                                self.evaluated[key], update.spot, layers=layers[:3],
                                fix=f"{name}.train() before the training goes on")
        self.used = {}
