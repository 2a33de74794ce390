"""A classifier that is told the same answer for everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import LossCall
from ...finding import Level
from ...graph import get_node, get_operator_name
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_CALLS = 12
_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
_SCALED = frozenset(("_div", "mul", "_view", "to", "_to"))


class SameTarget(Rule):
    """Collects the targets of classification losses over the whole program."""

    id = "target-never-varies"
    level = Level.LIKELY
    needs = ("on_loss",)
    title = "a classifier is trained on a single answer: it learns to ignore its input"
    why = (
        "A discriminator trained with the target 'real' for real and generated samples alike, or "
        "rows of similarities whose target is always 0, have nothing to distinguish. Reported "
        f"when all targets of at least {_CALLS} calls are the same number: for binary losses whose "
        "input is the output of a trained layer, and for cross_entropy if the scores are a square "
        "product of embeddings. Not reported for differences of scores (ranking), for scores "
        "whose first column is the positive, or for inputs optimized against a fixed network."
    )
    fix = "targets of each class; for similarities (N, N): target = torch.arange(N)"
    broken = """
net = nn.Linear(8, 4)
optimizer = optim.Adam(net.parameters())
for _ in range(14):
    a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
    similarity = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T
    loss = F.cross_entropy(similarity / 0.1, torch.zeros(64, dtype=torch.long))  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(similarity / 0.1, torch.zeros(64, dtype=torch.long))  # <-":
            "loss = F.cross_entropy(similarity / 0.1, torch.arange(64))",
    })
    healthy = ("""
# The better of two is told by the sign of a difference.
score = nn.Linear(8, 1)
optimizer = optim.Adam(score.parameters())
better, worse = x + 0.5, x - 0.5
for _ in range(14):
    difference = score(better) - score(worse)
    loss = F.binary_cross_entropy_with_logits(difference, torch.ones(64, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# A generator against a critic that is not trained.
generator, critic = nn.Linear(4, 8), nn.Linear(8, 1).requires_grad_(False)
optimizer = optim.Adam(generator.parameters())
for _ in range(14):
    verdict = critic(generator(torch.randn(16, 4)))
    loss = F.binary_cross_entropy_with_logits(verdict, torch.ones(16, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.answers: dict[str, set[float]] = {}
        self.calls: dict[str, list[Spot | None]] = {}

    def on_loss(self, call: LossCall) -> None:
        target = getattr(call.target, "_array", None)
        binary = call.name in _BINARY
        if target is None or not call.recorded or not target.size \
                or not (binary or call.name == "cross_entropy"):
            return
        loss = "binary" if binary else "similarity"
        extremes = self.answers.setdefault(loss, set())
        if len(extremes) > 1:
            return
        extremes.update((float(np.min(target)), float(np.max(target))))
        base = target.base
        if isinstance(base, np.ndarray) and base.dtype == target.dtype and base.size:
            extremes.update((float(np.min(base)), float(np.max(base))))
        if not call.input.requires_grad or not (
            self._is_from_trained_layer(call.node) if binary else _is_square_product(call)
        ):
            return
        self.calls.setdefault(loss, []).append(call.spot)

    def _is_from_trained_layer(self, node: Any) -> bool:
        if node is not None and get_operator_name(node) == "sigmoid":
            node = get_node(node.edges[0])
        if node is None or "linear" not in get_operator_name(node) and "conv" not in \
                get_operator_name(node):
            return False
        leaves = [get_node(edge) for edge in node.edges if edge is not None]
        return any(id(leaf) in self.session.optimized for leaf in leaves)

    def finish(self) -> None:
        for loss, spots in self.calls.items():
            if len(self.answers[loss]) == 1 and len(spots) >= _CALLS and self._is_fresh(loss):
                lines = list(dict.fromkeys(spots))  # the first taught first
                self.report("every target is the same number", *lines[:2], calls=len(spots),
                            target=min(self.answers[loss]))

    def _is_fresh(self, loss: str) -> bool:
        """Whether the calls seen are a fair part of the program's passes."""
        return self.session.clock.passes <= 4 * len(self.calls[loss]) or loss == "similarity"


def _is_square_product(call: LossCall) -> bool:
    shape = call.values.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        return False
    node = call.node
    while node is not None and get_operator_name(node) in _SCALED and node.edges:
        node = get_node(node.edges[0])
        if not hasattr(node, "edges"):
            return False
    return node is not None and get_operator_name(node) in ("matmul", "mm")
