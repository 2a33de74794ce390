"""A denoising diffusion model on points: time embedding, EMA weights, ancestral sampling."""

import copy
import math

import torch
from torch import nn

torch.manual_seed(9)
T = 20
betas = torch.linspace(1e-4, 0.2, T)
alphas = 1 - betas
bar = torch.cumprod(alphas, 0)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer(
            "freq", torch.exp(-math.log(1e4) * torch.arange(dim // 2) / (dim // 2)), False
        )

    def forward(self, t):
        a = t[:, None].float() * self.freq[None]
        return torch.cat([a.sin(), a.cos()], -1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = TimeEmbedding(16)
        self.net = nn.Sequential(
            nn.Linear(18, 64), nn.Mish(), nn.Linear(64, 64), nn.Mish(), nn.Linear(64, 2)
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], -1))


model = Net()
ema = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.AdamW(model.parameters(), 3e-3)
theta = torch.rand(256) * 2 * math.pi
data = torch.stack([theta.cos(), theta.sin()], 1) + 0.05 * torch.randn(256, 2)
for step in range(30):
    x0 = data[torch.randint(0, 256, (64,))]
    t = torch.randint(0, T, (64,))
    eps = torch.randn_like(x0)
    xt = bar[t].sqrt()[:, None] * x0 + (1 - bar[t]).sqrt()[:, None] * eps
    loss = nn.functional.mse_loss(model(xt, t), eps)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.1)
    if step % 10 == 0:
        print(step, f"{loss.item():.5f}")


@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2)
    for t in reversed(range(T)):
        z = torch.randn_like(x) if t else torch.zeros_like(x)
        e = ema(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - bar[t]).sqrt() * e) / alphas[t].sqrt() + betas[t].sqrt() * z
    return x


print(sample(3))
