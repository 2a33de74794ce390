"""A variational autoencoder with KL annealing, torch.distributions and BCE."""

import torch
from torch import nn, optim
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

torch.manual_seed(1)
data = (torch.rand(256, 64) > 0.7).float()


class VAE(nn.Module):
    def __init__(self, d=64, h=32, z=4):
        super().__init__()
        self.enc = nn.Linear(d, h)
        self.mu, self.logvar = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ELU(), nn.Linear(h, d))

    def forward(self, x):
        h = torch.tanh(self.enc(x))
        q = Normal(self.mu(h), torch.exp(0.5 * self.logvar(h)))
        return self.dec(q.rsample()), q


model = VAE()
opt = optim.Adam(model.parameters(), 1e-2, betas=(0.9, 0.99), eps=1e-7)
for epoch in range(4):
    beta = min(1.0, epoch / 3)
    perm = torch.randperm(len(data))
    for i in range(0, len(data), 64):
        x = data[perm[i : i + 64]]
        logits, q = model(x)
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
        kl = (
            kl_divergence(q, Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale)))
            .sum(1)
            .mean()
        )
        loss = rec + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{epoch} rec {rec.item():.3f} kl {kl.item():.4f}")
with torch.no_grad():
    print(torch.sigmoid(model.dec(torch.randn(2, 4)))[:, :5])
