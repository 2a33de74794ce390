"""A model of the next token that sees the next token."""

from __future__ import annotations

from typing import Any, ClassVar

from ...events import Backward, LossCall, Tokens
from ...finding import Level
from ...places import Spot
from ...programs import edit
from ..rule import Rule
from .tokens import find_pairing, sees_the_future


class FutureVisible(Rule):
    """Looks whether the scores at the first position have a gradient at later tokens."""

    id = "future-tokens-visible"
    level = Level.CERTAIN
    needs: ClassVar[tuple[str, ...]] = ("on_embedding", "on_loss")
    title = "the model sees the next token, which it should predict: the causal mask is missing"
    why = (
        "The loss falls to nothing, and the model is useless for generation: it copies from a "
        "future that is not available. Judged once per loss: the targets are the input tokens "
        "shifted by one, and the scores at the first position depend on later tokens."
    )
    fix = (
        "mask the future: is_causal=True, nn.Transformer.generate_square_subsequent_mask(n), or a "
        "unidirectional recurrent network"
    )
    broken = """
tokens = torch.randint(0, 12, (8, 9))
embedding, head = nn.Embedding(12, 8), nn.Linear(8, 12)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
parts = nn.ModuleList([embedding, layer, head])
optimizer = optim.Adam(parts.parameters())
for _ in range(4):
    hidden = layer(embedding(tokens[:, :-1]))  # <-
    logits = head(hidden)
    loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "parts = nn.ModuleList([embedding, layer, head])":
            "parts = nn.ModuleList([embedding, layer, head])\n"
            "mask = nn.Transformer.generate_square_subsequent_mask(8)",
        "hidden = layer(embedding(tokens[:, :-1]))  # <-":
            "hidden = layer(embedding(tokens[:, :-1]), src_mask=mask)",
    })
    healthy = ("""
# Tags, not next tokens: both sides may be seen.
tokens = torch.randint(0, 12, (8, 9))
embedding, rnn = nn.Embedding(12, 8), nn.LSTM(8, 8, batch_first=True, bidirectional=True)
head = nn.Linear(16, 3)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    loss = F.cross_entropy(head(rnn(embedding(tokens))[0]).transpose(1, 2), tokens % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Next tokens by a recurrent network, which reads from left to right.
tokens = torch.randint(0, 12, (8, 9))
embedding, rnn, head = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 12)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    logits = head(rnn(embedding(tokens))[0])
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 12), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.tokens: list[Tokens] = []
        self.judged: set[Spot | None] = set()
        self.attention: list[Spot | None] = []  # where attention was called
        self.masks: list[Spot | None] = []  # and where triu() or tril() built its mask

    def on_embedding(self, tokens: Tokens) -> None:
        self.tokens = [*self.tokens[-3:], tokens]

    def on_function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
                    spot: Spot | None) -> None:
        if name in ("multi_head_attention_forward", "scaled_dot_product_attention"):
            self.attention.append(spot)

    def on_triangle(self, result: Any, spot: Spot | None) -> None:
        self.masks.append(spot)

    def on_backward(self, backward: Backward) -> None:
        self.tokens.clear()
        self.attention.clear()
        self.masks.clear()

    on_gradient = on_backward

    def on_loss(self, call: LossCall) -> None:
        if call.spot in self.judged or not call.recorded:
            return
        for tokens in reversed(self.tokens):
            pair = find_pairing(call, tokens)
            if pair is None:
                continue
            self.judged.add(call.spot)
            sees = sees_the_future(call, tokens, pair)
            if sees is not None:
                self.judge(call, tokens, pair.shift, sees)
            return

    def judge(self, call: LossCall, tokens: Tokens, shift: int, sees: bool) -> None:
        """Report a model that predicts next tokens and sees them."""
        if shift == 1 and sees:
            self.report("the scores at the first position depend on the tokens after it, which are "
                        "the targets", *self.masks[-1:], *self.attention[-1:], call.spot,
                        tokens.spot,
                        tokens=str(tokens.indices.shape))
