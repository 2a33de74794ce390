"""Autocast to bfloat16 with a GradScaler, accumulation, unscaling before clipping."""

import torch
from torch import nn
from torch.amp import GradScaler, autocast

torch.manual_seed(14)
model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = GradScaler("cpu", init_scale=1024.0, growth_interval=3)
x, y = torch.randn(64, 32), torch.randint(0, 10, (64,))
for step in range(8):
    with autocast(device_type="cpu", dtype=torch.bfloat16):
        out = model(x[step % 2 :: 2])
        loss = nn.functional.cross_entropy(out, y[step % 2 :: 2]) / 2
    scaler.scale(loss).backward()
    if step % 2:
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if step == 5:
            model[0].weight.grad[0, 0] = float("inf")
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        print(
            step, f"{loss.item():.3f} {norm.item():.2f}", scaler.get_scale(), out.dtype, loss.dtype
        )
half = nn.Linear(4, 2).to(torch.bfloat16)
print(
    half(torch.ones(1, 4, dtype=torch.bfloat16)).dtype,
    {k: v for k, v in scaler.state_dict().items() if k != "_growth_tracker"},
)
