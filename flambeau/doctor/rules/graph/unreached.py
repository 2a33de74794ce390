"""Layers that compute something at each step which no loss depends on."""

from __future__ import annotations

from typing import Any

from ....native.foundation.user_frames import is_installed_file
from ...events import ModuleCall, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 5
_OTHERS = {"graph-cut", "layer-never-used", "optimizer-of-other-parameters", "result-discarded",
           "parameter-in-no-optimizer", "modules-in-a-list", "step-without-gradients",
           "gradients-discarded"}


class Unreached(Rule):
    """Notes which layers run at each step, and whether their parameters ever have a gradient."""

    id = "layer-without-effect"
    level = Level.LIKELY
    needs = ("on_layer", "on_step")
    title = "a layer runs in every step, but its result reaches no loss: it is never trained"
    why = (
        "Its result is overwritten, left out of a sum, or returned and not used. Reported when a "
        f"layer whose parameters are in an optimizer ran in each of the first {_STEPS} steps with "
        "gradients enabled and its parameters never had a gradient. Not reported for layers that "
        "sometimes do not run or if the graph was cut, which is another finding; a hint for "
        "layers of an installed package, such as an unused pooler."
    )
    fix = "use the layer's result, or remove the layer"
    broken = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x):
        h = torch.relu(self.body(x))  # <-
        return x + x

net = nn.Sequential(nn.Linear(8, 8), Block(), nn.Linear(8, 3))
optimizer = optim.Adam(net.parameters())
for _ in range(8):
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "h = torch.relu(self.body(x))  # <-": "h = torch.relu(self.body(x))\nreturn x + h",
        "return x + x": "",
    })
    healthy = ("""
# A second head, whose loss comes in later.
body, first, second = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 1)
optimizer = optim.Adam(nn.ModuleList([body, first, second]).parameters())
for step in range(12):
    h = torch.relu(body(x))
    scores, value = first(h), second(h)
    loss = F.cross_entropy(scores, y)
    if step > 7:
        loss = loss + F.mse_loss(value, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Experts, of which a step uses one.
experts = nn.ModuleList(nn.Linear(8, 3) for _ in range(3))
optimizer = optim.Adam(experts.parameters())
for step in range(8):
    optimizer.zero_grad()
    F.cross_entropy(experts[step % 2](x), y).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.ran: dict[int, tuple[Any, Spot | None]] = {}  # layers since the latest step, by id
        self.steps: dict[int, int] = {}  # by layer: steps before which it ran
        self.calls: dict[int, tuple[Any, Spot | None]] = {}
        self.updates = 0
        self.graded: set[int] = set()

    def on_layer(self, call: ModuleCall) -> None:
        if self.updates < _STEPS and call.recorded and call.module._parameters:
            self.ran.setdefault(id(call.module), (call.module, call.spot))

    def on_step(self, update: Update) -> None:
        self.updates += 1
        self.graded.update(id(p) for p in update.params if p._grad is not None)
        if self.updates > _STEPS:
            return
        for key, layer in self.ran.items():
            self.steps[key] = self.steps.get(key, 0) + 1
            self.calls[key] = layer
        self.ran.clear()

    def finish(self) -> None:
        if self.updates < _STEPS or self.session.error is not None or self.session.rested:
            return
        if _OTHERS & {finding.id for finding in self.session.findings}:
            return
        idle = [layer for key, layer in self.calls.items()
                if self.steps[key] == _STEPS and self._is_idle(layer[0])]
        if idle:
            last, spot = idle[-1]
            built = self.session.built_at.get(last)
            library = built is not None and is_installed_file(built[0].co_filename)
            parameters = [p for module, _ in idle
                          for p in module._parameters.values() if p is not None]
            names = self.session.parameter_names(parameters)
            self.report(f"{names} take part in each step, but no loss "
                        "depends on them", spot, built, level=Level.HINT if library else None,
                        parameters=sum(p._array.size for p in parameters), steps=self.updates)

    def _is_idle(self, layer: Any) -> bool:
        trainable = [p for p in layer._parameters.values() if p is not None and p.requires_grad]
        return bool(trainable) and all(
            id(p) in self.session.optimized and id(p) not in self.graded for p in trainable
        )
