"""Padding that counts in a loss over tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward, LossCall, Tokens
from ...finding import Level
from ...programs import edit
from ..rule import Rule

_SHARE = 0.05


class PaddingCounted(Rule):
    """Compares targets with the padding of the embedding that the model looked tokens up in."""

    id = "padding-counted-in-loss"
    level = Level.LIKELY
    needs = ("on_embedding", "on_loss")
    title = "padding counts in the loss: the model is trained and judged on predicting padding"
    why = (
        "Padding is easy to predict, so the loss looks better than it is and short sequences "
        f"weigh less. Reported when an embedding has a padding_idx, at least {_SHARE:.0%} of the "
        "targets are that index, and the loss neither ignores nor reweights it; also when tokens "
        "and targets both end in runs of various lengths of a value that occurs nowhere else, in "
        "three losses."
    )
    fix = "F.cross_entropy(..., ignore_index=padding_idx), or -100 as the target of padding"
    broken = """
tokens = torch.randint(1, 12, (8, 9))
tokens[:4, 5:] = 0
embedding = nn.Embedding(12, 8, padding_idx=0)
rnn, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 12)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    logits = head(rnn(embedding(tokens[:, :-1]))[0])
    loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])  # <-":
            "loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], ignore_index=0)",
    })
    healthy = ("""
# One loss a token, and a mask.
tokens = torch.randint(1, 12, (8, 9))
tokens[:4, 5:] = 0
embedding = nn.Embedding(12, 8, padding_idx=0)
rnn, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 12)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    logits = head(rnn(embedding(tokens[:, :-1]))[0])
    each = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    mask = (tokens[:, 1:] != 0).float()
    loss = (each * mask).sum() / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Whole sequences are classified, and one class has the number of the padding.
tokens = torch.randint(1, 12, (64, 9))
tokens[:40, :4] = 0
embedding = nn.Embedding(12, 8, padding_idx=0)
rnn, head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    loss = F.cross_entropy(head(rnn(embedding(tokens))[0][:, -1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.tokens: Tokens | None = None
        self.times = 0  # in a row that padding was inferred

    def on_embedding(self, tokens: Tokens) -> None:
        if tokens.indices.ndim == 2:
            self.tokens = Tokens(tokens.indices, None, tokens.padding, tokens.spot)

    def on_backward(self, backward: Backward) -> None:
        self.tokens = None

    on_gradient = on_backward

    def on_loss(self, call: LossCall) -> None:
        tokens = self.tokens
        if tokens is None or call.name != "cross_entropy" or not call.recorded \
                or call.argument("reduction", "mean") == "none" or call.target is None:
            return
        target, padding = call.target._array, tokens.padding
        if np.any(target == call.argument("ignore_index", -100)):
            return  # the targets' padding is ignored already
        if padding is None:
            padding = self._infer_padding(call, tokens.indices)
            if padding is None:
                return
        rows, steps = tokens.indices.shape
        weight = call.argument("weight")
        if target.dtype.kind != "i" or call.argument("ignore_index", -100) == padding \
                or target.size not in (rows * steps, rows * (steps - 1)) \
                or weight is not None and weight._array[padding] == 0:
            return
        padded = (target == padding).mean()
        supplied = tokens.padding is None or (tokens.indices == padding).any()
        if padded >= _SHARE and supplied and np.any(target != padding):
            creation = self.session.built_at.get(call.module) if call.is_of_module else None
            self.report(f"{padded:.0%} of the targets are padding ({padding})", creation, call.spot,
                        tokens.spot, share=float(padded))

    def _infer_padding(self, call: LossCall, indices: np.ndarray) -> int | None:
        """Return the value that fills up target rows, if the token rows are filled up too."""
        target = call.target._array
        if target.ndim == 1 and target.size == indices.size:
            target = target.reshape(indices.shape)
        if target.ndim != 2 or target.shape != indices.shape or find_filler(indices) is None:
            self.times = 0
            return None
        filler = find_filler(target)
        self.times = self.times + 1 if filler is not None else 0
        return filler if self.times >= 3 else None


def find_filler(rows: np.ndarray) -> int | None:
    """Return the value that fills rows up at their end, to several lengths, and occurs nowhere
    else."""
    if len(rows) < 4 or rows.shape[1] < 3:
        return None
    filler = int(np.bincount(rows[:, -1]).argmax()) if rows[:, -1].min() >= 0 else -1
    filled = rows == filler
    lengths = rows.shape[1] - filled.sum(1)
    at_the_end = np.arange(rows.shape[1]) >= lengths[:, None]
    has_several_lengths = len(np.unique(lengths)) > 2 and (lengths < rows.shape[1]).mean() >= 0.5
    return filler if has_several_lengths and np.array_equal(filled, at_the_end) else None
