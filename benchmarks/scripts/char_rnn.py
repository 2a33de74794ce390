"""A character-level LSTM on a play: 150 steps, then 200 characters sampled from it."""

import torch
import torch.nn.functional as F
from data import text
from torch import nn

torch.manual_seed(0)
codes, count = text()
BATCH, LENGTH = 32, 64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(count, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, count)

    def forward(self, x, state=None):
        y, state = self.lstm(self.embedding(x), state)
        return self.head(y), state


net = Net()
optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
for _ in range(150):
    starts = torch.randint(len(codes) - LENGTH - 1, (BATCH,)).tolist()
    batch = torch.stack([codes[i : i + LENGTH + 1] for i in starts])
    logits, _ = net(batch[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, count), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
x, state = codes[:1].view(1, 1), None
with torch.no_grad():
    for _ in range(200):
        logits, state = net(x, state)
        x = torch.multinomial(logits[0, -1].softmax(0), 1).view(1, 1)
print(f"loss {loss.item():.1f}")
