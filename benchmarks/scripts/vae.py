"""A variational autoencoder on digits: two epochs."""

import torch
import torch.nn.functional as F
from data import digits
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(400, 20), nn.Linear(400, 20)
        self.decode = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x):
        hidden = self.encode(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decode(z), mean, log_variance


net = VAE()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(2):
    total = 0.0
    for images, _ in DataLoader(digits("train", 10000), batch_size=128, shuffle=True):
        pixels = (images.view(-1, 784) * 0.3081 + 0.1307).clamp(0, 1)
        logits, mean, log_variance = net(pixels)
        loss = F.binary_cross_entropy_with_logits(logits, pixels, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
print(f"loss {total / 10000:.0f}")
