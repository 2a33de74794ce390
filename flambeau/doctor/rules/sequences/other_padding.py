"""An embedding whose padding_idx is a word, while another token pads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events import Tokens
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_ROWS = 32  # that are looked at before a judgement
_MAX_TOKENS = 1 << 18  # of a batch that is looked at
_MIN_ROWS_PER_PADDED = 8


class OtherPadding(Rule):
    """Looks for the token that fills the ends of rows, and for that of padding_idx."""

    id = "padding-is-another-token"
    level = Level.LIKELY
    needs = ("on_embedding",)
    title = "padding_idx is the index of a real token, which is never trained; another token pads"
    why = (
        "The row at padding_idx is 0 and gets no gradient. Reported when rows end in runs of "
        "various lengths of one token that occurs nowhere else, while the token at padding_idx "
        "occurs before them and never ends a row."
    )
    fix = "set padding_idx to the token that pads the rows"
    broken = """
tokens = torch.randint(0, 12, (64, 9))
tokens[tokens == 1] = 2
for row, length in enumerate(torch.randint(2, 8, (64,)).tolist()):
    tokens[row, length:] = 1
embedding = nn.Embedding(12, 8, padding_idx=0)  # <-
net = nn.Linear(8, 3)
optimizer = optim.Adam([*embedding.parameters(), *net.parameters()])
for _ in range(4):
    words = (tokens != 1).unsqueeze(-1)
    pooled = (embedding(tokens) * words).sum(1) / words.sum(1)
    loss = F.cross_entropy(net(pooled), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "embedding = nn.Embedding(12, 8, padding_idx=0)  # <-":
            "embedding = nn.Embedding(12, 8, padding_idx=1)",
    })
    healthy = (edit(broken, {
        # Padding at the start of the rows: the word that ends them is the same in all.
        "tokens[row, length:] = 1": "tokens[row, :length] = 0",
        "embedding = nn.Embedding(12, 8, padding_idx=0)  # <-":
            "embedding = nn.Embedding(12, 8, padding_idx=0)\ntokens[:, -1] = 1",
        "words = (tokens != 1).unsqueeze(-1)": "words = (tokens != 0).unsqueeze(-1)",
    }), edit(broken, {
        # Token 1 ends a sentence, and 0 pads after it.
        "tokens[row, length:] = 1":
            "tokens[row, length:] = 0\ntokens[row, length - 1] = 1",
        "embedding = nn.Embedding(12, 8, padding_idx=0)  # <-":
            "embedding = nn.Embedding(12, 8, padding_idx=0)",
        "words = (tokens != 1).unsqueeze(-1)": "words = (tokens != 0).unsqueeze(-1)",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        # By line: rows, rows with the token of padding_idx inside, the lengths of the runs.
        self.counts: dict[Any, list[Any]] = {}

    def on_embedding(self, tokens: Tokens) -> None:
        indices, padding, spot = tokens.indices, tokens.padding, tokens.spot
        if padding is None or indices.ndim != 2 or indices.shape[1] < 3 \
                or indices.size > _MAX_TOKENS:
            return
        counts = self.counts.setdefault((spot, padding), [0, 0, set(), set()])
        _note(counts, indices, padding)
        rows, n_with_padding, lengths, fillers = counts
        if rows < _ROWS or len(fillers) != 1 or len(lengths) < 3 \
                or n_with_padding < rows // _MIN_ROWS_PER_PADDED:
            return
        module = self.session.stack[-1] if self.session.stack else None
        built_at: Spot | None = self.session.built_at.get(module) if module is not None else None
        self.report(
            f"rows are padded with token {next(iter(fillers))}, and padding_idx is {padding}, "
            "which occurs among the words", built_at, spot, rows=rows,
            **{f"rows with token {padding}": n_with_padding},
        )


def _note(counts: list[Any], indices: np.ndarray, padding: int) -> None:
    """Add the rows of a batch. A token that cannot be padding adds a second filler."""
    last = indices[:, -1]
    run = (np.flip(indices, 1) == last[:, None]).cumprod(1).sum(1)
    filled = run >= 2
    tokens = np.unique(last[filled])
    counts[0] += len(indices)
    counts[2].update(run[filled].tolist())
    counts[3].update(tokens.tolist())
    for token in tokens:
        ends_here = np.where(last == token, run, 0)
        if ((indices == token).sum(1) != ends_here).any():
            counts[3].update((token, None))  # also a word
    if padding in last:
        counts[3].update((padding, None))
    counts[1] += int((indices == padding).any(1).sum())
