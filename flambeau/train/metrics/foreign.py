"""Other libraries' metrics in the engine's protocol: torchmetrics, torcheval, ignite, scikit-learn.

An object with update, compute and reset is used directly; a scikit-learn function is called once
at the end of the epoch, with (y_true, y_pred) as NumPy arrays.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.capture_marks import read_values
from ...tensor.tensor import Tensor
from ...tensor.tree import map_leaves
from .auroc import as_probabilities
from .average import EpochMetric, name_of_function
from .labels import find_class_axis
from .metric import Metric, as_array, save_value

# scikit-learn's names for parameters of probabilities, and functions that use other names.
_SCORES = ("y_score", "y_scores", "y_proba", "y_prob", "pred_decision")
_MISSING = object()
_SCORED = ("log_loss", "d2_log_loss_score")


class Foreign(Metric):
    """An object with `update`, `compute` and `reset`, from torchmetrics, torcheval or ignite.

    `update` is called with (output, target), or with the pair if it takes one argument. A module
    of an installed PyTorch gets PyTorch's tensors.

    >>> class Count:
    ...     seen = 0
    ...     def reset(self):
    ...         self.seen = 0
    ...     def update(self, output, target):
    ...         self.seen += len(target)
    ...     def compute(self):
    ...         return self.seen
    >>> metric = Foreign(Count())
    >>> metric.update(torch.zeros(3), torch.zeros(3))
    >>> metric.compute()
    3
    """

    costly = True  # unknown, so assume it is

    def __init__(self, metric: Any, *, name: str | None = None) -> None:
        self.metric = metric
        self.name = name or to_snake_case(type(metric).__name__)
        better = has(metric, "higher_is_better")
        self.higher_is_better = metric.higher_is_better if better else None
        self._paired = _count_arguments(metric.update) == 1
        self._torch = _find_real_torch(metric)

    def twin(self) -> Foreign:
        """Return an empty copy of the metric."""
        twin = Foreign(copy.deepcopy(self.metric), name=self.name)
        twin.reset()
        return twin

    def reset(self) -> None:
        """Forget all batches."""
        self.metric.reset()

    def update(self, output: Any, target: Any) -> None:
        """Add a batch."""
        if self._torch is not None:
            output, target = _convert(self._torch, output), _convert(self._torch, target)
        if self._paired:
            self.metric.update((output, target))
        else:
            self.metric.update(output, target)

    def compute(self) -> Any:
        """Return the object's value: a float, an array, or a dict of them."""
        return convert_to_plain(self.metric.compute())

    def __call__(self, output: Any, target: Any) -> Any:
        """Add a batch; return the value of the batch alone if the object has one (`forward`)."""
        if self._paired or not has(self.metric, "forward"):
            raise NotImplementedError(f"{self.name}: the value of one batch")
        if self._torch is not None:
            output, target = _convert(self._torch, output), _convert(self._torch, target)
        return convert_to_plain(self.metric.forward(output, target))

    def state_dict(self) -> dict[str, Any]:
        """Return the object's accumulated state."""
        inner = self.metric
        if has(inner, "metric_state"):  # torchmetrics' state_dict leaves it out by default
            state = {"metric": dict(inner.metric_state), "updates": inner._update_count}
        elif has(inner, "state_dict"):
            state = {"metric": inner.state_dict()}
        else:
            state = {"metric": {k: v for k, v in vars(inner).items() if not callable(v)}}
        return save_value(convert_to_plain(state))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        inner, values = self.metric, state["metric"]
        if self._torch is not None:
            values = _convert(self._torch, values)
        if has(inner, "metric_state"):
            inner.reset()
            for name, value in values.items():
                setattr(inner, name, value)
            inner._update_count = state["updates"]
        elif has(inner, "load_state_dict"):
            inner.load_state_dict(values)
        else:
            vars(inner).update(values)

    def merge(self, other: Any) -> Foreign:
        """Merge, if the object can (merge_state, merge)."""
        for method in ("merge_state", "merge"):
            if has(self.metric, method):
                join = getattr(self.metric, method)
                torcheval = type(self.metric).__module__.startswith("torcheval")
                join([other.metric] if torcheval else other.metric)
                return self
        raise NotImplementedError(
            f"metric {self.name!r}: {type(self.metric).__name__} has neither merge_state nor merge"
        )


def has(target: Any, name: str) -> bool:
    """Whether `target` really has the attribute: ignite's metrics return something for any name."""
    return inspect.getattr_static(target, name, _MISSING) is not _MISSING


def wrap_scikit(function: Callable, *, name: str | None = None) -> EpochMetric:
    """Return a scikit-learn function as a metric, called at the end of the epoch.

    The name of its second parameter selects its input: for `y_pred`, labels (scores (n, classes)
    become the best class, binary logits are compared with 0; numbers are kept for real-valued
    targets); for `y_score` and `y_proba`, probabilities (the second column of two).

    >>> def agreement(y_true, y_pred):
    ...     return float((y_true == y_pred).mean())
    >>> metric = wrap_scikit(agreement)
    >>> metric.update(torch.tensor([[2., 1.], [0., 3.]]), torch.tensor([0, 0]))
    >>> metric.compute()
    0.5
    """
    title = name_of_function(function, "scikit")
    order = list(inspect.signature(function).parameters)
    scored = title in _SCORED or order[1] in _SCORES

    def at_end(output: np.ndarray, target: np.ndarray) -> Any:
        guess = _as_scores(output, target) if scored else _as_labels(output, target)
        return function(target, guess)

    better = None
    if title.endswith(("_error", "_loss", "_deviance")):
        better = False
    elif title.endswith("_score"):
        better = True
    return EpochMetric(at_end, name=name or title, higher_is_better=better)


def is_scikit(function: Any) -> bool:
    """Whether it is a scikit-learn function, perhaps a `partial` of one."""
    while isinstance(function, functools.partial):
        function = function.func
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "sklearn"


def _as_labels(output: np.ndarray, target: np.ndarray) -> np.ndarray:
    if target.dtype.kind not in "iub":
        return output.reshape(target.shape) if output.size == target.size else output
    axis = find_class_axis(output, target)
    if axis is not None and output.shape[axis] > 1:
        return output.argmax(axis)
    if output.dtype.kind in "iub":
        return output
    return (output.reshape(target.shape) > 0).astype(np.int64)


def _as_scores(output: np.ndarray, target: np.ndarray) -> np.ndarray:
    if output.ndim == 2 and target.ndim == 1:
        if output.shape[1] == 1:
            return output[:, 0]
        rows = as_probabilities(output)
        return rows[:, 1] if rows.shape[1] == 2 else rows
    return output


def convert_to_plain(value: Any) -> Any:
    """Convert tensors of any kind, also inside containers, to floats and NumPy arrays."""
    if isinstance(value, dict):
        return {key: convert_to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [convert_to_plain(item) for item in value]
    if isinstance(value, Tensor):
        value = read_values(value)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.item() if value.ndim == 0 else value.copy()
    return value


def to_snake_case(name: str) -> str:
    """Convert a name to snake case: MulticlassF1Score -> multiclass_f1_score."""
    letters = []
    for i, letter in enumerate(name):
        if letter.isupper() and i and (name[i - 1].islower() or name[i + 1 : i + 2].islower()):
            letters.append("_")
        letters.append(letter.lower())
    return "".join(letters)


def _count_arguments(function: Callable) -> int:
    """Return how many positional arguments a function needs; 2 if unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.default is p.empty for p in parameters if p.kind < p.VAR_POSITIONAL)


def _find_real_torch(metric: Any) -> Any:
    """Return the installed PyTorch if the object is one of its modules, else None."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch, "Tensor", Tensor) is Tensor:
        return None
    base_packages = {c.__module__.partition(".")[0] for c in type(metric).__mro__}
    return torch if base_packages & {"torch", "torchmetrics", "torcheval", "ignite"} else None


def _convert(torch: Any, value: Any) -> Any:
    """Convert flambeau's tensors and NumPy arrays, also inside containers, to PyTorch's tensors."""
    def convert(x: Any) -> Any:
        if isinstance(x, (Tensor, np.ndarray)):
            return torch.from_numpy(np.array(as_array(x)))
        return torch.tensor(x) if isinstance(x, (int, float)) else x

    return map_leaves(convert, value)
