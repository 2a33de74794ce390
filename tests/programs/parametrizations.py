"""weight_norm, spectral_norm, orthogonal, custom parametrizations, pruning."""

import torch
import torch.nn as nn
import torch.nn.utils.parametrize as P
from torch.nn.utils import parametrizations, prune

torch.manual_seed(20)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


a = parametrizations.weight_norm(nn.Linear(5, 5))
b = parametrizations.spectral_norm(nn.Linear(5, 5), n_power_iterations=2)
c = nn.Linear(5, 5)
P.register_parametrization(c, "weight", Symmetric())
d = parametrizations.orthogonal(nn.Linear(5, 5))
net = nn.Sequential(a, nn.Tanh(), b, nn.Tanh(), c, nn.Tanh(), d, nn.Linear(5, 1))
prune.l1_unstructured(net[7], "weight", amount=0.4)
opt = torch.optim.Adam(net.parameters(), 0.02)
x, y = torch.randn(12, 5), torch.randn(12, 1)
for i in range(5):
    with P.cached():
        loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, f"{loss.item():.5f}")
print([k for k in net.state_dict()], net[7].weight_mask)
print(
    torch.allclose(c.weight, c.weight.T),
    (d.weight @ d.weight.T - torch.eye(5)).abs().max().item() < 1e-5,
)
prune.remove(net[7], "weight")
P.remove_parametrizations(c, "weight")
old = torch.nn.utils.weight_norm(nn.Linear(3, 2), name="weight")
print(sorted(n for n, _ in old.named_parameters()), c, P.is_parametrized(a))
torch.nn.utils.remove_weight_norm(old)
vec = torch.nn.utils.parameters_to_vector(net.parameters())
torch.nn.utils.vector_to_parameters(vec * 0.5, net.parameters())
print(vec.shape, net[7].weight.abs().sum().item())
