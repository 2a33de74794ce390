"""Healthy programs: frozen layers, fine-tuning, groups of parameters, averaged weights."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def _backbone():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten())


def frozen_backbone_and_new_head():
    model = nn.Sequential(_backbone(), nn.Linear(6, 10))
    for p in model[0].parameters():
        p.requires_grad = False
    model[1] = nn.Linear(6, 3)
    opt = optim.SGD(model[1].parameters(), lr=0.01, momentum=0.9)
    for _ in range(6):
        model.train()
        model[0].eval()
        loss = F.cross_entropy(model(torch.rand(8, 3, 10, 10)), torch.randint(0, 3, (8,)))
        opt.zero_grad()
        loss.backward()
        opt.step()


def frozen_parameters_passed_to_the_optimizer():
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
    model[0].requires_grad_(False)
    opt = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(8):
        loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
        opt.zero_grad()
        loss.backward()
        opt.step()


def features_under_no_grad():
    backbone, head = _backbone().eval(), nn.Linear(6, 2)
    opt = optim.Adam(head.parameters())
    for _ in range(6):
        with torch.no_grad():
            features = backbone(torch.rand(8, 3, 10, 10))
        loss = F.cross_entropy(head(features), torch.randint(0, 2, (8,)))
        opt.zero_grad()
        loss.backward()
        opt.step()


def thawed_layer_by_layer():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    model.requires_grad_(False)
    for depth in (4, 2, 0):
        model[depth].requires_grad_(True)
        opt = optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
        for _ in range(4):
            loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 2, (8,)))
            opt.zero_grad()
            loss.backward()
            opt.step()


def discriminative_rates_and_added_group():
    torch.manual_seed(2)
    body, head = nn.Linear(6, 8), nn.Linear(8, 2)
    opt = optim.AdamW([
        {"params": body.weight, "lr": 1e-5}, {"params": body.bias, "weight_decay": 0.0},
        {"params": head.parameters(), "lr": 1e-3},
    ], lr=1e-4)
    extra = nn.Linear(2, 2)
    for step in range(10):
        if step == 4:
            opt.add_param_group({"params": extra.parameters()})
        y = head(torch.tanh(body(torch.randn(8, 6))))
        if step >= 4:
            y = extra(y)
        opt.zero_grad()
        F.cross_entropy(y, torch.randint(0, 2, (8,))).backward()
        opt.step()


def lora():
    torch.manual_seed(3)

    class LoRA(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.02)
            self.b = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.a.T @ self.b.T

    model = nn.Sequential(LoRA(nn.Linear(6, 8)), nn.ReLU(), LoRA(nn.Linear(8, 3)))
    opt = optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(8):
        opt.zero_grad()
        F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
        opt.step()


def moving_average_of_the_weights():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    average = copy.deepcopy(model).eval()
    opt = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(8):
        opt.zero_grad()
        F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 2, (8,))).backward()
        opt.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 0.1)
            for a, b in zip(average.buffers(), model.buffers(), strict=True):
                a.copy_(b)
    with torch.no_grad():
        average(torch.randn(8, 6))


def stochastic_weight_averaging():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    opt = optim.SGD(model.parameters(), lr=0.1)
    averaged = optim.swa_utils.AveragedModel(model)
    cosine = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    swa = optim.swa_utils.SWALR(opt, swa_lr=0.05)
    data = [(torch.randn(8, 6), torch.randint(0, 2, (8,))) for _ in range(4)]
    for epoch in range(8):
        for x, y in data:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        if epoch > 4:
            averaged.update_parameters(model)
            swa.step()
        else:
            cosine.step()
    optim.swa_utils.update_bn(data, averaged)
    averaged.eval()
    with torch.no_grad():
        averaged(data[0][0])


def early_stopping_with_a_real_copy():
    torch.manual_seed(6)
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    opt = optim.Adam(model.parameters(), lr=1e-2)
    best, bad, best_state = float("inf"), 0, None
    for epoch in range(20):
        model.train()
        opt.zero_grad()
        F.mse_loss(model(x[:30]), y[:30]).backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            loss = F.mse_loss(model(x[30:]), y[30:]).item()
        if loss < best:
            best, bad, best_state = loss, 0, copy.deepcopy(model.state_dict())
        else:
            bad += 1
            if bad > 2:
                break
    model.load_state_dict(best_state)


def state_dict_of_another_model_loaded_at_the_start():
    torch.manual_seed(7)
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    state = first.state_dict()
    opt = optim.SGD(first.parameters(), lr=0.1)
    for step in range(8):
        opt.zero_grad()
        F.cross_entropy(first(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        opt.step()
        if step % 3 == 2:
            second.load_state_dict(state)  # an alias of the first model, on purpose its newest


def backbone_loaded_without_its_head():
    torch.manual_seed(8)
    old = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
    saved = {k: v for k, v in old.state_dict().items() if not k.startswith("2.")}
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model.load_state_dict(saved, strict=False)
    opt = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        opt.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
        opt.step()
