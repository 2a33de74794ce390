"""Parameters that get gradients and are in no optimizer."""

from __future__ import annotations

from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward, ModuleCall, Update
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 5


class ParameterInNoOptimizer(Rule):
    """Compares the leaves of the graph with what the optimizers have."""

    id = "parameter-in-no-optimizer"
    level = Level.LIKELY
    needs = ("on_step", "on_backward")
    title = "a network gets gradients in every step, but no optimizer holds its parameters"
    why = (
        "Its gradients accumulate, and nothing uses them. Likely for a whole network that was "
        "created here, is in training mode and was not loaded, and for parameters added after the "
        "optimizer was created; a hint for parts of a network (training only a head). Not "
        "reported if its gradients are cleared, if it is frozen, or if only inputs are optimized."
    )
    fix = "pass its parameters to the optimizer, or freeze it: network.requires_grad_(False)"
    broken = """
encoder, decoder = nn.Linear(8, 4), nn.Linear(4, 8)
optimizer = optim.SGD(encoder.parameters(), lr=0.01)  # <-
for _ in range(8):
    loss = F.mse_loss(decoder(torch.relu(encoder(x))), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "optimizer = optim.SGD(encoder.parameters(), lr=0.01)  # <-":
            "optimizer = optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)",
    })
    healthy = ("""
# A fixed network that judges: frozen.
net, judge = nn.Linear(8, 8), nn.Linear(8, 1).requires_grad_(False)
optimizer = optim.SGD(net.parameters(), lr=0.01)
for _ in range(8):
    loss = judge(net(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# An image is optimized, not the network.
net = nn.Linear(8, 3).eval()
image = torch.zeros(1, 8, requires_grad=True)
optimizer = optim.SGD([image], lr=0.1)
for _ in range(8):
    loss = F.cross_entropy(net(image), y[:1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.times: dict[int, int] = {}
        self.reached: dict[int, Any] = {}
        self.managed: set[int] = set()  # networks whose gradients are cleared, or that were loaded
        self.done: set[int] = set()
        self.order: dict[int, int] = {}  # modules and optimizers, in the order of construction
        self.steps = 0

    def on_module_constructed(self, module: Any, spot: Spot | None) -> None:
        self.order[id(module)] = len(self.order)

    def on_optimizer(self, optimizer: Any, spot: Spot | None) -> None:
        self.order[id(optimizer)] = len(self.order)

    def on_zero_grad(self, owner: Any, spot: Spot | None) -> None:
        self.managed.add(id(owner))

    def on_load(self, module: Any, state: Any, strict: bool, spot: Spot | None) -> None:
        self.managed.add(id(module))

    def on_mode(self, module: Any, training: bool, spot: Spot | None) -> None:
        if not training:
            self.managed.add(id(module))

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched:
            return
        for key, leaf in backward.graph.leaves.items():
            if isinstance(leaf, Parameter) and key not in self.done:
                self.reached[key] = leaf
                self.times[key] = self.times.get(key, 0) + 1

    def on_call(self, call: ModuleCall) -> None:
        if not call.recorded and not call.module.training:
            self.managed.add(id(call.module))

    def after_step(self, update: Update) -> None:
        self.steps += update.watched
        if not update.watched or self.steps % _STEPS:
            return
        if not any(isinstance(p, Parameter) for o in list(self.session.optimizers)
                   for group in o.param_groups for p in group["params"]):
            return  # an input is optimized, as an attack's noise or an image
        optimized = self.session.optimized
        strays: dict[int, list[Any]] = {}
        for key, parameter in self.reached.items():
            if key not in optimized and parameter.requires_grad and self.times[key] >= _STEPS:
                strays.setdefault(id(self.session.root_of(parameter)), []).append(parameter)
        for group in strays.values():
            self._judge(self.session.root_of(group[0]), group, optimized, update)

    def _judge(self, root: Any, group: list[Any], optimized: Any, update: Update) -> None:
        self.done.update(id(p) for p in group)
        owners = [m for m in list(self.session.built_at)
                  if any(p is group[0] for p in m._parameters.values())]
        if root is None and owners or id(root) in self.managed:
            return  # a layer that is not registered: modules-in-a-list
        if root is not None and (not root.training or root not in self.session.built_at):
            return
        parameters = [] if root is None else list(root.parameters())
        partly = any(id(p) in optimized for p in parameters)
        created_order = self.order.get(id(update.optimizer), 0)
        is_later = bool(owners) and self.order.get(id(owners[0]), -1) > created_order
        frozen = any(not p.requires_grad for p in parameters)
        level = Level.HINT if (partly and not is_later) or frozen else Level.LIKELY
        self.report(
            f"{self.session.parameter_names(group)} get gradients, but no optimizer holds them",
            self.session.optimizers.get(update.optimizer),
            self.session.built_at.get(root) if root is not None else None,
            level=level, **{"backward passes": self.times[id(group[0])]},
        )
