"""A siamese network: contrastive and triplet losses, pairs, a weighted sampler."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

torch.manual_seed(10)


class Pairs(Dataset):
    def __init__(self, n=80):
        self.x = torch.randn(n, 12)
        self.y = torch.randint(0, 4, (n,))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        j = (i * 7 + 3) % len(self)
        return {"a": self.x[i], "b": self.x[j], "same": float(self.y[i] == self.y[j])}


ds = Pairs()
weights = [2.0 if ds[i]["same"] else 1.0 for i in range(len(ds))]
loader = DataLoader(
    ds, 16, sampler=WeightedRandomSampler(weights, 64, generator=torch.Generator().manual_seed(0))
)
net = nn.Sequential(nn.Linear(12, 24), nn.PReLU(), nn.Linear(24, 8))
opt = torch.optim.Adamax(net.parameters(), 5e-3)
triplet = nn.TripletMarginLoss(margin=0.5, swap=True)
for epoch in range(3):
    for batch in loader:
        a, b = F.normalize(net(batch["a"]), dim=1), F.normalize(net(batch["b"]), dim=1)
        d = F.pairwise_distance(a, b)
        same = batch["same"].float()
        loss = (same * d.pow(2) + (1 - same) * F.relu(1.0 - d).pow(2)).mean()
        loss = (
            loss
            + 0.1 * triplet(a, b, b.roll(1, 0))
            + 0.1 * F.cosine_embedding_loss(a, b, same * 2 - 1, margin=0.2)
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, f"{loss.item():.5f}", batch["same"].dtype)
print(torch.cdist(a[:2], b[:3]))
