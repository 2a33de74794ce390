"""Digits through the Trainer, as with tnt: a function of the state for each hook's name."""

from __future__ import annotations

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer

torch.manual_seed(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"])


def on_start_epoch(state):
    state["first"] = None


def on_update(state):
    state["first"] = state["loss"] if state["first"] is None else state["first"]


def on_end_epoch(state):
    fell, accuracy = float(state["first"] - state["loss"]), state["metrics"]["valid_accuracy"]
    print(f"epoch {state['epoch']}: loss fell by {fell:.4f}, accuracy {accuracy:.2%}")
    if state["epoch"] % 2 == 0:
        state["optimizer"].param_groups[0]["lr"] /= 2
    if accuracy > 0.935:
        trainer.stop()


for hook in (on_start_epoch, on_update, on_end_epoch):
    trainer.hooks[hook.__name__] = hook
trainer.hooks["on_end"] = lambda state: print(f"{state['t']} steps")
trainer.fit(mnist_data.load("train"), mnist_data.load("test"), epochs=10, batch_size=64)
