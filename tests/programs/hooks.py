"""Forward and backward hooks, feature extraction, gradient penalties by hooks, Grad-CAM."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3),
    nn.ReLU(),
    nn.Conv2d(4, 6, 3),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(6, 3),
)
acts, grads, log = {}, {}, []
handles = [
    net[2].register_forward_hook(lambda m, i, o: acts.__setitem__("conv", o)),
    net[2].register_full_backward_hook(lambda m, gi, go: grads.__setitem__("conv", go[0])),
    net[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
    net[6].register_forward_hook(
        lambda m, args, kwargs, out: log.append(sorted(kwargs)) or out * 0.5, with_kwargs=True
    ),
    net.register_full_backward_pre_hook(lambda m, go: log.append(tuple(go[0].shape))),
]
x = torch.randn(2, 1, 8, 8, requires_grad=True)
out = net(x)
out[:, 1].sum().backward()
cam = F.relu((grads["conv"].mean((2, 3), keepdim=True) * acts["conv"]).sum(1))
print(out, cam.sum().item(), x.grad.abs().sum().item(), log)
for h in handles:
    h.remove()
p = net[6].weight
p.grad = None
h = p.register_hook(lambda g: g.clamp(-0.01, 0.01))
p.register_post_accumulate_grad_hook(
    lambda t: log.append(("post", round(t.grad.abs().max().item(), 6)))
)
net(x).sum().backward()
h.remove()
y = x.detach().requires_grad_() * 3
y.retain_grad()
y.sum().backward()
print(log, y.grad.shape, p.grad.abs().max().item())
g = torch.nn.modules.module.register_module_forward_hook(
    lambda m, i, o: log.append(type(m).__name__)
)
net(x)
g.remove()
print(log[-3:])
packed = []
with torch.autograd.graph.saved_tensors_hooks(
    lambda t: packed.append(tuple(t.shape)) or t, lambda t: t
):
    (net[6](torch.ones(2, 6)) ** 2).sum().backward()
print(packed)
