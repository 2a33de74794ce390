"""The metric protocol: update with batches, compute a value, reset; save, load and merge state.

A metric keeps its state in the attributes that `states` names. By default `merge` adds the states
of two parts of the data: numbers and arrays by sum, lists by concatenation.
"""

from __future__ import annotations

import copy
import warnings
from html import escape
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from ...ops.creation.interchange import from_numpy
from ...tensor.capture_marks import read_values
from ...tensor.tensor import Tensor
from ...tensor.tree import get_first_leaf

Value: TypeAlias = float | np.ndarray


@runtime_checkable
class MetricProtocol(Protocol):
    """What the trainer needs of a metric; any object with these methods will do.

    >>> from flambeau.train.metrics import Accuracy
    >>> isinstance(Accuracy(), MetricProtocol)
    True
    """

    name: str

    def update(self, output: Any, target: Any) -> None:
        """Add a batch."""

    def compute(self) -> Any:
        """The value over everything since `reset`: a number, an array, or a dict of them."""

    def reset(self) -> None:
        """Forget all batches."""

    def state_dict(self) -> dict[str, Any]:
        """What has been added up so far: numbers and tensors, which are safe to load."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""

    def merge(self, other: Any) -> Any:
        """Add what another one has seen, as of another process; returns itself."""


def as_array(value: Any) -> np.ndarray:
    """The NumPy array in a tensor, without a copy and without autograd; numbers and lists too."""
    if value.__class__ is Tensor or isinstance(value, Tensor):
        return read_values(value)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (tuple, dict)) or value is None:
        raise TypeError(
            f"metrics take a tensor, but got {type(value).__name__}; where the network returns "
            "several things, choose one with Select(metric, lambda output, target: ...)"
        )
    return np.asarray(value)


def widen(array: np.ndarray) -> np.ndarray:
    """As float64, in which sums over an epoch keep their digits."""
    return array if array.dtype == np.float64 else array.astype(np.float64)


def batch_size(output: Any, target: Any) -> int:
    """How many samples a batch has: the length of the first tensor in the target or the output.

    >>> batch_size(torch.zeros(32, 10), None), batch_size([torch.zeros(8)], torch.zeros(4))
    (32, 4)
    """
    for value in (target, output):
        shape = getattr(get_first_leaf(value), "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
    return 1


class Metric:
    """A number (or an array of them) worked out over batches.

    A subclass names its state in `states`, sets it to nothing in `reset`, adds a batch to it in
    `update(output, target)` and works out the value in `compute`.

    >>> from flambeau.train.metrics import Accuracy
    >>> metric = Accuracy()
    >>> metric.update(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([1, 1]))
    >>> metric.compute()
    0.5
    """

    name: str = "metric"
    states: tuple[str, ...] = ()
    # Which way is better, for who stops or keeps by it; None: not known.
    higher_is_better: bool | None = None
    # Whether the work of `compute` grows with the data: then it runs once per epoch.
    costly = False

    def update(self, output: Any, target: Any) -> None:
        """Add a batch."""
        raise NotImplementedError(f"{type(self).__name__}.update")

    def compute(self) -> Value:
        """The value over everything since `reset`."""
        raise NotImplementedError(f"{type(self).__name__}.compute")

    def reset(self) -> None:
        """Forget all batches."""
        raise NotImplementedError(f"{type(self).__name__}.reset")

    def __call__(self, output: Any, target: Any) -> Value:
        """Add a batch, and return the value of that batch alone."""
        batch = self.twin()
        batch.update(output, target)
        value = batch.compute()
        self.merge(batch)
        return value

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code> {escape(show_value(self))}"

    def twin(self) -> Self:
        """Another one of the same kind, with nothing in it. Functions and options are shared."""
        twin = copy.copy(self)
        for name in self.states:  # a `reset` that empties a list must not empty this metric's
            state = getattr(self, name)
            setattr(twin, name,
                    save_value(state) if isinstance(state, Tensor) else copy.copy(state))
        twin.reset()
        return twin

    def state_dict(self) -> dict[str, Any]:
        """What has been added up so far: numbers and tensors, which are safe to load."""
        return {name: save_value(getattr(self, name)) for name in self.states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. Raises KeyError for another metric's state."""
        if set(state) != set(self.states):
            raise KeyError(
                f"the state of metric {self.name!r} has {sorted(state)}, "
                f"but {type(self).__name__} needs {sorted(self.states)}"
            )
        for name in self.states:
            tensor = isinstance(getattr(self, name), Tensor)
            setattr(self, name, save_value(state[name]) if tensor else load_value(state[name]))

    def merge(self, other: Self) -> Self:
        """Add what another one has seen, as of another process; returns itself."""
        for name in self.states:
            setattr(self, name, add_values(getattr(self, name), getattr(other, name)))
        return self

    def _get_undefined(self) -> Value:
        """The value before any batch."""
        return float("nan")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


def show_value(metric: MetricProtocol) -> str:
    """Return a metric's value as text, if it has one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = metric.compute()
    except Exception:  # nothing to work it out from, each kind says so in its own way
        return "no batches yet"
    if isinstance(value, Tensor):
        return f"{value.item():.4g}" if value.numel() == 1 else f"tensor of {tuple(value.shape)}"
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def save_value(state: Any) -> Any:
    """A state with copies of its arrays as tensors, NumPy's numbers as Python's."""
    if isinstance(state, np.ndarray):
        return from_numpy(state.copy())
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, np.generic):
        return state.item()
    if isinstance(state, dict):
        return {key: save_value(item) for key, item in state.items()}
    return [save_value(item) for item in state] if isinstance(state, (list, tuple)) else state


def load_value(state: Any) -> Any:
    """The state again, with copies of the tensors as arrays."""
    if isinstance(state, (Tensor, np.ndarray)):
        return as_array(state).copy()
    return [load_value(item) for item in state] if isinstance(state, list) else state


def add_values(a: Any, b: Any) -> Any:
    """Add two states. Arrays of counts grow to the longer one as new classes appear."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape == b.shape:
        return a + b
    shape = tuple(max(pair) for pair in zip(a.shape, b.shape, strict=True))
    total = np.zeros(shape, np.result_type(a, b))
    total[tuple(map(slice, a.shape))] = a
    total[tuple(map(slice, b.shape))] += b
    return total
