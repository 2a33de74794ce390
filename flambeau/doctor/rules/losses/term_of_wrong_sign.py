"""A divergence or an entropy that comes into the loss with the wrong sign."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...events import Backward
from ...finding import Level
from ...graph import (
    RESHAPES, find_spot, get_node, get_operator_name, get_saved, iterate_saved_arrays,
)
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_SUMS = RESHAPES | {"mean", "sum", "_add", "_div", "stack", "cat"}


def find_signed_terms(root: Any, limit: int = 256) -> Iterator[tuple[Any, int]]:
    """Yield the nodes below a root through sums, means and factors, each with its sign."""
    stack = [(root, 1)]
    while stack and limit:
        node, sign = stack.pop()
        if not hasattr(node, "edges"):
            continue
        limit -= 1
        yield node, sign
        name = get_operator_name(node)
        operands = [get_node(edge) for edge in node.edges if edge is not None]
        if name == "neg":
            stack.append((operands[0], -sign))
        elif name == "_sub" and len(node.edges) == 2:
            sides = zip(node.edges, (sign, -sign), strict=True)
            stack += [(get_node(edge), factor) for edge, factor in sides if edge is not None]
        elif name == "_sub" and len(operands) == 1 and get_saved(node, "other") is None:
            stack.append((operands[0], sign))
        elif name == "mul" and len(operands) == 1:
            factor = _get_factor_sign(node)
            if factor:
                stack.append((operands[0], sign * factor))
        elif name in _SUMS:
            stack += [(child, sign) for child in operands]


def _get_factor_sign(node: Any) -> int:
    """Return the sign of a constant factor; 0 for a weight that starts at 0, and for anything
    else."""
    arrays = [array for name, array in iterate_saved_arrays(node) if name in ("input", "other")]
    if arrays:
        values = arrays[0].reshape(-1)
        return int(np.sign(values[0])) if len(values) == 1 else 0
    factor = get_saved(node, "other")
    return int(np.sign(factor)) if isinstance(factor, (int, float)) else 0


class TermOfWrongSign(Rule):
    """Follows the signs from the root of a backward pass to entropies and divergences."""

    id = "term-of-wrong-sign"
    level = Level.LIKELY
    needs = ("on_backward",)
    title = (
        "a term of the loss has the wrong sign: training shrinks what should grow, or the reverse"
    )
    why = (
        "1 + v - mu^2 - exp(v) is never positive; minimized, it decreases without bound, so the "
        "divergence is -0.5 times it. A policy's entropy, next to log_prob times an advantage, "
        "should be large and must be subtracted. Reported when such a term enters the loss with a "
        "positive sign. Not reported for an entropy without a policy term (a confident "
        "classifier)."
    )
    fix = "kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()); loss = policy - weight * entropy"
    broken = """
encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(3):
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
    kl = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()  # <-
    loss = F.mse_loss(decoder(z), x) + kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "kl = 0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()  # <-":
            "kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()",
    })
    healthy = ("""
# A classifier is to be sure of samples without labels: their entropy is minimized.
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for _ in range(3):
    entropy = torch.distributions.Categorical(logits=net(-x)).entropy().mean()
    loss = F.cross_entropy(net(x), y) + 0.1 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# The evidence is maximised: the divergence is subtracted from it.
encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(3):
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + (0.5 * logvar).exp() * torch.randn_like(mu)
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(1).mean()
    evidence = -F.mse_loss(decoder(z), x) - kl
    optimizer.zero_grad()
    (-evidence).backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.entropies: list[tuple[Any, Spot | None]] = []  # nodes, weakly
        self.logs: weakref.WeakSet[Any] = weakref.WeakSet()

    def on_log_prob(self, distribution: Any, value: Any, result: Any, spot: Spot | None) -> None:
        node = get_node(getattr(result, "_node", None))
        if node is not None and not getattr(value, "requires_grad", False):
            self.logs.add(node)

    def on_entropy(self, result: Any, spot: Spot | None) -> None:
        node = get_node(getattr(result, "_node", None))
        if node is not None:
            self.entropies.append((weakref.ref(node), spot))

    def on_backward(self, backward: Backward) -> None:
        entropies, self.entropies = self.entropies, []
        if not backward.watched or len(backward.roots) != 1 or any(
            group.get("maximize") for o in list(self.session.optimizers) for group in o.param_groups
        ):
            return
        terms = list(find_signed_terms(get_node(backward.roots[0])))
        policy = any(self._is_weighted_log(node) for node, _ in terms)
        for node, sign in terms:
            spots = [spot for reference, spot in entropies if reference() is node]
            if spots and sign > 0 and policy:
                self.report("the entropy of a policy is minimized",
                            self._find_sum(node, terms) or spots[0], spots[0], backward.spot)
            if sign > 0 and get_operator_name(node) == "_sub" and _is_negative_divergence(node):
                self.report("1 + v - mu^2 - exp(v) enters the loss with a positive sign",
                            find_spot(node), backward.spot)

    on_gradient = on_backward

    def _find_sum(self, node: Any, terms: list[tuple[Any, int]]) -> Spot | None:
        """Return the line that adds a term to the other terms."""
        current, sums = node, [n for n, _ in terms if get_operator_name(n) in ("_add", "_sub")]
        for _ in range(6):
            users = [n for n, _ in terms if any(get_node(e) is current for e in n.edges if e)]
            if not users:
                return None
            current = users[0]
            if current in sums:
                return find_spot(current)
        return None

    def _is_weighted_log(self, node: Any) -> bool:
        if get_operator_name(node) not in ("mul", "minimum"):
            return False
        return any(factor in self.logs for factor in _list_factors(node))


def _list_factors(node: Any) -> Iterator[Any]:
    """The factors of a product, seen through reshapes, sums and negations."""
    stack, limit = [node], 24
    while stack and limit:
        limit -= 1
        node = stack.pop()
        if hasattr(node, "edges"):
            yield node
            stack += [get_node(edge) for edge in node.edges if edge is not None]


def _is_negative_divergence(node: Any) -> bool:
    """Whether a node is `... + v - exp(v)` with nothing but sums in front."""
    sides = [get_node(edge) for edge in node.edges if edge is not None]
    if len(sides) != 2 or not hasattr(sides[1], "edges") or get_operator_name(sides[1]) != "exp":
        return False
    log = get_node(sides[1].edges[0])
    stack = [sides[0]]
    while stack:
        factor = stack.pop()
        if factor is log:
            return True
        if hasattr(factor, "edges") and get_operator_name(factor) in ("_add", "_sub"):
            stack += [get_node(edge) for edge in factor.edges[:1] if edge is not None]
            if get_operator_name(factor) == "_add":
                stack += [get_node(edge) for edge in factor.edges[1:] if edge is not None]
    return False
