"""Digits through the Trainer, as with ignite: functions decorated with events."""

from __future__ import annotations

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer, epoch, run, step

torch.manual_seed(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"])


@trainer.on(step.end(lambda run, n: run.state.batch_number == 1))
def begin(run):
    run.first = run.state.loss


@trainer.on(epoch.end)
def report(run):
    fell = float(run.first - run.state.loss)
    accuracy = run.metric("valid_accuracy")
    print(f"epoch {run.state.epoch}: loss fell by {fell:.4f}, accuracy {accuracy:.2%}")
    if accuracy > 0.935:
        run.stop()


@trainer.on(epoch.end(every=2))
def slower(run):
    run.optimizer.param_groups[0]["lr"] /= 2


trainer.on(run.end)(lambda run: print(f"{run.state.step} steps"))
trainer.fit(mnist_data.load("train"), mnist_data.load("test"), epochs=10, batch_size=64)
