"""Attention masks of 0 and 1 as floats, which attention adds to its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....tensor.tensor import Tensor
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule

_MAX_MASK_ELEMENTS = 1 << 22  # larger masks are not read, to save time
_MAX_TRIANGLES = 4  # results of triu() and tril() to remember
# Functions that add a mask of floats: the position and keyword of each mask argument.
_MASK_ARGUMENTS = {
    "multi_head_attention_forward": ((14, "key_padding_mask"), (16, "attn_mask")),
    "scaled_dot_product_attention": ((3, "attn_mask"),),
}


class MaskOfOnes(Rule):
    """Looks at the values of float masks that attention is given."""

    id = "attention-mask-of-ones"
    level = Level.LIKELY
    needs = ("on_function",)
    title = "an attention mask of floats 0 and 1 hides nothing: it is added to the scores"
    why = (
        "A float mask is added before the softmax, so 0 and 1 differ by a factor of e. Only -inf "
        "hides a position. Not reported for other values, such as a distance bias, or for a "
        "learned mask."
    )
    fix = "pass a bool mask, or mask.masked_fill(hidden, float('-inf'))"
    broken = """
embedding, head = nn.Embedding(12, 8), nn.Linear(8, 12)
attention = nn.MultiheadAttention(8, 2, batch_first=True)
optimizer = optim.Adam(nn.ModuleList([embedding, attention, head]).parameters())
mask = torch.tril(torch.ones(6, 6))  # <-
for _ in range(4):
    tokens = torch.randint(0, 12, (8, 7))
    rows = embedding(tokens[:, :-1])
    out, _weights = attention(rows, rows, rows, attn_mask=mask)
    loss = F.cross_entropy(head(out).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "mask = torch.tril(torch.ones(6, 6))  # <-":
            "mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), diagonal=1)",
    })
    healthy = (edit(broken, {
        # A causal mask of 0 and -inf.
        "mask = torch.tril(torch.ones(6, 6))  # <-":
            "mask = nn.Transformer.generate_square_subsequent_mask(6)",
    }), edit(broken, {
        # A bias that falls with the distance.
        "mask = torch.tril(torch.ones(6, 6))  # <-":
            "mask = -0.5 * (torch.arange(6)[:, None] - torch.arange(6)).abs().float()\n"
            "mask = mask.masked_fill(mask.triu(1) < 0, float('-inf'))",
    }))

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.triangles: list[tuple[np.ndarray, Spot | None]] = []  # latest last

    def on_triangle(self, result: Any, spot: Spot | None) -> None:
        self.triangles = [*self.triangles[1 - _MAX_TRIANGLES:], (result._array, spot)]

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        for position, keyword in _MASK_ARGUMENTS.get(name, ()):
            mask = args[position] if len(args) > position else kwargs.get(keyword)
            if not isinstance(mask, Tensor) or mask.requires_grad:
                continue
            array = mask._array
            if array.dtype.kind != "f" or not 2 <= array.size <= _MAX_MASK_ELEMENTS:
                continue
            is_one = array == 1
            if is_one.any() and not is_one.all() and np.all(is_one | (array == 0)):
                built_at = [origin for triangle, origin in self.triangles
                            if triangle.shape == array.shape[-2:] and (triangle == array).all()]
                self.report(f"`{keyword}` holds 0 and 1 as floats, which are added to the scores",
                            *built_at[-1:], spot, shape=list(array.shape),
                            ones=float(is_one.mean()))
