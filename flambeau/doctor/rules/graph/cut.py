"""Parameters that the loss cannot reach, because the graph is cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....nn.parameter import Parameter
from ...events import Backward, ModuleCall, Update
from ...finding import Level
from ...graph import find_leaves, get_node
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_STEPS = 3
_MAX_PASSES = 64  # backward passes that are looked at


@dataclass
class _Cut:
    """A place where values leave the graph."""

    kind: str
    spot: Spot | None
    parameters: set[int] = field(default_factory=set)
    times: int = 1


class GraphCut(Rule):
    """Looks for parameters of an optimizer that never have a gradient at its steps, and for the
    places at which their values left the graph."""

    id = "graph-cut"
    level = Level.LIKELY
    needs = ("on_step", "on_backward")
    title = (
        "parameters in the optimizer get no gradient, because what they compute leaves the graph"
    )
    why = (
        "detach(), .data, item(), numpy(), argmax() and torch.tensor() return values without "
        "history, so the layers before them are not trained. Reported when parameters had no "
        f"gradient in the first {_STEPS} steps of their optimizer although they took part in the "
        "forward pass. Not reported for frozen parameters or for values that reach the loss by "
        "another path."
    )
    fix = "use the tensor itself, without detach(), item() or torch.tensor()"
    broken = """
encoder, decoder = nn.Linear(8, 4), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(5):
    code = encoder(x).detach()  # <-
    loss = F.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "code = encoder(x).detach()  # <-": "code = encoder(x)",
    })
    healthy = ("""
# The generator's output is detached for the discriminator, and not for its own step.
generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
first, second = optim.Adam(critic.parameters()), optim.Adam(generator.parameters())
for _ in range(5):
    fake = generator(torch.randn(64, 4))
    first.zero_grad()
    (critic(fake.detach()).mean() - critic(x).mean()).backward()
    first.step()
    second.zero_grad()
    (-critic(fake).mean()).backward()
    second.step()
""", """
# One side of the loss is detached, the other is not.
encoder, predictor = nn.Linear(8, 4), nn.Linear(4, 4)
optimizer = optim.Adam([*encoder.parameters(), *predictor.parameters()])
for _ in range(5):
    a, b = encoder(x), encoder(x + 0.1)
    loss = -F.cosine_similarity(predictor(a), b.detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.cuts: dict[Spot | None, _Cut] = {}
        self.reached: set[int] = set()  # parameters that a pass has led to
        self.silent: dict[int, dict[int, int]] = {}  # by optimizer and parameter: steps without
        self.ran: set[int] = set()  # parameters of modules that ran
        self.without_grad: dict[int, Spot | None] = {}  # and of those that ran under no_grad
        self.layers: set[int] = set()  # parameters of layers that ran with gradients
        self.inner: dict[int, Spot | None] = {}  # and of those that ran under no_grad

    def on_cut(self, method: str, tensor: Any, spot: Spot | None) -> None:
        cut = self.cuts.get(spot)
        if cut is not None:
            cut.times += 1
            return
        cut = self.cuts[spot] = _Cut(method, spot)
        leaves = find_leaves(get_node(tensor._node))
        cut.parameters = {key for key, leaf in leaves.items() if isinstance(leaf, Parameter)}

    def on_call(self, call: ModuleCall) -> None:
        if self.session.watching and call.backwards < _MAX_PASSES:
            keys = [id(p) for p in call.module.parameters() if p.requires_grad]
            if call.recorded:
                self.ran.update(keys)
            elif call.module.training:
                self.without_grad.update(dict.fromkeys(keys, call.spot))

    def on_layer(self, call: ModuleCall) -> None:
        keys = [id(p) for p in call.module._parameters.values() if p is not None]
        if call.recorded:
            self.layers.update(keys)
        elif call.module.training:
            self.inner.update(dict.fromkeys(keys, call.spot))

    def on_backward(self, backward: Backward) -> None:
        if backward.watched and self.session.clock.passes < _MAX_PASSES:
            self.reached.update(backward.graph.leaves)

    def on_step(self, update: Update) -> None:
        if not update.watched or update.number > _STEPS:
            return
        silent = self.silent.setdefault(id(update.optimizer), {})
        for parameter in update.params:
            if parameter.requires_grad and parameter._grad is None:
                silent[id(parameter)] = silent.get(id(parameter), 0) + 1
        if update.number == _STEPS:
            lost = [p for p in update.params if silent.get(id(p)) == _STEPS
                    and id(p) not in self.reached]
            if lost:
                self._judge(lost, update)

    def _judge_inner(self, lost: list[Any], update: Update) -> None:
        """Report layers that a forward method runs under no_grad though an optimizer has a group
        for them."""
        keys = {id(p) for p in lost if id(p) in self.inner and id(p) not in self.layers}
        groups = [group["params"] for group in update.optimizer.param_groups]
        ungraded_groups = [group for group in groups if all(id(p) in keys for p in group)]
        if not ungraded_groups or len(ungraded_groups) == len(groups):
            return
        names = self.session.parameter_names(ungraded_groups[0])
        self.report(f"{names} only run without gradients",
                    self.inner[id(ungraded_groups[0][0])], update.spot,
                    fix="compute trained layers outside torch.no_grad()",
                    **{"parameters without gradient": len(keys)})

    def _judge(self, lost: list[Any], update: Update) -> None:
        keys = {id(p) for p in lost}
        cuts = sorted(
            (cut for cut in self.cuts.values() if cut.parameters & keys),
            key=lambda cut: (-len(cut.parameters & keys), cut.kind == "item()"),
        )
        if cuts:
            cut = cuts[0]
            lost = [p for p in lost if id(p) in cut.parameters]
            names = self.session.parameter_names(lost)
            self.report(f"{cut.kind} takes what {names} computed out of the graph", cut.spot,
                        update.spot, **{"parameters without gradient": len(lost),
                                        "steps": _STEPS})
            return
        self._judge_inner(lost, update)
        ungraded = [p for p in lost if id(p) in self.without_grad and id(p) not in self.ran]
        if ungraded and len(ungraded) < len(update.params):
            self.report(f"{self.session.parameter_names(ungraded)} only run without gradients",
                        self.without_grad[id(ungraded[0])], update.spot,
                        fix="compute trained layers outside torch.no_grad()",
                        **{"parameters without gradient": len(ungraded)})
