"""Skip-gram with negative sampling, and CBOW by EmbeddingBag; cosine neighbours at the end."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(7)
words = ("a b c d e f g h " * 20).split()
vocab = {w: i for i, w in enumerate(dict.fromkeys(words))}
ids = torch.tensor([vocab[w] for w in words])
center, context = nn.Embedding(8, 16), nn.Embedding(8, 16)
nn.init.uniform_(center.weight, -0.5 / 16, 0.5 / 16)
nn.init.zeros_(context.weight)
opt = torch.optim.Adagrad([*center.parameters(), *context.parameters()], lr=0.5)
noise = torch.bincount(ids, minlength=8).float() ** 0.75
windows = ids.unfold(0, 5, 1)
for epoch in range(3):
    c, o = windows[:, 2].repeat_interleave(4), windows[:, [0, 1, 3, 4]].reshape(-1)
    neg = torch.multinomial(noise, len(c) * 5, replacement=True).view(len(c), 5)
    v = center(c)
    pos = (v * context(o)).sum(-1)
    negs = torch.bmm(context(neg), v.unsqueeze(2)).squeeze(2)
    loss = -(F.logsigmoid(pos).mean() + F.logsigmoid(-negs).sum(1).mean())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, f"{loss.item():.5f}")
sim = F.cosine_similarity(center.weight[:1], center.weight, dim=1)
print(sim.topk(3))
bag = nn.EmbeddingBag(8, 16, mode="mean")
fc = nn.Linear(16, 8)
opt = torch.optim.SGD([*bag.parameters(), *fc.parameters()], lr=1.0)
flat, offsets = windows[:, [0, 1, 3, 4]].reshape(-1), torch.arange(0, len(windows) * 4, 4)
for epoch in range(3):
    loss = F.cross_entropy(fc(bag(flat, offsets)), windows[:, 2])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.5f}")
