"""Averages of a function of each batch: over the epoch, running, and at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.capture_marks import read_values
from ...tensor.tensor import Tensor
from .metric import Metric, Value, as_array, batch_size

Function = Callable[[Any, Any], Any]


def number(value: Any, who: str) -> float:
    """Return a batch's value as a number. Raises if it is not one."""
    if isinstance(value, Tensor):
        value = read_values(value)
    size = getattr(value, "size", 1)
    if size != 1:
        raise ValueError(
            f"metric {who!r}: expected one number for the batch, but got an array of shape "
            f"{getattr(value, 'shape', None)}; take its mean"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.item()
    if not isinstance(value, (int, float)):
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"metric {who!r}: expected a number for the batch, got "
                            f"{type(value).__name__}") from None
    return float(value)


def name_of_function(function: Any, default: str) -> str:
    """The name of a function."""
    inner = getattr(function, "func", function)  # a functools.partial
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return default if name == "<lambda>" else name


class Mean(Metric):
    """The mean over an epoch of a function of each batch, weighted by batch size.

    `function(output, target)` returns a number or a tensor of one element. Without a function,
    `update(value, weight)` takes the numbers themselves. `weight` fixes another weight than the
    batch size: a number, or a function of (output, target).

    >>> mean = Mean(lambda y_pred, y: (y_pred - y).abs().mean())
    >>> mean.update(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    >>> mean.update(torch.tensor([8.0]), torch.tensor([0.0]))
    >>> mean.compute()
    4.0
    """

    states = ("sum", "weight")

    def __init__(
        self,
        function: Function | None = None,
        *,
        weight: float | Function | None = None,
        name: str | None = None,
        higher_is_better: bool | None = None,
    ) -> None:
        self.function = function
        self.name = name or ("mean" if function is None else name_of_function(function, "mean"))
        self.higher_is_better = higher_is_better
        self._weigh = weight
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.sum = 0.0
        self.weight = 0.0

    def update(self, output: Any, target: Any = 1) -> None:
        """Add a batch; or, without a function, a value and its weight."""
        if self.function is None:
            value, weight = number(output, self.name), float(target)
        else:
            value = number(self.function(output, target), self.name)
            weigh = self._weigh
            if weigh is None:
                weight = batch_size(output, target)
            else:
                weight = float(weigh(output, target) if callable(weigh) else weigh)
        self.sum += value * weight
        self.weight += weight

    def compute(self) -> Value:
        """The weighted mean; NaN before the first batch."""
        return self.sum / self.weight if self.weight else self._get_undefined()


class RunningAverage(Metric):
    """A running average: exponential with `momentum`, or over the last `window` batches.

    `source` is a function of (output, target) or a metric, whose value on each batch is averaged;
    without one, `update(value)` takes the numbers. The exponential average starts from the first
    value. Two averages merge to their mean, weighted by the batches each has seen.

    >>> average = RunningAverage(window=2)
    >>> for value in (9.0, 1.0, 3.0):
    ...     average.update(value)
    >>> average.compute()
    2.0
    """

    states = ("value", "count", "recent")

    def __init__(
        self,
        source: Function | Metric | None = None,
        *,
        momentum: float = 0.98,
        window: int | None = None,
        name: str | None = None,
    ) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"RunningAverage: momentum must be in [0, 1), not {momentum}")
        if window is not None and window < 1:
            raise ValueError(f"RunningAverage: window must be at least 1, not {window}")
        self.source = source
        self.momentum = momentum
        self.window = window
        inner = source.name if isinstance(source, Metric) else name_of_function(source, "average")
        self.name = name or ("running_average" if source is None else f"running_{inner}")
        self.higher_is_better = getattr(source, "higher_is_better", None)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.value = 0.0
        self.count = 0
        self.recent: list[float] = []

    def update(self, output: Any, target: Any = None) -> None:
        """Add a batch; or, without a source, a value."""
        value = output if self.source is None else self._evaluate(output, target)
        self._take(number(value, self.name))

    def _take(self, value: float) -> None:
        self.count += 1
        if self.window is not None:
            self.recent = [*self.recent[-self.window + 1 :], value] if self.window > 1 else [value]
        elif self.count == 1:
            self.value = value
        else:
            self.value = self.momentum * self.value + (1 - self.momentum) * value

    def __call__(self, output: Any, target: Any = None) -> Value:
        """Add a batch, and return the value of that batch alone."""
        value = number(output if self.source is None else self._evaluate(output, target), self.name)
        self._take(value)
        return value

    def _evaluate(self, output: Any, target: Any) -> Any:
        source = self.source
        if isinstance(source, Metric):
            source.reset()
            source.update(output, target)
            return source.compute()
        assert source is not None
        return source(output, target)

    def merge(self, other: Any) -> RunningAverage:
        """Merge another metric, as of another process, and return self."""
        count = self.count + other.count
        if count:
            self.value = (self.value * self.count + other.value * other.count) / count
        self.count = count
        self.recent = self.recent + other.recent
        return self

    def compute(self) -> Value:
        """The average now; NaN before the first batch."""
        if not self.count:
            return self._get_undefined()
        return sum(self.recent) / len(self.recent) if self.recent else self.value


class EpochMetric(Metric):
    """A function of all outputs and targets of the epoch, called once at its end.

    Outputs and targets are stored (as NumPy arrays, joined along the first axis) until `reset`.
    `function(output, target)` returns a number, or an array.

    >>> largest = EpochMetric(lambda output, target: abs(output - target).max(), name="largest")
    >>> largest.update(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 1.0]))
    >>> largest.compute()
    4.0
    """

    states = ("outputs", "targets")
    costly = True

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        higher_is_better: bool | None = None,
    ) -> None:
        self.function = function
        self.name = name or name_of_function(function, "epoch_metric")
        self.higher_is_better = higher_is_better
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.outputs: list[np.ndarray] = []
        self.targets: list[np.ndarray] = []

    def update(self, output: Any, target: Any) -> None:
        """Keep a copy of a batch."""
        # A copy: the network may use the memory again in its next step.
        self.outputs.append(np.atleast_1d(as_array(output).copy()))
        self.targets.append(np.atleast_1d(as_array(target).copy()))

    def compute(self) -> Value:
        """The function's value over everything; NaN before the first batch."""
        if not self.outputs:
            return self._get_undefined()
        value = self.function(np.concatenate(self.outputs), np.concatenate(self.targets))
        array = np.asarray(value)
        return float(array) if array.ndim == 0 else array


class Select(Metric):
    """A metric of a part of the network's output: `choose(output, target)` returns the pair to use.

    >>> metric = Select(Mean(lambda y_pred, y: y_pred.mean()), lambda output, y: (output[0], y))
    >>> metric.update((torch.tensor([3.0]), "extra"), torch.tensor([0.0]))
    >>> metric.compute()
    3.0
    """

    def __init__(self, metric: Metric, choose: Function, *, name: str | None = None) -> None:
        self.metric = metric
        self.choose = choose
        self.name = name or metric.name
        self.higher_is_better = metric.higher_is_better
        self.costly = metric.costly
        self.states = metric.states

    def __call__(self, output: Any, target: Any) -> Value:
        """Add a batch, and return the value of that batch alone."""
        return self.metric(*self.choose(output, target))

    def twin(self) -> Select:
        """Another one of the same kind, with nothing in it."""
        return Select(self.metric.twin(), self.choose, name=self.name)

    def reset(self) -> None:
        """Forget all batches."""
        self.metric.reset()

    def update(self, output: Any, target: Any) -> None:
        """Add the chosen part of a batch."""
        self.metric.update(*self.choose(output, target))

    def compute(self) -> Value:
        """The metric's value."""
        return self.metric.compute()

    def state_dict(self) -> dict[str, Any]:
        """The metric's state."""
        return self.metric.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the metric's state."""
        self.metric.load_state_dict(state)

    def merge(self, other: Any) -> Select:
        """Merge the metrics; returns itself."""
        self.metric.merge(other.metric)
        return self
