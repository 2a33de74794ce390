"""A DCGAN with spectral norm on the discriminator and a WGAN-GP penalty (double backward)."""

import torch
import torch.nn as nn
from torch.nn.utils import spectral_norm

torch.manual_seed(2)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


G = nn.Sequential(
    nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
)
D = nn.Sequential(
    spectral_norm(nn.Conv2d(1, 8, 4, 2, 1)),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 1, 4),
    nn.Flatten(),
)
G.apply(weights_init)
optG = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.5, 0.999))
optD = torch.optim.RMSprop(D.parameters(), 1e-3, alpha=0.9, centered=True)
real = torch.randn(16, 1, 8, 8).clamp(-1, 1)
for step in range(6):
    z = torch.randn(16, 8, 1, 1)
    fake = G(z)
    a = torch.rand(16, 1, 1, 1)
    mix = (a * real + (1 - a) * fake.detach()).requires_grad_(True)
    grad = torch.autograd.grad(D(mix).sum(), mix, create_graph=True)[0]
    gp = ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    lossD = D(fake.detach()).mean() - D(real).mean() + 10 * gp
    optD.zero_grad()
    lossD.backward()
    optD.step()
    for p in D.parameters():
        p.requires_grad_(False)
    lossG = -D(fake).mean()
    optG.zero_grad()
    lossG.backward()
    optG.step()
    for p in D.parameters():
        p.requires_grad_(True)
    print(step, f"{lossD.item():.4f} {lossG.item():.5f} {gp.item():.4f}")
print(sorted(D.state_dict()))
