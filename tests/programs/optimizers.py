"""Every optimizer on a small net, with foreach, maximize, amsgrad and state dicts."""

import torch
from torch import nn

cases = [
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.1)),
    ("SGD", dict(lr=0.1, foreach=True)),
    ("Adam", dict(lr=0.02)),
    ("Adam", dict(lr=0.02, amsgrad=True, weight_decay=0.1, maximize=True)),
    ("AdamW", dict(lr=0.02)),
    ("Adamax", dict(lr=0.02)),
    ("NAdam", dict(lr=0.02)),
    ("RAdam", dict(lr=0.02)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.01)),
    ("Adadelta", dict(lr=1.0)),
    ("ASGD", dict(lr=0.05)),
    ("Rprop", dict(lr=0.01)),
    ("RMSprop", dict(lr=0.01, momentum=0.5, centered=True)),
    ("Adafactor", dict(lr=0.02)),
    ("Adam", dict(lr=torch.tensor(0.02), capturable=False, foreach=False)),
]
for name, options in cases:
    torch.manual_seed(17)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = getattr(torch.optim, name)(net.parameters(), **options)
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    for _ in range(6):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    state = opt.state_dict()
    print(
        name,
        f"{loss.item():.5f}",
        sorted(state["state"].get(0, {})),
        sorted(state["param_groups"][0])[:4],
    )
