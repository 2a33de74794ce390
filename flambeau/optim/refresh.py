"""What older checkpoints and pickles lack: options added since, and counters that are tensors."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.tensor import Tensor

from .optimizer import Optimizer, counter_dtype


def set_missing(optimizer: Optimizer, **options: Any) -> None:
    """Give the groups of an optimiser the options that they lack."""
    for group in optimizer.param_groups:
        for name, value in options.items():
            group.setdefault(name, value)


def counters_to_tensors(optimizer: Optimizer, *names: str) -> None:
    """Make the step counters, and the other numbers named, 0-dimensional tensors."""
    for group in optimizer.param_groups:
        dtype = counter_dtype(group.get("fused"))
        for param in group["params"]:
            state = optimizer.state.get(param) or {}
            for name in ("step", *names) if state else ():
                if not isinstance(state[name], Tensor):
                    state[name] = ops.tensor(float(state[name]), dtype=dtype)
