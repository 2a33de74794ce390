"""RealNVP by hand and with distribution transforms; a Gaussian mixture; mixture density network."""

import torch
import torch.distributions as D
from torch import nn

torch.manual_seed(27)
data = torch.randn(128, 2) @ torch.tensor([[1.0, 0.5], [0.0, 0.3]]) + 1


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], 1), s.sum(1)


flow = nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)])
base = D.Independent(D.Normal(torch.zeros(2), torch.ones(2)), 1)
opt = torch.optim.Adam(flow.parameters(), 1e-2)
for i in range(10):
    z, logdet = data, 0
    for layer in flow:
        z, ld = layer(z)
        logdet = logdet + ld
    loss = -(base.log_prob(z) + logdet).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 3 == 0:
        print(i, f"{loss.item():.5f}")
mix = D.MixtureSameFamily(
    D.Categorical(logits=torch.zeros(3, requires_grad=True)),
    D.MultivariateNormal(torch.randn(3, 2, requires_grad=True), torch.eye(2)),
)
print(mix.log_prob(data).mean().item(), mix.sample((2,)).shape)
t = D.TransformedDistribution(
    D.Normal(0.0, 1.0), [D.AffineTransform(1.0, 2.0), D.SigmoidTransform()]
)
print(t.log_prob(torch.tensor([0.3, 0.7])), t.sample((2,)), t.cdf(torch.tensor(0.5)))
for d in (
    D.Beta(2.0, 3.0),
    D.Gamma(2.0, 1.0),
    D.Dirichlet(torch.ones(3)),
    D.StudentT(4.0),
    D.Poisson(3.0),
    D.Bernoulli(0.3),
    D.LogNormal(0.0, 0.5),
    D.Laplace(0.0, 1.0),
    D.Gumbel(0.0, 1.0),
    D.Exponential(2.0),
):
    s = d.sample((3,))
    print(
        type(d).__name__, s.flatten().tolist()[:3], d.log_prob(s).sum().item(), d.mean.sum().item()
    )
print(
    D.kl_divergence(D.Beta(2.0, 3.0), D.Beta(1.0, 1.0)).item(),
    D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=torch.zeros(3)).rsample(),
)
