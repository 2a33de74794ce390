"""Digits in five folds: how good is a net of this kind, and how sure is that?

    python examples/kfold.py
"""

from __future__ import annotations

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.train import EarlyStopping, Trainer, cross_validate


def make() -> Trainer:
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    stopping = EarlyStopping("valid_accuracy", patience=2)
    return Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"], callbacks=[stopping])


# labels=True: every part has as many of each digit as the whole, in proportion.
folds = cross_validate(make, mnist_data.load("train"), k=5, epochs=6, labels=True, batch_size=64)
for number, rows in enumerate(folds.histories, 1):
    best = max(row["valid_accuracy"] for row in rows)
    print(f"fold {number}: {len(rows)} epochs, best accuracy {best:.2%}")
print(folds)
