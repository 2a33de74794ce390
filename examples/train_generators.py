"""Digits through the Trainer, with generator callbacks: one function through several stages."""

from __future__ import annotations

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer, epoch, run, step, train

torch.manual_seed(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"])


@trainer.on(epoch)
def report(run):
    yield step.end
    first = run.state.loss
    yield train.end
    fell = float(first - run.state.loss)
    yield  # until the epoch's end
    accuracy = run.metric("valid_accuracy")
    print(f"epoch {run.state.epoch}: loss fell by {fell:.4f}, accuracy {accuracy:.2%}")
    if accuracy > 0.935:
        run.stop()


@trainer.on(run)
def slower(run):
    while (yield epoch.end(every=2) | run.end) is epoch.end:
        run.optimizer.param_groups[0]["lr"] /= 2
    print(f"{run.state.step} steps")


trainer.fit(mnist_data.load("train"), mnist_data.load("test"), epochs=10, batch_size=64)
