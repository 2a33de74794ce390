"""Transfer learning: frozen layers, rates by group, LoRA by hand, distillation, dtypes."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(28)


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=4):
        super().__init__()
        self.base = base
        base.weight.requires_grad_(False)
        self.A, self.B = (
            nn.Parameter(torch.empty(r, base.in_features)),
            nn.Parameter(torch.zeros(base.out_features, r)),
        )
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scale


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.norm = nn.RMSNorm(8)
        self.fc = nn.Linear(8, 100)
        self._forget = nn.Linear(1, 1)
        self._persistent = {}

    def forward(self, x):
        for l in self.layers:
            x = F.silu(l(x)) + x
        return self.fc(self.norm(x))


net = Encoder()
teacher = copy.deepcopy(net).eval().requires_grad_(False)
for p in net.parameters():
    p.requires_grad = False
net.fc = nn.Linear(net.fc.in_features, 3)
for i, l in enumerate(net.layers):
    net.layers[i] = LoRALinear(l)
for n, p in net.named_parameters():
    if "base.bias" in n:
        p.requires_grad_(True)
print(
    [n for n, p in net.named_parameters() if p.requires_grad],
    sum(p.numel() for p in net.parameters() if p.requires_grad),
)
opt = torch.optim.AdamW(
    [
        {
            "params": [p for n, p in net.named_parameters() if p.requires_grad and "fc" not in n],
            "lr": 1e-2,
        },
        {"params": net.fc.parameters(), "lr": 5e-2},
    ]
)
x, y = torch.randn(24, 8), torch.randint(0, 3, (24,))
for step in range(5):
    out = net(x)
    kd = (
        F.kl_div(
            F.log_softmax(out / 2, 1), F.softmax(teacher(x)[:, :3] / 2, 1), reduction="batchmean"
        )
        * 4
    )
    loss = F.cross_entropy(out, y) + 0.1 * kd
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.5f}")
print(
    net.to(torch.float64)(x.double()).dtype,
    next(net.half().parameters()).dtype,
    net.float().fc.weight.dtype,
)
opt.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 1.0})
print(len(opt.param_groups), opt)
print(
    net.get_submodule("layers.0.base"),
    [n for n, _ in net.named_children()],
    net.get_parameter("fc.bias").shape,
)
