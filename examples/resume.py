"""Digits, with a training that may be killed at any time: start it again with the same command,
and it goes on in the middle of the epoch, to the same last bit.

    python examples/resume.py runs/digits      # kill -9 it, and start it again
"""

from __future__ import annotations

import sys

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import OneCycleLR
from flambeau.train import Checkpoint, CSVLogger, EarlyStopping, Schedule, Trainer, epoch

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/digits"
torch.manual_seed(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2),
                    nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"])


@trainer.on(epoch.end)
def report(run):
    print(f"epoch {run.state.epoch}: step {run.state.step}, loss {run.logs['loss']!r}, "
          f"accuracy {run.logs['valid_accuracy']:.2%}", flush=True)


trainer.fit(
    mnist_data.load("train"), mnist_data.load("test"), epochs=10, batch_size=64,
    resume=folder,
    callbacks=[
        Schedule(lambda optimizer, run: OneCycleLR(
            optimizer, 4e-3, total_steps=run.state.batches * run.state.epochs)),
        EarlyStopping("valid_accuracy", patience=4),
        Checkpoint(folder, monitor="valid_accuracy", steps=50, plot=True),
        CSVLogger(f"{folder}/log.csv"),
    ],
)
print(f"best: {max(row['valid_accuracy'] for row in trainer.history):.2%}")
