"""Healthy programs that take derivatives in other ways: functional steps, inner loops, closures."""

from flambeau import nn
from flambeau.func import functional_call, stack_module_state, vmap, grad
import copy
import flambeau as torch
import flambeau.nn.functional as F
import math


def meta_learning_by_hand():
    torch.manual_seed(0)
    params = [torch.randn(1, 20) * 0.5, torch.zeros(20), torch.randn(20, 1) * 0.2, torch.zeros(1)]
    for p in params:
        p.requires_grad_()

    def net(x, w):
        return torch.tanh(x @ w[0] + w[1]) @ w[2] + w[3]

    def task():
        a, ph = torch.rand(()) * 4 + 0.5, torch.rand(()) * 3
        return lambda x: a * torch.sin(x + ph)

    meta = torch.optim.Adam(params, lr=1e-2)
    for it in range(40):
        meta.zero_grad()
        total = 0.0
        for _ in range(3):
            f = task()
            xs, xq = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
            inner = F.mse_loss(net(xs, params), f(xs))
            grads = torch.autograd.grad(inner, params, create_graph=True)
            fast = [p - 0.05 * g for p, g in zip(params, grads, strict=False)]
            total = total + F.mse_loss(net(xq, fast), f(xq))
        (total / 3).backward()
        meta.step()


def tensors_without_an_optimizer():
    torch.manual_seed(0)
    X = torch.randn(100, 3)
    y = X @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    w = torch.zeros(3, 1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    lr = 0.1
    for epoch in range(50):
        loss = ((X @ w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
            w.grad = None
            b.grad = None


def closures_of_lbfgs():
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 40).unsqueeze(1)
    y = torch.exp(-x)
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.LBFGS(net.parameters(), max_iter=10, line_search_fn="strong_wolfe")
    for it in range(5):
        def closure():
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            return loss


def ensemble_under_vmap():
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(4)]
    params, buffers = stack_module_state(models)
    base = models[0]
    x = torch.rand(64, 2) * 2 - 1
    y = (x[:, :1] * x[:, 1:]).sin()

    def loss_fn(p, xb, yb):
        return ((functional_call(base, p, (xb,)) - yb) ** 2).mean()

    g = vmap(grad(loss_fn), in_dims=(0, None, None))
    params = {k: v.detach() for k, v in params.items()}
    m = {k: torch.zeros_like(v) for k, v in params.items()}
    v2 = {k: torch.zeros_like(v) for k, v in params.items()}
    for t in range(1, 31):
        gr = g(params, x, y)
        for k in params:
            m[k] = 0.9 * m[k] + 0.1 * gr[k]
            v2[k] = 0.999 * v2[k] + 0.001 * gr[k] ** 2
            size = (v2[k] / (1 - 0.999 ** t)).sqrt() + 1e-8
            params[k] = params[k] - 0.01 * (m[k] / (1 - 0.9 ** t)) / size


def differential_equation():
    torch.manual_seed(0)
    u = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
    adam = torch.optim.Adam(u.parameters(), lr=5e-3)

    def residual():
        t = (torch.rand(48, 1) * math.pi).requires_grad_()
        y = u(t)
        dy, = torch.autograd.grad(y, t, torch.ones_like(y), create_graph=True)
        ddy, = torch.autograd.grad(dy.sum(), t, create_graph=True)
        t0 = torch.zeros(1, 1, requires_grad=True)
        y0 = u(t0)
        dy0, = torch.autograd.grad(y0.sum(), t0, create_graph=True)
        return (ddy + y).pow(2).mean() + y0.pow(2).sum() + (dy0 - 1).pow(2).sum()

    curve = []
    for i in range(60):
        adam.zero_grad()
        loss = residual()
        loss.backward()
        adam.step()
        curve.append(float(loss))
    lbfgs = torch.optim.LBFGS(u.parameters(), max_iter=5)

    def closure():
        lbfgs.zero_grad()
        torch.manual_seed(3)
        loss = residual()
        loss.backward()
        return loss

    for _ in range(4):
        lbfgs.step(closure)


def two_passes_for_an_update():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    X = torch.randn(200, 5)
    Y = (X[:, 0] ** 2 > X[:, 1]).long()
    rho = 0.05
    for epoch in range(4):
        for idx in torch.randperm(200).split(40):
            loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
            loss.backward()
            norm = torch.sqrt(sum((p.grad ** 2).sum() for p in net.parameters()))
            moved = []
            with torch.no_grad():
                for p in net.parameters():
                    e = rho * p.grad / (norm + 1e-12)
                    p.add_(e)
                    moved.append(e)
            opt.zero_grad()
            nn.functional.cross_entropy(net(X[idx]), Y[idx]).backward()
            with torch.no_grad():
                for p, e in zip(net.parameters(), moved, strict=False):
                    p.sub_(e)
            opt.step()
            opt.zero_grad()


def interpolated_weights():
    torch.manual_seed(0)
    meta = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
    for it in range(15):
        fast = copy.deepcopy(meta)
        opt = torch.optim.SGD(fast.parameters(), lr=0.02)
        a, b = torch.rand(2) * 3
        x = torch.rand(20, 1) * 6 - 3
        y = a * torch.sin(x + b)
        for _ in range(5):
            opt.zero_grad()
            loss = (fast(x) - y).pow(2).mean()
            loss.backward()
            opt.step()
        with torch.no_grad():
            for p, q in zip(meta.parameters(), fast.parameters(), strict=False):
                p += 0.1 * (q - p)


def attacks_in_training_and_after():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    X = torch.rand(120, 1, 8, 8)
    y = X.flatten(1)[:, :3].argmax(1)
    for epoch in range(10):
        for xb, yb in zip(X.split(30), y.split(30), strict=False):
            adv = xb.clone().requires_grad_(True)
            g, = torch.autograd.grad(F.cross_entropy(model(adv), yb), adv)
            adv = (xb + 0.02 * g.sign()).clamp(0, 1)
            opt.zero_grad()
            loss = 0.5 * F.cross_entropy(model(xb), yb) + 0.5 * F.cross_entropy(model(adv), yb)
            loss.backward()
            opt.step()
    model.eval().requires_grad_(False)
    noise = torch.zeros(1, 1, 8, 8, requires_grad=True)
    attack = torch.optim.Adam([noise], lr=0.05)
    for _ in range(20):
        attack.zero_grad()
        loss = -F.cross_entropy(model(X + noise.clamp(-0.1, 0.1)), y)
        loss.backward()
        attack.step()
