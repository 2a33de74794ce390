"""Digits through the Trainer, as with Poutyne and Keras: an object with methods."""

from __future__ import annotations

import mnist_data

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer

torch.manual_seed(1)
net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"])


class Watch:
    def on_train_batch_end(self, batch_number, logs):
        if batch_number == 1:
            self.first = logs["loss"]
        self.last = logs["loss"]

    def on_epoch_end(self, epoch_number, logs):
        fell, accuracy = self.first - self.last, logs["valid_accuracy"]
        print(f"epoch {epoch_number}: loss fell by {fell:.4f}, accuracy {accuracy:.2%}")
        if epoch_number % 2 == 0:
            optimizer.param_groups[0]["lr"] /= 2
        if accuracy > 0.935:
            trainer.stop()

    def on_train_end(self, run):
        print(f"{run.state.step} steps")


trainer.use(Watch())
trainer.fit(mnist_data.load("train"), mnist_data.load("test"), epochs=10, batch_size=64)
