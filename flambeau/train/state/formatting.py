"""Format a run's metrics: scalars of logs, stages of names, short numbers and durations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...tensor.capture_marks import read_values
from ...tensor.tensor import Tensor

STAGES = ("train", "valid", "test")
_PREFIXES = {
    "train/": "train", "train_": "train", "valid/": "valid", "valid_": "valid", "val/": "valid",
    "val_": "valid", "test/": "test", "test_": "test",
}
LONGEST = 20  # elements of a vector that is logged as curves


def stage_of(name: str) -> tuple[str, str]:
    """Split a log's name into (stage, metric): "valid/loss" and "val_loss" are ("valid", "loss").

    >>> stage_of("valid/loss"), stage_of("loss")
    (('valid', 'loss'), ('train', 'loss'))
    """
    for prefix, stage in _PREFIXES.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            return stage, name[len(prefix) :]
    return "train", name


def find_array(value: Any) -> np.ndarray | None:
    """Convert a number, an array or a tensor to a float64 array; return None for anything else."""
    if isinstance(value, Tensor):
        value = read_values(value)
    if isinstance(value, (bool, int, float, np.ndarray, np.generic, list, tuple)):
        try:
            array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        return array
    return None


def list_scalars(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return the scalars in logs; a short vector becomes `name/0`, `name/1`, ..."""
    result: dict[str, float] = {}
    for name, value in logs.items():
        if value.__class__ is float:
            result[name] = value
            continue
        array = find_array(value)
        if array is None:
            continue
        if array.size == 1:
            result[name] = float(array.item())
        elif array.ndim == 1 and array.size <= LONGEST:
            result.update({f"{name}/{i}": float(element) for i, element in enumerate(array)})
    return result


def read_learning_rates(run: Any) -> dict[str, float]:
    """Return the optimizers' `lr`, or `lr/0`, `lr/1`, ... if groups differ."""
    optimizers = getattr(run, "optimizers", None) or {}
    rates = {
        f"lr/{name}/{i}": float(group["lr"])
        for name, optimizer in optimizers.items()
        for i, group in enumerate(optimizer.param_groups)
    }
    if len(set(rates.values())) <= 1:
        return dict.fromkeys(["lr"] if rates else [], next(iter(rates.values()), 0.0))
    if len(optimizers) == 1:
        return {f"lr/{i}": rate for i, rate in enumerate(rates.values())}
    return rates


def read_step_numbers(run: Any) -> dict[str, float]:
    """Return the batch's loss and the learning rate."""
    loss = getattr(run.state, "loss", None)
    return {**({} if loss is None else list_scalars({"loss": loss})), **read_learning_rates(run)}


def read_epoch_numbers(run: Any) -> dict[str, float]:
    """Return an epoch's logs and the learning rate."""
    return {**read_learning_rates(run), **list_scalars(run.state.metrics)}


def shorten(value: float) -> str:
    """Format a number in few characters: 0.0123, 12.3, 1.2e-5.

    >>> [shorten(x) for x in (0.12345, 123.456, 1e-5, 3)]
    ['0.1235', '123.5', '1.00e-5', '3']
    """
    if value != value or math.isinf(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e5:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def format_duration(seconds: float) -> str:
    """Format a duration in few characters.

    >>> [format_duration(s) for s in (5e-6, 0.0042, 3.21, 75, 7384)]
    ['5.0 us', '4.2 ms', '3.2 s', '1:15', '2:03:04']
    """
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            count = seconds / size
            return f"{count:.1f} {unit}" if 0 < count < 9.95 else f"{count:.0f} {unit}"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left_s:02}" if hours else f"{minutes}:{left_s:02}"
