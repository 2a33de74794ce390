"""A causal model whose targets are its own input."""

from __future__ import annotations

from ...events import LossCall, Tokens
from ...finding import Level
from ...programs import edit
from .future_visible import FutureVisible


class TargetNotShifted(FutureVisible):
    """Compares targets with the tokens that a causal model was given."""

    id = "target-not-shifted"
    level = Level.CERTAIN
    needs = ("on_embedding", "on_loss")
    title = "a causal model is trained to predict its input token, not the next one"
    why = (
        "It learns to copy, and the loss falls fast. Not reported for models that see the whole "
        "sequence, such as autoencoders, or if the input tokens are masked or changed."
    )
    fix = "shift: model(tokens[:, :-1]) predicts tokens[:, 1:]"
    broken = """
tokens = torch.randint(0, 12, (8, 9))
embedding, rnn, head = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 12)
optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
for _ in range(4):
    logits = head(rnn(embedding(tokens))[0])
    loss = F.cross_entropy(logits.reshape(-1, 12), tokens.reshape(-1))  # <-
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    fixed = edit(broken, {
        "logits = head(rnn(embedding(tokens))[0])":
            "logits = head(rnn(embedding(tokens[:, :-1]))[0])\n"
            "loss = F.cross_entropy(logits.reshape(-1, 12), tokens[:, 1:].reshape(-1))",
        "loss = F.cross_entropy(logits.reshape(-1, 12), tokens.reshape(-1))  # <-": "",
    })
    healthy = ("""
# An autoencoder of sequences: all of them passes through one vector.
tokens = torch.randint(0, 12, (8, 9))
embedding, head = nn.Embedding(12, 8), nn.Linear(8, 12)
encoder, decoder = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
parts = nn.ModuleList([embedding, encoder, decoder, head])
optimizer = optim.Adam(parts.parameters())
for _ in range(4):
    code = encoder(embedding(tokens))[1][0]
    logits = head(decoder(code[:, None].expand(-1, 9, -1))[0])
    loss = F.cross_entropy(logits.transpose(1, 2), tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", """
# Masked tokens are to be found again; the others do not count.
tokens = torch.randint(1, 12, (8, 9))
hidden = torch.rand(8, 9) < 0.4
embedding, head = nn.Embedding(12, 8), nn.Linear(8, 12)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
parts = nn.ModuleList([embedding, layer, head])
optimizer = optim.Adam(parts.parameters())
for _ in range(4):
    logits = head(layer(embedding(tokens.masked_fill(hidden, 0))))
    loss = F.cross_entropy(logits.transpose(1, 2), tokens.masked_fill(~hidden, -100))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")

    def judge(self, call: LossCall, tokens: Tokens, shift: int, sees: bool) -> None:
        """Report a causal model whose targets are its own inputs."""
        if shift == 0 and not sees:
            self.report("the targets are the model's input tokens", call.spot,
                        tokens.spot, tokens=str(tokens.indices.shape))
