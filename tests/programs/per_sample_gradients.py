"""torch.func: functional_call, vmap of grad, jacrev, hessian, ensembles, and a MAML step."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    stack_module_state,
    vjp,
    vmap,
)

torch.manual_seed(21)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
params = {k: v.detach() for k, v in net.named_parameters()}
x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))


def loss_fn(params, sample, target):
    return F.cross_entropy(
        functional_call(net, params, (sample.unsqueeze(0),)), target.unsqueeze(0)
    )


per_sample = vmap(grad(loss_fn), in_dims=(None, 0, 0))(params, x, y)
print({k: tuple(v.shape) for k, v in per_sample.items()})
norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
print(norms)
mean = {k: v.mean(0) for k, v in per_sample.items()}
whole = grad(lambda p: F.cross_entropy(functional_call(net, p, (x,)), y))(params)
print(max((mean[k] - whole[k]).abs().max().item() for k in mean) < 1e-6)
f = lambda v: (v.sin() * v.flip(0)).sum() * v
v = torch.tensor([0.1, 0.5, -0.3])
print(jacrev(f)(v), hessian(lambda t: (t**3).sum() * t[0])(v))
_, pull = vjp(f, v)
print(pull(torch.ones(3))[0])
models = [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)) for _ in range(3)]
p, b = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
preds = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(p, b, x)
print(preds.shape, torch.allclose(preds[1], models[1](x), atol=1e-6))


def maml(w, sx, sy, qx, qy):
    inner = lambda w: ((sx @ w - sy) ** 2).mean()
    w2 = w - 0.1 * grad(inner)(w)
    return ((qx @ w2 - qy) ** 2).mean()


tasks = [torch.randn(3, 5, 2), torch.randn(3, 5), torch.randn(3, 5, 2), torch.randn(3, 5)]
g, l = grad_and_value(lambda w: vmap(lambda *t: maml(w, *t))(*tasks).mean())(torch.zeros(2))
print(g, l)
print(
    vmap(torch.dot)(torch.randn(4, 3), torch.randn(4, 3)).shape,
    vmap(lambda a: a.sort().values, out_dims=1)(torch.randn(2, 3)).shape,
)
