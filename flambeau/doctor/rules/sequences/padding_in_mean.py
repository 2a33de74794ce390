"""A mean over the words of a sentence that counts the padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Backward, Tokens
from ...finding import Level
from ...graph import RESHAPES, Graph, find_module, find_spot, get_node, get_operator_name, get_saved
from ...programs import edit
from ..rule import Rule
from .padding_counted import find_filler

_TIMES = 3
_SHARE = 0.15  # of the tokens that are padding


class PaddingInMean(Rule):
    """Looks for means over the axis of time of rows that an embedding gave for padded tokens."""

    id = "padding-in-the-mean"
    level = Level.LIKELY
    needs = ("on_embedding", "on_backward")
    title = "the mean over a sentence's words includes the padding"
    why = (
        "A short sentence is then mostly padding, and its vector depends on the longest sentence "
        f"in its batch. Reported when at least {_SHARE:.0%} of the tokens are one index that ends "
        "most rows and occurs nowhere else, and an embedding's rows are averaged directly over "
        f"all positions, {_TIMES} times. A hint if the padding's row is zero (padding_idx)."
    )
    fix = "(rows * mask).sum(1) / mask.sum(1), with mask = (tokens != padding).unsqueeze(-1)"
    broken = """
tokens = torch.randint(1, 30, (64, 9))
tokens[torch.arange(9) >= torch.randint(3, 10, (64, 1))] = 0
embedding, head = nn.Embedding(30, 8), nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *head.parameters()])
for _ in range(4):
    sentences = embedding(tokens).mean(dim=1)  # <-
    loss = F.cross_entropy(head(sentences), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "sentences = embedding(tokens).mean(dim=1)  # <-":
            "mask = (tokens != 0).unsqueeze(-1)\n"
            "sentences = (embedding(tokens) * mask).sum(1) / mask.sum(1)",
    })
    healthy = (edit(broken, {
        # Sentences of one length.
        "tokens[torch.arange(9) >= torch.randint(3, 10, (64, 1))] = 0": "tokens[:, 7:] = 0",
        "sentences = embedding(tokens).mean(dim=1)  # <-":
            "sentences = embedding(tokens).mean(dim=1)",
    }), edit(broken, {
        # The mean of what is not masked, times how much that is.
        "sentences = embedding(tokens).mean(dim=1)  # <-":
            "mask = (tokens != 0).float().unsqueeze(-1)\n"
            "sentences = (embedding(tokens) * mask).mean(1) / mask.mean(1)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.tokens: list[Tokens] = []
        self.times = 0

    def on_embedding(self, tokens: Tokens) -> None:
        if tokens.indices.ndim == 2 and len(self.tokens) < 4:
            self.tokens.append(tokens)

    def on_backward(self, backward: Backward) -> None:
        batches, self.tokens = self.tokens, []
        if not backward.watched or self.times >= _TIMES:
            return
        for tokens in batches:
            padding_share = measure_padding(tokens.indices)
            node = _find_mean(tokens, backward.graph) if padding_share >= _SHARE else None
            if node is None:
                continue
            self.times += 1
            if self.times == _TIMES:
                self.report("the mean over all positions includes the padding", find_spot(node),
                            tokens.spot, level=Level.HINT if tokens.padding is not None else None,
                            padding=float(padding_share))
            return

    on_gradient = on_backward


def measure_padding(indices: np.ndarray) -> float:
    """Return the share of tokens that pad the ends of rows; 0 if uncertain."""
    filler = find_filler(indices) if indices.dtype.kind in "iu" else None
    return 0.0 if filler is None else float((indices == filler).mean())


def _find_mean(tokens: Tokens, graph: Graph) -> Any:
    """The mean over the positions that takes an embedding's rows as they are."""
    node = get_node(getattr(tokens.rows, "_node", None))
    while node is not None:
        users = graph.consumers.get(id(node), [])
        if len(users) != 1:
            return None
        node = users[0]
        if get_operator_name(node) == "mean":
            return node if get_saved(node, "dim") in (1, -2, (1,), (-2,)) else None
        is_dropout = "Dropout" in type(find_module(node)).__name__
        if not is_dropout and get_operator_name(node) not in RESHAPES:
            return None
    return None
