"""A small GAN with two optimizers learns to put points on a ring; prints how far off they are.

    python examples/train_gan.py
"""

from __future__ import annotations

import flambeau as torch
from flambeau import nn
from flambeau.nn.functional import binary_cross_entropy_with_logits as bce
from flambeau.train import Trainer, epoch

NOISE = 4


def mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2),
        nn.Linear(64, outputs),
    )


torch.manual_seed(1)
angle = torch.rand(4096) * 2 * torch.pi
ring = torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(4096, 2)
nets = nn.ModuleDict({"generator": mlp(NOISE, 2), "discriminator": mlp(2, 1)})
optimizers = {
    name: torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for name, net in nets.items()
}
trainer = Trainer(nets, optimizers)


@trainer.step
def play(run, batch):
    (real,), generator, discriminator = batch, run.net["generator"], run.net["discriminator"]
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
    fake = generator(torch.randn(len(real), NOISE))

    run.optimizers["discriminator"].zero_grad()
    loss_d = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
    loss_d.backward()
    run.optimizers["discriminator"].step()

    run.optimizers["generator"].zero_grad()
    loss_g = bce(discriminator(fake), ones)
    loss_g.backward()
    run.optimizers["generator"].step()
    return {"discriminator": loss_d, "generator": loss_g}


@trainer.on(epoch.end(every=10))
def report(run):
    with torch.no_grad():
        points = run.net["generator"](torch.randn(1000, NOISE))
    off = (points.norm(dim=1) - 1).abs().mean().item()
    logs = ", ".join(f"{name} {value:.3f}" for name, value in run.logs.items())
    print(f"epoch {run.state.epoch}: {logs}, off the ring by {off:.3f}")


trainer.fit(ring, epochs=60, batch_size=256)
