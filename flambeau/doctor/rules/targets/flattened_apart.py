"""Scores and targets that are flattened in different orders."""

from __future__ import annotations

import weakref
from typing import Any

from ....tensor.tensor import Tensor
from ...events import LossCall
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MIN_LOSSES = 2
_MAX_FLATTENED_TENSORS = 64  # remembered at a time: those of a step or two


class FlattenedApart(Rule):
    """Remembers the axes that the two sides of a loss had before they were flattened."""

    id = "flattened-in-another-order"
    level = Level.CERTAIN
    needs = ("on_loss", "on_view")
    title = (
        "scores (T, N, C) and targets (N, T) are both flattened: they belong to different samples"
    )
    why = (
        "The paired rows come from different positions: the network can only learn class "
        "frequencies. Reported when scores and targets were flattened by view, reshape or flatten "
        f"with their axes exchanged, in {_MIN_LOSSES} losses, or if scores (N, C, H, W) are "
        "flattened with the class axis inside. Not reported if both axes have the same length, "
        "which is ambiguous."
    )
    fix = "logits.transpose(0, 1).reshape(-1, C), or batch_first=True"
    broken = """
embedding, rnn, head = nn.Embedding(9, 8), nn.GRU(8, 8), nn.Linear(8, 9)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
tokens = torch.randint(0, 9, (64, 6))
tags = 8 - tokens
for _ in range(3):
    scores = head(rnn(embedding(tokens.t()))[0])
    loss = F.cross_entropy(scores.reshape(-1, 9), tags.reshape(-1))  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(scores.reshape(-1, 9), tags.reshape(-1))  # <-":
            "loss = F.cross_entropy(scores.reshape(-1, 9), tags.t().reshape(-1))",
    })
    healthy = ("""
# Both have time first.
embedding, rnn, head = nn.Embedding(9, 8), nn.GRU(8, 8), nn.Linear(8, 9)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
tokens = torch.randint(0, 9, (6, 64))
tags = 8 - tokens
for _ in range(3):
    scores = head(rnn(embedding(tokens))[0])
    loss = F.cross_entropy(scores.view(-1, 9), tags.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# The axes of an image, moved behind the batch on both sides.
net = nn.Conv2d(1, 3, 3, padding=1)
optimizer = optim.Adam(net.parameters())
images, labels = torch.randn(4, 1, 6, 5), torch.randint(0, 3, (4, 6, 5))
for _ in range(3):
    scores = net(images).permute(0, 2, 3, 1).reshape(-1, 3)
    loss = F.cross_entropy(scores, labels.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # By id of a flattened tensor: a weak reference to it, and its shape before.
        self.shapes: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self.losses: dict[Spot | None, int] = {}  # with exchanged axes, by place

    def on_view(self, before: Any, after: Any, spot: Spot | None) -> None:
        if isinstance(after, Tensor) and 0 < after._array.ndim < before._array.ndim:
            if len(self.shapes) > _MAX_FLATTENED_TENSORS:
                self.shapes.clear()
            self.shapes[id(after)] = weakref.ref(after), before._array.shape

    def _find_shape_before(self, tensor: Any) -> tuple[int, ...]:
        """Return a tensor's shape before it was flattened; () if it was not."""
        reference, shape = self.shapes.get(id(tensor), (None, ()))
        return shape if reference is not None and reference() is tensor else ()

    def on_loss(self, call: LossCall) -> None:
        scores, labels = self._find_shape_before(call.input), self._find_shape_before(call.target)
        if len(labels) < 2 or not (
            _are_exchanged(scores, labels, call) or _has_classes_inside(scores, labels, call)
        ):
            return
        count = self.losses[call.spot] = self.losses.get(call.spot, 0) + 1
        if count >= _MIN_LOSSES:
            self.report(f"scores of {scores} and targets of {labels} are flattened: rows and "
                        "targets belong to different samples", call.spot)


def _are_exchanged(scores: tuple[int, ...], labels: tuple[int, ...], call: LossCall) -> bool:
    """Whether scores (T, N, C, ...) and labels (N, T, ...) were flattened as they are."""
    return scores[:2] == labels[1::-1] and labels[0] != labels[1] \
        and scores[2:3] == call.values.shape[1:] and scores[3:] == labels[2:]


def _has_classes_inside(scores: tuple[int, ...], labels: tuple[int, ...], call: LossCall) -> bool:
    """Whether scores (N, C, ...) and labels (N, ...) were flattened as they are."""
    return scores[1:2] == call.values.shape[1:] and scores[1:2] != scores[-1:] \
        and scores[:1] + scores[2:] == labels
