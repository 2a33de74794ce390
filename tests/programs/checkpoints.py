"""Saving, resuming, strict=False, partial loading, map_location, best model, weights_only."""

import copy
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(15)


def make():
    return nn.ModuleDict(
        {
            "body": nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh()),
            "head": nn.Linear(8, 2),
        }
    )


def step(m, opt, x, y):
    loss = nn.functional.cross_entropy(m["head"](m["body"](x)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


x, y = torch.randn(20, 6), torch.randint(0, 2, (20,))
model = make()
opt = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3)
best, best_state = float("inf"), None
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    for epoch in range(3):
        loss = step(model, opt, x, y)
        sched.step()
        if loss < best:
            best, best_state = loss, copy.deepcopy(model.state_dict())
        torch.save(
            {
                "epoch": epoch,
                "model": model.state_dict(),
                "opt": opt.state_dict(),
                "sched": sched.state_dict(),
                "rng": torch.get_rng_state(),
                "best": best,
            },
            path,
        )
    a = [step(model, opt, x, y), torch.rand(()).item()]
    ckpt = torch.load(path, map_location="cpu", weights_only=True)
    print(sorted(ckpt), ckpt["epoch"], round(ckpt["best"], 5))
    model2 = make()
    opt2 = torch.optim.AdamW(model2.parameters(), 5.0)
    sched2 = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt2, 3)
    print(model2.load_state_dict(ckpt["model"]))
    opt2.load_state_dict(ckpt["opt"])
    sched2.load_state_dict(ckpt["sched"])
    torch.set_rng_state(ckpt["rng"])
    b = [step(model2, opt2, x, y), torch.rand(()).item()]
    print(a == b, round(b[0], 5), sched2.get_last_lr())
    other = nn.ModuleDict({"body": model["body"], "tail": nn.Linear(8, 3)})
    print(other.load_state_dict(ckpt["model"], strict=False))
    try:
        nn.Linear(3, 2).load_state_dict({"weight": torch.zeros(2, 4), "extra": torch.zeros(1)})
    except RuntimeError as e:
        print(e)
    torch.save(model, path)
    try:
        torch.load(path)
    except Exception as e:
        print(type(e).__name__, str(e).splitlines()[0][:60])
    whole = torch.load(path, weights_only=False)
    print(type(whole).__name__, torch.equal(whole["head"].weight, model["head"].weight))
model.load_state_dict(best_state)
print(opt.state_dict()["state"][0]["step"], opt.state_dict()["param_groups"][0]["params"])
