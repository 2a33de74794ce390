"""Log to MLflow and Weights & Biases through their packages."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from .logger import Logger


def package(name: str, logger: str) -> Any:
    """Import the module `name`. Raises ImportError that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{logger} needs the package {name!r}, which is not installed: pip install {name}; "
            "JSONLogger and CSVLogger need nothing"
        ) from error


class MLflowLogger(Logger):
    """Log to MLflow: to the active run, or to a run that it starts and ends itself.

    `parameters` are logged once; `options` go to `mlflow.start_run`. Epochs are logged at their
    step. Raises ImportError if mlflow is not installed.
    """

    def __init__(
        self,
        every: int | None = None,
        *,
        experiment: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(every)
        self.mlflow = package("mlflow", "MLflowLogger")
        self.experiment = experiment
        self.parameters = parameters
        self.options = options
        self._started_run = False
        self._status = "FINISHED"

    def open(self, run: Any) -> None:
        """Join the active run, or start one."""
        self._status = "FINISHED"
        self._started_run = self.mlflow.active_run() is None
        if self._started_run:
            if self.experiment is not None:
                self.mlflow.set_experiment(self.experiment)
            self.mlflow.start_run(**self.options)
        if self.parameters:
            self.mlflow.log_params(dict(self.parameters))

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log an epoch."""
        self.mlflow.log_metrics({"epoch": float(epoch), **numbers}, step=step)

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log a step."""
        self.mlflow.log_metrics({f"step/{k}": v for k, v in numbers.items()}, step=step)

    def failed(self, error: Exception) -> None:
        """Mark the run as failed."""
        self._status = "FAILED"

    def close(self) -> None:
        """End the run that `open` started."""
        if self._started_run:
            self.mlflow.end_run(status=self._status)


class WandbLogger(Logger):
    """Log to Weights & Biases: to the active run, or to a run that it starts and finishes itself.

    `options` go to `wandb.init` (project, name, config, mode, ...). Raises ImportError if
    wandb is not installed.
    """

    def __init__(self, every: int | None = None, **options: Any) -> None:
        super().__init__(every)
        self.wandb = package("wandb", "WandbLogger")
        self.options = options
        self._started_run = False
        self._exit = 0

    def open(self, run: Any) -> None:
        """Join the active run, or start one."""
        self._exit = 0
        self._started_run = self.wandb.run is None
        if self._started_run:
            self.wandb.init(**self.options)

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log an epoch."""
        self.wandb.log({"epoch": epoch, **numbers}, step=step)

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Log a step."""
        self.wandb.log({f"step/{k}": v for k, v in numbers.items()}, step=step)

    def failed(self, error: Exception) -> None:
        """Mark the run as failed."""
        self._exit = 1

    def close(self) -> None:
        """Finish the run that `open` started."""
        if self._started_run:
            self.wandb.finish(exit_code=self._exit)
