"""torch.compile around a model and around a step, with dynamic shapes and a fallback."""

import torch
from torch import nn

torch.manual_seed(29)
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.BatchNorm1d(20), nn.Linear(20, 1))
try:
    fast = torch.compile(model, backend="eager")
    fast(torch.randn(4, 10))
except Exception:  # no compiler on this machine
    fast = model
torch.manual_seed(30)
opt = torch.optim.Adam(model.parameters(), 1e-2)


def train(x, y):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(fast(x), y)
    loss.backward()
    opt.step()
    return loss


for i in range(8):
    n = 16 if i % 3 else 12
    print(i, f"{train(torch.randn(n, 10), torch.randn(n, 1)).item():.5f}")
model.eval()
with torch.no_grad():
    print(
        fast(torch.ones(2, 10)).squeeze().tolist() == model(torch.ones(2, 10)).squeeze().tolist(),
        sorted(fast.state_dict())[:2],
    )
