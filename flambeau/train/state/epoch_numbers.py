"""The numbers of an epoch: losses averaged by batch size, and metrics."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...tensor.tensor import Tensor
from ..metrics import MetricGroup
from ..metrics.metric import batch_size
from .data import detach_tensors
from .ranks import gather


class Outcome(NamedTuple):
    """A step's result: its loss, and the output and target for the metrics.

    >>> from flambeau.train import Trainer
    >>> trainer = Trainer(nn.Linear(1, 1), "sgd", "mse", metrics="mae", compile=False)
    >>> @trainer.step
    ... def step(run, batch):
    ...     x, y = batch
    ...     return Outcome(run.loss(x, y), y_pred=x, y=y)  # nothing is learned
    >>> sorted(trainer.fit((torch.zeros(4, 1), torch.ones(4, 1)), epochs=1)[0])
    ['epoch', 'loss', 'mae']
    """

    loss: Any = None
    y_pred: Any = None
    y: Any = None


class Measures:
    """Sums the outcomes of steps; `compute` returns their means over samples, and the metrics."""

    def __init__(self, metrics: Any = None) -> None:
        self.group = metrics if isinstance(metrics, MetricGroup) else MetricGroup(metrics)
        if "loss" in self.group.metrics:
            raise ValueError("'loss' is the name of the loss: rename the metric")
        self.has_metrics = bool(len(self.group))
        self.sums: dict[str, float] = {}
        self.weights: dict[str, int] = {}
        self.loss_sum, self.loss_weight = 0.0, 0

    def copy(self) -> Measures:
        """Return an empty copy with the same metrics."""
        measures = Measures(self.group.twin())
        measures.reset()
        return measures

    def reset(self) -> None:
        """Forget all batches."""
        self.sums, self.weights = {}, {}
        self.loss_sum, self.loss_weight = 0.0, 0
        self.group.reset()

    def add(self, name: str, value: float, size: int) -> None:
        """Add a batch's mean, weighted by the batch's size."""
        self.sums[name] = self.sums.get(name, 0.0) + value * size
        self.weights[name] = self.weights.get(name, 0) + size

    def record(self, state: Any, output: Any) -> None:
        """Store a step's result in the state, and accumulate it.

        A tensor or number is the loss; a dict has several numbers; an Outcome, or a tuple
        (loss, y_pred, y), also feeds the metrics.
        """
        loss = y_pred = y = None
        if isinstance(output, tuple) and len(output) == 3:
            loss, y_pred, y = output
        elif isinstance(output, dict):
            loss = output.get("loss")
        elif output is not None:
            loss = output
        size = state.size = batch_size(state.batch if y_pred is None else y_pred, y)
        state.loss, state.y_pred, state.y = detach_tensors(loss), y_pred, y
        if isinstance(output, dict):
            for name, value in output.items():
                self.add(name, read_number(name, value), size)
        elif loss is not None:
            self.add("loss", read_number("loss", loss), size)
        if y_pred is not None and self.has_metrics:
            self.group.update(y_pred, y)

    def compute(self, prefix: str = "") -> dict[str, Any]:
        """Return means and metrics by prefixed name, over the batches of all processes."""
        states = gather(self.state_dict)
        return (self if states is None else self._merge(states))._compute_locally(prefix)

    def _merge(self, states: list[dict[str, Any]]) -> Measures:
        """Return the sum over processes with these states."""
        total = self.copy()
        for state in states:
            measures = self.copy()
            measures.load_state_dict(state)
            for name, value in measures.sums.items():
                total.sums[name] = total.sums.get(name, 0.0) + value
                total.weights[name] = total.weights.get(name, 0) + measures.weights[name]
            total.loss_sum += measures.loss_sum
            total.loss_weight += measures.loss_weight
            total.group.merge(measures.group)
        return total

    def _compute_locally(self, prefix: str) -> dict[str, Any]:
        means = {prefix + name: total / self.weights[name] for name, total in self.sums.items()}
        if self.loss_weight:
            means[prefix + "loss"] = self.loss_sum / self.loss_weight
        return means | self.group.compute(prefix)

    def compute_running(self) -> dict[str, float]:
        """Return the epoch's scalar metrics so far that are cheap to compute."""
        return self.group.running()

    def state_dict(self) -> dict[str, Any]:
        """Return the sums, their weights in samples, and the state of every metric."""
        return {
            "sums": dict(self.sums), "weights": dict(self.weights), "loss_sum": self.loss_sum,
            "loss_weight": self.loss_weight, "metrics": self.group.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`. Raises KeyError if the metrics' names differ."""
        self.sums, self.weights = dict(state["sums"]), dict(state["weights"])
        self.loss_sum, self.loss_weight = state["loss_sum"], state["loss_weight"]
        self.group.load_state_dict(state["metrics"])


def read_number(name: str, value: Any) -> float:
    """Return a scalar as a float. Raises ValueError for more than one number."""
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"the step's '{name}' has shape {tuple(value.shape)}; it must be one number"
            )
        return float(value.item())
    if isinstance(value, (int, float)):
        return float(value)
    raise TypeError(
        f"a step returns a loss, a dict of numbers, or (loss, y_pred, y); got "
        f"{type(value).__name__} for '{name}'"
    )
