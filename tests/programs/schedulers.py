"""All learning-rate schedulers, chained and sequenced, and SWA."""

import torch
from torch import nn
from torch.optim import lr_scheduler as S
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(16)


def run(make, n=10, metric=False):
    p = nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD(
        [{"params": [p]}, {"params": [nn.Parameter(torch.zeros(2))], "lr": 0.05}],
        lr=0.1,
        momentum=0.9,
    )
    s = make(opt)
    out = []
    for i in range(n):
        opt.step()
        s.step(1.0 / (1 + min(i, 3))) if metric else s.step()
        out.append([round(g["lr"], 6) for g in opt.param_groups])
    return out[::3]


print("step", run(lambda o: S.StepLR(o, 3)))
print("multi", run(lambda o: S.MultiStepLR(o, [2, 5], 0.3)))
print("exp", run(lambda o: S.ExponentialLR(o, 0.9)))
print("cos", run(lambda o: S.CosineAnnealingLR(o, 6, 0.01)))
print("warm", run(lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2)))
print("lambda", run(lambda o: S.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)])))
print("mult", run(lambda o: S.MultiplicativeLR(o, lambda e: 0.9)))
print("const", run(lambda o: S.ConstantLR(o, 0.5, 4)))
print("linear", run(lambda o: S.LinearLR(o, 0.1, total_iters=6)))
print("poly", run(lambda o: S.PolynomialLR(o, 8, 2.0)))
print("cyclic", run(lambda o: S.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2")))
print("one", run(lambda o: S.OneCycleLR(o, [0.5, 0.2], total_steps=12, three_phase=True)))
print(
    "plateau",
    run(lambda o: S.ReduceLROnPlateau(o, patience=1, factor=0.5, threshold=1e-3), metric=True),
)
print(
    "seq",
    run(
        lambda o: S.SequentialLR(
            o, [S.LinearLR(o, 0.1, total_iters=3), S.ExponentialLR(o, 0.8)], [4]
        )
    ),
)
print(
    "chain", run(lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)]))
)
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
swa, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
opt = torch.optim.SGD(model.parameters(), 0.1)
sw = SWALR(opt, swa_lr=0.02, anneal_epochs=3)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for i in range(6):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update_parameters(model)
    if i > 2:
        swa.update_parameters(model)
        sw.step()
update_bn([x], swa)
print(
    f"{loss.item():.5f} {nn.functional.mse_loss(swa(x), y).item():.5f} {nn.functional.mse_loss(ema(x), y).item():.5f}",
    opt.param_groups[0]["lr"],
    swa.n_averaged.item(),
)
