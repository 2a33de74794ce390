"""The program that the tests of resuming kill: trains, and writes each step's loss to a file.

    python killed.py <folder> <compile: 0 or 1> [<steps> <seconds>]

With the last two it sends itself SIGKILL so many seconds after it wrote so many lines.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path

import numpy as np

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import StepLR
from flambeau.train import (
    CONTROL, CSVLogger, Checkpoint, EarlyStopping, Trainer, callback, epoch, step,
)
from flambeau.utils.data import DataLoader, Dataset

EPOCHS = 20


class Noisy(Dataset):
    """Samples with noise from Python's and NumPy's generators; counts what is loaded."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(90, 3, generator=generator)
        self.loaded = 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple:
        self.loaded += 1
        noise = 0.1 * random.random() + 0.1 * float(np.random.rand())
        return self.x[i] + noise, int(self.x[i].sum() > 0)


@callback(band=CONTROL, name="smallest")
def smallest(run):
    record = run.persist(loss=float("inf"), changes=0)
    while True:
        yield step.end
        if float(run.state.loss) < record.loss:
            record.loss, record.changes = float(run.state.loss), record.changes + 1


def killer(steps: int, seconds: float):
    """What is called at each step, and kills this process."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))

    def count() -> None:
        nonlocal steps
        steps -= 1
        if steps == 0:
            timer.start()

    return count


def main(folder: Path, compiled: bool, kill=lambda: None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    random.seed(4)
    np.random.seed(5)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    trainer = Trainer(net, optimizer, "cross_entropy", metrics=["accuracy"], compile=compiled)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    trainer.track(scheduler=scheduler)
    trainer.attach(epoch.end, lambda run: scheduler.step())
    data = Noisy()
    programs: set[str] = set()
    with open(folder / "losses.txt", "a") as file:

        @trainer.on(step.end)
        def note(run):
            lr = run.optimizer.param_groups[0]["lr"]
            print(run.state.step, run.state.loss.item().hex(), lr.hex(), file=file, flush=True)
            programs.update(getattr(run.supervised._whole, "compiled_kinds", ()))
            kill()

        trainer.fit(
            DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=30),
            epochs=EPOCHS, resume=folder,
            callbacks=[
                smallest, EarlyStopping("valid_loss", 30), CSVLogger(folder / "log.csv"),
                Checkpoint(folder, monitor="valid_loss", steps=2),
            ],
        )
    assert compiled == bool(programs)
    print("over", trainer.history, trainer.persistence.values, data.loaded)


if __name__ == "__main__":
    arguments = sys.argv[3:]
    main(
        Path(sys.argv[1]), sys.argv[2] == "1",
        *([killer(int(arguments[0]), float(arguments[1]))] if arguments else []),
    )
