"""Several metrics that are updated, computed and saved together, as a trainer holds them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from ...autograd.mode import no_grad
from .adapt import adapt
from .foreign import convert_to_plain
from .metric import MetricProtocol, save_value, show_value


class MetricGroup:
    """The metrics of a run: `update` with each batch, `compute` to a flat dict of numbers.

    >>> group = MetricGroup(["accuracy", "top3"])
    >>> group.update(torch.eye(4), torch.tensor([0, 1, 2, 0]))
    >>> group.compute()
    {'accuracy': 0.75, 'top3': 1.0}
    """

    def __init__(self, metrics: Any = None) -> None:
        self.metrics: dict[str, MetricProtocol] = adapt(metrics)
        self._updates = [metric.update for metric in self.metrics.values()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def __getitem__(self, name: str) -> MetricProtocol:
        return self.metrics[name]

    def __repr__(self) -> str:
        return f"MetricGroup({', '.join(f'{n}: {show_value(m)}' for n, m in self.metrics.items())})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(show_value(metric))}</td></tr>"
                       for name, metric in self.metrics.items())
        return f"<table>{rows}</table>"

    def update(self, output: Any, target: Any) -> None:
        """Add a batch to every metric; nothing is recorded for gradients."""
        if self._updates:
            with no_grad():
                for update in self._updates:
                    update(output, target)

    def compute(self, prefix: str = "") -> dict[str, Any]:
        """Values by prefixed name: floats, and tensors of more numbers (they go into checkpoints).

        A metric that answers with a dict gives several entries.
        """
        return self._values(self.metrics, prefix)

    def _values(self, metrics: dict[str, MetricProtocol], prefix: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        with no_grad():
            for name, metric in metrics.items():
                value = save_value(convert_to_plain(metric.compute()))
                if isinstance(value, dict):
                    values.update({f"{prefix}{name}/{key}": item for key, item in value.items()})
                else:
                    values[prefix + name] = value
        return values

    def scalars(self, prefix: str = "") -> dict[str, float]:
        """The values that are single numbers."""
        return {k: float(v) for k, v in self.compute(prefix).items() if np.ndim(v) == 0}

    def running(self) -> dict[str, float]:
        """The single numbers that are cheap to know in the middle of an epoch."""
        cheap = {k: m for k, m in self.metrics.items() if not getattr(m, "costly", False)}
        return {k: float(v) for k, v in self._values(cheap, "").items() if np.ndim(v) == 0}

    def twin(self) -> MetricGroup:
        """A group of metrics of the same kinds, with nothing in them."""
        group = MetricGroup()
        group.metrics = {name: _copy_empty(metric) for name, metric in self.metrics.items()}
        group._updates = [metric.update for metric in group.metrics.values()]
        return group

    def reset(self) -> None:
        """Forget all batches."""
        for metric in self.metrics.values():
            metric.reset()

    def state_dict(self) -> dict[str, Any]:
        """The state of every metric, by name."""
        return {name: metric.state_dict() for name, metric in self.metrics.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. Raises KeyError if the names differ."""
        if set(state) != set(self.metrics):
            raise KeyError(f"the state has metrics {sorted(state)}, the run {sorted(self.metrics)}")
        for name, metric in self.metrics.items():
            metric.load_state_dict(state[name])

    def merge(self, other: MetricGroup) -> MetricGroup:
        """Add what another group has seen, as of another process; returns itself."""
        for name, metric in self.metrics.items():
            metric.merge(other.metrics[name])
        return self


def _copy_empty(metric: Any) -> Any:
    make = getattr(metric, "twin", None)
    if make is not None:
        return make()
    twin = copy.deepcopy(metric)
    twin.reset()
    return twin
