"""Log to TensorBoard: train and valid are two runs, so that their curves share a chart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..state.formatting import list_scalars, stage_of
from .logger import Logger, is_resuming

if TYPE_CHECKING:
    from ...utils.tensorboard import SummaryWriter


class TensorBoardLogger(Logger):
    """Write event files to `log_dir/train`, `log_dir/valid`, ..., a curve per metric.

    Epochs appear under the metric's name, steps (with `every=n`) under `step/<name>`.
    `histograms=True` adds histograms of the weights each epoch; `hyperparameters` a row in the
    table of runs. `writer(stage)` returns the SummaryWriter for custom images and texts. A resumed
    run hides the steps it repeats. Needs tensorboardX:
    `pip install 'flambeau[tensorboard]'`.

    >>> import os
    >>> from flambeau.train import Trainer
    >>> x, log = torch.zeros(4, 2), TensorBoardLogger("board")
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[log])
    >>> _ = trainer.fit((x, x[:, :1]), epochs=1)
    >>> os.listdir("board")
    ['train']
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "runs",
        every: int | None = None,
        *,
        histograms: bool = False,
        hyperparameters: Mapping[str, Any] | None = None,
    ) -> None:
        from ...utils import tensorboard as needed  # an error now, not after the first epoch

        del needed
        super().__init__(every)
        self.log_dir = os.fspath(log_dir)
        self.histograms = histograms
        self.hyperparameters = hyperparameters
        self._writers: dict[str, SummaryWriter] = {}
        self._resumed = False
        self._run: Any = None
        self._last: dict[str, float] = {}

    def writer(self, stage: str = "train") -> SummaryWriter:
        """Return the writer of a stage."""
        if stage not in self._writers:
            from ...utils.tensorboard import SummaryWriter

            folder = os.path.join(self.log_dir, stage)
            first_step = None
            if self._resumed:  # hide the points that this run repeats
                n_logged = len(self._run.history) if stage != "steps" else self._run.state.step
                first_step = n_logged + 1
            self._writers[stage] = SummaryWriter(folder, purge_step=first_step)
        return self._writers[stage]

    def open(self, run: Any) -> None:
        """Start the log, or continue it."""
        self._run = run
        self._resumed = is_resuming(run)
        if self._resumed:  # a writer's first event hides the repeated points
            for stage in ("train", "valid", *(["steps"] if self.every else [])):
                if os.path.isdir(os.path.join(self.log_dir, stage)):
                    self.writer(stage)
            self._resumed = False

    def write_epoch(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Add an epoch's points."""
        self._last = numbers
        for name, value in numbers.items():
            stage, metric = stage_of(name)
            self.writer(stage).add_scalar(metric, value, epoch)
        if self.histograms and hasattr(self._run, "net"):
            for name, parameter in self._run.net.named_parameters():
                self.writer().add_histogram(name.replace(".", "/"), parameter, epoch)
        for writer in self._writers.values():
            writer.flush()

    def write_step(self, epoch: int, step: int, numbers: dict[str, float]) -> None:
        """Add a step's points."""
        for name, value in numbers.items():
            self.writer("steps").add_scalar(f"step/{name}", value, step)

    def close(self) -> None:
        """Close the files."""
        if self.hyperparameters is not None and self._last:
            results = {f"final/{name}": value for name, value in list_scalars(self._last).items()}
            self.writer().add_hparams(self.hyperparameters, results, run_name="hyperparameters")
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
