"""Healthy programs: odd uses of optimizers, gradients, schedules and half precision."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.optim import lr_scheduler


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))


def _batch():
    return torch.randn(8, 6), torch.randint(0, 2, (8,))


def accumulated_gradients():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    for step in range(24):
        x, y = _batch()
        (F.cross_entropy(net(x), y) / 4).backward()
        if (step + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()


def two_losses_each_with_its_backward():
    net, head = _net(), nn.Linear(6, 1)
    opt = optim.Adam([*net.parameters(), *head.parameters()])
    for _ in range(8):
        x, y = _batch()
        opt.zero_grad(set_to_none=False)
        F.cross_entropy(net(x), y).backward()
        F.mse_loss(head(x), x.sum(1, keepdim=True)).backward()
        opt.step()


def retained_graph_for_two_losses():
    net = _net()
    opt = optim.Adam(net.parameters())
    for _ in range(8):
        x, y = _batch()
        logits = net(x)
        opt.zero_grad()
        F.cross_entropy(logits, y).backward(retain_graph=True)
        (0.01 * logits.pow(2).mean()).backward()
        opt.step()


def grads_set_to_none_by_hand():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(8):
        x, y = _batch()
        for p in net.parameters():
            p.grad = None
        F.cross_entropy(net(x), y).backward()
        opt.step()


def descent_by_hand():
    torch.manual_seed(1)
    w, b = torch.randn(6, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(10):
        x = torch.randn(16, 6)
        loss = ((x @ w + b - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
            b -= 0.01 * b.grad
        w.grad.zero_()
        b.grad = None


def descent_by_hand_through_data():
    net = _net()
    for _ in range(8):
        x, y = _batch()
        net.zero_grad()
        F.cross_entropy(net(x), y).backward()
        for p in net.parameters():
            p.data.sub_(0.1 * p.grad.data)


def gradients_by_autograd_grad():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    params = list(net.parameters())
    for _ in range(8):
        x, y = _batch()
        grads = torch.autograd.grad(F.cross_entropy(net(x), y), params)
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        opt.step()


def lbfgs():
    torch.manual_seed(2)
    net = nn.Linear(6, 1)
    x, y = torch.randn(30, 6), torch.randn(30, 1)
    opt = optim.LBFGS(net.parameters(), lr=0.5, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss

    for _ in range(5):
        opt.step(closure)


def sharpness_aware_minimisation():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(6):
        x, y = _batch()
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            steps = [0.05 * p.grad / (p.grad.norm() + 1e-12) for p in net.parameters()]
            for p, e in zip(net.parameters(), steps, strict=True):
                p.add_(e)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for p, e in zip(net.parameters(), steps, strict=True):
                p.sub_(e)
        opt.step()
        opt.zero_grad()


def maml():
    torch.manual_seed(3)
    net = nn.Linear(1, 1)
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(6):
        outer = 0.0
        for _ in range(3):
            slope = torch.rand(1) * 4
            x = torch.randn(8, 1)
            inner = F.mse_loss(net(x), slope * x)
            grads = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)
            w, b = [p - 0.1 * g for p, g in zip(net.parameters(), grads, strict=True)]
            x = torch.randn(8, 1)
            outer = outer + F.mse_loss(F.linear(x, w, b), slope * x)
        opt.zero_grad()
        outer.backward()
        opt.step()


def schedules_by_epoch_and_by_batch():
    for make, each_batch in (
        (lambda o: lr_scheduler.StepLR(o, 2, 0.5), False),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.9), False),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=24), True),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 24), True),
        (lambda o: lr_scheduler.LinearLR(o, 1.0, 0.0, 24), True),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4), True),
        (lambda o: lr_scheduler.LambdaLR(o, lambda s: min(1.0, (s + 1) / 8)), True),
        (lambda o: lr_scheduler.PolynomialLR(o, 24), True),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.999), True),
    ):
        net = _net()
        opt = optim.SGD(net.parameters(), lr=0.1)
        schedule = make(opt)
        for _ in range(6):
            for _ in range(4):
                x, y = _batch()
                opt.zero_grad()
                F.cross_entropy(net(x), y).backward()
                opt.step()
                if each_batch:
                    schedule.step()
            if not each_batch:
                schedule.step()


def plateau_that_lowers_the_rate_often():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(opt, factor=0.1, patience=0)
    for _ in range(10):
        x, y = _batch()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
        schedule.step(1.0)


def mixed_precision_with_a_scaler():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for _ in range(6):
        x, y = _batch()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def steps_skipped_by_the_scaler():
    net = _net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    for _ in range(4):
        x, y = _batch()
        opt.zero_grad()
        scaler.scale(F.cross_entropy(net(x), y) * 1e4).backward()
        scaler.step(opt)
        scaler.update()


def gradient_surgery_between_tasks():
    torch.manual_seed(4)
    net = nn.Linear(6, 2)
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        x, y = _batch()
        grads = []
        for loss in (F.cross_entropy(net(x), y), net(x).pow(2).mean()):
            opt.zero_grad()
            loss.backward()
            grads.append([p.grad.clone() for p in net.parameters()])
        for p, a, b in zip(net.parameters(), *grads, strict=True):
            dot = (a * b).sum()
            p.grad = a + b if dot >= 0 else a - dot / (b * b).sum() * b + b
        opt.step()


def an_optimizer_of_ones_own():
    class SignSGD(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    net = _net()
    opt = SignSGD(net.parameters(), lr=1e-2)
    for _ in range(6):
        x, y = _batch()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def noisy_gradients_and_hooks():
    net = _net()
    for p in net.parameters():
        p.register_hook(lambda g: g + 1e-3 * torch.randn_like(g))
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        x, y = _batch()
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def alternating_optimizers_of_two_parts():
    torch.manual_seed(5)
    user, item = nn.Embedding(10, 4), nn.Embedding(12, 4)
    opts = [optim.SGD(user.parameters(), lr=0.1), optim.SGD(item.parameters(), lr=0.1)]
    for step in range(12):
        u, i, r = torch.randint(0, 10, (8,)), torch.randint(0, 12, (8,)), torch.rand(8)
        loss = F.mse_loss((user(u) * item(i)).sum(1), r)
        for opt in opts:
            opt.zero_grad()
        loss.backward()
        opts[step % 2].step()
