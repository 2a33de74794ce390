"""A padding mask that hides the words and shows the padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...events import Backward, Tokens
from ...finding import Level
from ...graph import find_spot, get_array, get_operator_name, get_saved
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_LARGEST = 1 << 22  # numbers of the attention weights looked at


class PaddingMaskInverted(Rule):
    """Compares an attention's key_padding_mask with the tokens that were looked up before."""

    id = "padding-mask-inverted"
    level = Level.CERTAIN
    needs = ("on_embedding",)
    title = "the padding mask is inverted: True hides a position from nn.MultiheadAttention"
    why = (
        "The model attends only to padding, and rows without padding become NaN. Reported when "
        "the positions that the mask leaves visible hold the same token in all rows, the padding, "
        "and the hidden ones hold others; for hand-written attention, when a softmax over the "
        "keys gives weight only to padding."
    )
    fix = "key_padding_mask=(tokens == padding): True means ignore"
    broken = """
tokens = torch.randint(1, 12, (8, 9))
tokens[:, 5:] = 0
embedding, head = nn.Embedding(12, 8, padding_idx=0), nn.Linear(8, 3)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
parts = nn.ModuleList([embedding, attention, head])
optimizer = optim.Adam(parts.parameters())
for _ in range(4):
    rows = embedding(tokens)
    out, _weights = attention(rows, rows, rows, key_padding_mask=tokens != 0)  # <-
    loss = F.cross_entropy(head(out.mean(1)), y[:8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "out, _weights = attention(rows, rows, rows, key_padding_mask=tokens != 0)  # <-":
            "out, _weights = attention(rows, rows, rows, key_padding_mask=tokens == 0)",
    })
    healthy = ("""
# Padding on the left.
tokens = torch.randint(1, 12, (8, 9))
tokens[:, :4] = 0
embedding, head = nn.Embedding(12, 8, padding_idx=0), nn.Linear(8, 3)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embedding, attention, head]).parameters())
for _ in range(4):
    rows = embedding(tokens)
    out, _weights = attention(rows, rows, rows, key_padding_mask=tokens == 0)
    loss = F.cross_entropy(head(out[:, -1]), y[:8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Some words are hidden at random.
tokens = torch.randint(1, 12, (8, 9))
embedding, head = nn.Embedding(12, 8), nn.Linear(8, 3)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embedding, attention, head]).parameters())
for _ in range(4):
    rows = embedding(tokens)
    hidden = torch.rand(8, 9) < 0.5
    hidden[:, 0] = False
    out, _weights = attention(rows, rows, rows, key_padding_mask=hidden)
    loss = F.cross_entropy(head(out.mean(1)), y[:8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.indices: list[np.ndarray] = []
        self.masks: list[tuple[np.ndarray, Spot | None]] = []  # and their lines
        self.judged_calls = False  # a call of the module was reported: its softmax is the same one

    def on_mask(self, mask: Any, spot: Spot | None) -> None:
        if isinstance(mask, Tensor) and mask.dim() == 2:
            self.masks = [*self.masks[-7:], (mask._array, spot)]

    def on_embedding(self, tokens: Tokens) -> None:
        self.indices = [*self.indices[-3:], tokens.indices]

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name != "multi_head_attention_forward":
            return
        mask = args[14] if len(args) > 14 else kwargs.get("key_padding_mask")
        if not isinstance(mask, Tensor) or mask.dim() != 2:
            return
        array = mask._array
        hidden = array if array.dtype == bool else np.isneginf(array)
        self.judged_calls |= self._judge(hidden, spot)

    def on_backward(self, backward: Backward) -> None:
        if not backward.watched or not self.indices or self.judged_calls:
            return
        for node in backward.graph.nodes:
            weights = get_array(get_saved(node,
                                          "y")) if get_operator_name(node) == "softmax" else None
            if weights is None or weights.ndim < 3 or weights.size > _LARGEST:
                continue
            shown = np.asarray(weights.any(axis=tuple(range(1, weights.ndim - 1))))
            rows = ~np.asarray(shown.all(axis=1))
            if shown[rows].sum() > rows.sum():  # else one position draws all attention
                self._judge(~shown[rows], find_spot(node), rows)

    on_gradient = on_backward

    def _judge(self, hidden: np.ndarray, spot: Spot | None, rows: Any = None) -> bool:
        """Compare hidden positions with their tokens; return whether the mask is inverted."""
        for indices in reversed(self.indices):
            if indices.ndim != 2 or (rows is not None and len(rows) != len(indices)):
                continue
            indices = indices if rows is None else indices[rows]
            if indices.shape != hidden.shape or not hidden.any() or hidden.all():
                continue
            visible = np.unique(indices[~hidden])
            if len(visible) == 1 and (~hidden).sum() > 2 and visible[0] not in indices[hidden] \
                    and len(np.unique(indices[hidden])) > 1:
                spots = [mask_spot
                         for mask, mask_spot in self.masks if np.array_equal(mask, hidden)]
                self.report(
                    f"only positions with the token {visible[0]} are attended to", *spots[-1:],
                    spot, hidden=float(hidden.mean()),
                )
                return True
            return False
        return False
