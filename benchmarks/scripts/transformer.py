"""A causal transformer on characters, its model compiled by torch.compile: 120 steps."""

import torch
import torch.nn.functional as F
from data import text
from torch import nn

torch.manual_seed(0)
codes, count = text()
BATCH, LENGTH, WIDTH = 16, 64, 128


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(count, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True,
                                           norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, count)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask)

    def forward(self, x):
        hidden = self.tokens(x) + self.places.weight
        return self.head(self.blocks(hidden, self.mask, is_causal=True))


net = Net()
compiled = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(120):
    starts = torch.randint(len(codes) - LENGTH - 1, (BATCH,)).tolist()
    batch = torch.stack([codes[i : i + LENGTH + 1] for i in starts])
    logits = compiled(batch[:, :-1].contiguous())
    loss = F.cross_entropy(logits.view(-1, count), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.1f}")
