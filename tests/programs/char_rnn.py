"""A character LSTM trained by truncated backpropagation, sampled with temperature and top-k."""

import torch
from torch import nn

torch.manual_seed(3)
text = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 6
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])


class RNN(nn.Module):
    def __init__(self, vocab, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, 24)
        self.lstm = nn.LSTM(24, hidden, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        y, state = self.lstm(self.emb(x), state)
        return self.out(y), state


net = RNN(len(chars))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5, gamma=0.5)
batch, seq = 4, 16
n = (len(ids) - 1) // (batch * seq) * batch * seq
xs, ys = ids[:n].view(batch, -1), ids[1 : n + 1].view(batch, -1)
for epoch in range(3):
    state = None
    for i in range(0, xs.size(1), seq):
        x, y = xs[:, i : i + seq], ys[:, i : i + seq]
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = net(x, state)
        loss = nn.functional.cross_entropy(logits.reshape(-1, len(chars)), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        opt.step()
    sched.step()
    print(epoch, f"{loss.item():.4f}", opt.param_groups[0]["lr"])
net.eval()
x, state, out = torch.tensor([[stoi["t"]]]), None, "t"
with torch.inference_mode():
    for _ in range(20):
        logits, state = net(x, state)
        v, ix = torch.topk(logits[:, -1] / 0.8, 5)
        x = ix.gather(1, torch.multinomial(v.softmax(-1), 1))
        out += chars[x.item()]
print(out)
