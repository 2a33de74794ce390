"""Batch norm whose weights are frozen and whose statistics are not."""

from __future__ import annotations

from typing import Any

from ...events import ModuleCall, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 3


class FrozenBatchNorm(Rule):
    """Looks at the mode of batch-norm layers with frozen weights, in models that are trained."""

    id = "frozen-batch-norm-updates"
    level = Level.LIKELY
    needs = ("on_call", "on_step")
    title = "a frozen batch norm keeps updating its running statistics"
    why = (
        "requires_grad=False stops the optimizer, not the statistics: in training mode the layer "
        "updates them with every batch, so the frozen part changes. Reported when the layer ran "
        f"in training mode in {_STEPS} updates. Not reported for layers in evaluation mode or "
        "without weights or running statistics."
    )
    fix = "layer.eval() after model.train(), for the frozen layers"
    broken = """
body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
net = nn.Sequential(body, nn.Linear(16, 3))
optimizer = optim.SGD(net[1].parameters(), lr=0.1)
for _ in range(4):
    net.train()  # <-
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "net.train()  # <-": "net.train()\nbody.eval()",
    })
    healthy = ("""
# Statistics without weights: there is nothing that was frozen.
net = nn.Sequential(nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3))
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A teacher that follows its student, statistics included, while its weights are frozen.
student = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = optim.SGD(student.parameters(), lr=0.1)
for _ in range(4):
    with torch.no_grad():
        target = teacher(x)
    loss = F.mse_loss(student(x), target) + F.cross_entropy(student(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.called: dict[int, ModuleCall] = {}
        self.times: dict[int, int] = {}
        self.switched: tuple[Any, Spot | None] = None, None  # what train() was called on last

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        if training:
            self.switched = module, spot

    def on_layer(self, call: ModuleCall) -> None:
        layer = call.module
        if call.recorded and layer.training and "BatchNorm" in type(layer).__name__ \
                and getattr(layer, "track_running_stats", False) \
                and layer._parameters.get("weight") is not None \
                and not layer.weight.requires_grad and not layer.bias.requires_grad:
            self.called[id(layer)] = call

    def after_step(self, update: Update) -> None:
        calls, self.called = self.called, {}
        for key, call in calls.items():
            self.times[key] = self.times.get(key, 0) + 1
            if self.times[key] == _STEPS:
                self.report("a batch norm with frozen weights changes its running statistics",
                            self._train_of(call.module), call.spot,
                            self.session.built_at.get(call.module),
                            updates=_STEPS, channels=call.module.num_features)

    def _train_of(self, layer: Any) -> Spot | None:
        """Where train() put a layer into training mode."""
        module, spot = self.switched
        return spot if module is not None and layer in module.modules() else None
