"""Upgrade older checkpoints and pickles: newer options, tensor step counters."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Tensor
from .optimizer import Optimizer, counter_dtype


def set_missing(optimizer: Optimizer, **options: Any) -> None:
    """Add missing options to an optimizer's groups."""
    for group in optimizer.param_groups:
        for name, value in options.items():
            group.setdefault(name, value)


def convert_counters(optimizer: Optimizer, *names: str) -> None:
    """Convert step counters, and other named numbers, to 0-dimensional tensors."""
    for group in optimizer.param_groups:
        dtype = counter_dtype(group.get("fused"))
        for param in group["params"]:
            state = optimizer.state.get(param) or {}
            for name in ("step", *names) if state else ():
                if not isinstance(state[name], Tensor):
                    state[name] = ops.tensor(float(state[name]), dtype=dtype)
