"""A PyTorch program as a typed user writes it: `make lint` runs the strict type checker over it.

What is annotated here is what an editor must know of flambeau's public API. It is never run.
"""

from __future__ import annotations

from collections.abc import Iterator

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = F.relu(self.body(x))
        out: torch.Tensor = self.head(hidden)
        return out


def tensors() -> torch.Tensor:
    x: torch.Tensor = torch.randn(3, 4, dtype=torch.float32, requires_grad=True)
    y: torch.Tensor = (x * 2.0 + 1).exp().sum(dim=0)
    shape: torch.Size = y.shape
    kind: torch.dtype = y.dtype
    place: torch.device = y.device
    number: int | float | bool | complex = y.sum().item()
    rows: Iterator[torch.Tensor] = iter(x)
    first: torch.Tensor = x[0, 1:]
    y.sum().backward()
    grad: torch.Tensor | None = x.grad
    print(shape, kind, place, number, next(rows), first, grad)
    return torch.cat([y, y.detach()], dim=0)


def training(steps: int) -> float:
    model = Net(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    data = TensorDataset(torch.randn(16, 4), torch.randint(2, (16,)))
    last = 0.0
    for x, y in DataLoader(data, batch_size=4, shuffle=True):
        optimizer.zero_grad()
        loss: torch.Tensor = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        last = float(loss.item())
    scheduler.step()
    with torch.no_grad():
        model.eval()
    torch.save(model.state_dict(), "model.pt")
    model.load_state_dict(torch.load("model.pt"))
    return last + steps
