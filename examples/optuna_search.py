"""Optuna looks for a learning rate, a width and dropout; trials that do badly end early.

    pip install optuna
    python examples/optuna_search.py --trials 20
"""

from __future__ import annotations

import argparse

import mnist_data
import optuna

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer


class Prune:
    """Tells Optuna each epoch's number, and ends the trial when it says so."""

    def __init__(self, trial: optuna.Trial, monitor: str) -> None:
        self.trial, self.monitor = trial, monitor

    def on_epoch_end(self, epoch, logs):
        self.trial.report(logs[self.monitor], epoch)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def objective(trial: optuna.Trial, epochs: int) -> float:
    width = trial.suggest_int("width", 16, 256, log=True)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(784, width), nn.ReLU(),
        nn.Dropout(trial.suggest_float("dropout", 0.0, 0.5)), nn.Linear(width, 10),
    )
    rate = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    trainer = Trainer(net, torch.optim.Adam(net.parameters(), rate), "cross_entropy",
                      metrics=["accuracy"], callbacks=[Prune(trial, "valid_accuracy")])
    history = trainer.fit(
        mnist_data.load("train"), mnist_data.load("test"), epochs, batch_size=64, progress=False
    )
    return history[-1]["valid_accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=4, help="(%(default)s)")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner
    )
    study.optimize(lambda trial: objective(trial, args.epochs), n_trials=args.trials)
    for trial in study.trials:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in trial.params.items())
        ended = "pruned" if trial.state is optuna.trial.TrialState.PRUNED else "finished"
        print(f"trial {trial.number}: {ended}, {shown}")
    print(f"best: trial {study.best_trial.number}, accuracy {study.best_value:.2%}")


if __name__ == "__main__":
    main()
