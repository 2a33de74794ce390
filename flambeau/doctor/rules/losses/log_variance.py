"""One number used as the logarithm of a variance and of a deviation."""

from __future__ import annotations

import weakref
from typing import Any

from ...events import Backward
from ...finding import Level
from ...graph import find_spot, get_node, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_DRAWS = 64  # that are remembered


class LogVariance(Rule):
    """Looks at what noise is multiplied by, and at the same numbers in a divergence."""

    id = "log-variance-as-deviation"
    level = Level.LIKELY
    needs = ("on_draw", "on_operand", "on_backward")
    title = "noise is scaled by exp(logvar); the standard deviation is exp(logvar / 2)"
    why = (
        "In 1 + v - mu^2 - exp(v), v is a log-variance, and the noise must be scaled by the "
        "square root of the variance. Reported when exp(v) multiplies freshly drawn numbers and "
        "both v and another exp(v) are terms of a sum. Not reported if v only scales noise (a log "
        "standard deviation) or if the sum has 2 v and exp(2 v)."
    )
    fix = "std = torch.exp(0.5 * logvar)"
    broken = """
encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(3):
    mu, logvar = encoder(x).chunk(2, dim=1)
    std = logvar.exp()  # <-
    z = mu + std * torch.randn_like(std)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = F.mse_loss(decoder(z), x) + 0.1 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "std = logvar.exp()  # <-": "std = (0.5 * logvar).exp()",
    })
    healthy = ("""
# The logarithm of a deviation, in the noise and in the divergence.
encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(3):
    mu, log_std = encoder(x).chunk(2, dim=1)
    z = mu + log_std.exp() * torch.randn_like(mu)
    kl = -0.5 * (1 + 2 * log_std - mu.pow(2) - (2 * log_std).exp()).sum(1).mean()
    loss = F.mse_loss(decoder(z), x) + 0.1 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A Gaussian policy: the entropy is the logarithm of the deviation, but for a constant.
policy = nn.Linear(8, 2)
optimizer = optim.Adam(policy.parameters())
for _ in range(3):
    mu, log_std = policy(x).chunk(2, dim=1)
    action = mu + log_std.exp() * torch.randn_like(mu)
    loss = (action - t).pow(2).mean() - 0.01 * log_std.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.draws: dict[int, Any] = {}  # what was drawn since the latest pass, weakly
        self.scales: list[tuple[Any, Spot | None]] = []  # nodes of exp that scale noise

    def on_draw(self, tensor: Any, spot: Spot | None) -> None:
        if len(self.draws) < _MAX_DRAWS:
            self.draws[id(tensor)] = weakref.ref(tensor)

    def on_operand(self, name: str, recorded: Any, constant: Any, spot: Spot | None) -> None:
        drawn = self.draws.get(id(constant))
        if name != "mul" or drawn is None or drawn() is not constant:
            return
        node = get_node(recorded._node)
        if get_operator_name(node) == "exp":
            self.scales.append((weakref.ref(node), spot))

    def on_backward(self, backward: Backward) -> None:
        scales, self.scales = self.scales, []
        self.draws.clear()
        if not scales or not backward.watched:
            return
        graph = backward.graph
        for reference, spot in scales:
            scale = reference()
            if scale is None:
                continue
            log = get_node(scale.edges[0])
            users = graph.consumers.get(id(log), ())
            is_added = any(get_operator_name(user) in ("_add", "_sub") for user in users)
            is_variance = any(
                get_operator_name(user) == "exp" and user is not scale and any(
                    get_operator_name(term) in ("_add", "_sub", "neg")
                    for term in graph.consumers.get(id(user), ())
                ) for user in users
            )
            if is_added and is_variance:
                self.report("exp of a log-variance scales the noise", find_spot(scale), spot,
                            backward.spot)
                return

    on_gradient = on_backward
