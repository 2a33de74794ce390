"""Build the loaders of a fit: training and validation data as batches, up to a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .data import check_paired, is_loader, as_loader
from .data_limits import limit_batches, repeat_first_batches


def build_training_loader(
    data: Any, batch_size: int | None, shuffle: bool | None, limit: float | None,
    overfit: int | None, is_paired: bool,
) -> Any:
    """Return the batches to train on.

    Args:
        shuffle: None shuffles datasets and arrays, unless the fit is to overfit a few batches.
        limit: the number or share of batches to use.
        overfit: the number of first batches to repeat.
        is_paired: whether samples must be (input, target).
    """
    if shuffle is None and not is_loader(data):
        shuffle = overfit is None
    if is_paired:
        check_paired(data, "fit")
    loader = as_loader(data, batch_size, shuffle)
    if overfit is not None:
        return repeat_first_batches(loader, overfit)
    return limit_batches(loader, limit)


def build_validation_loaders(
    valid: Any, batch_size: int | None, limit: float | None, is_paired: bool
) -> Any:
    """Return the batches to evaluate: a loader, a dict of loaders by name, or None without data."""
    if valid is None:
        return None
    if isinstance(valid, Mapping):
        return {name: build_validation_loaders(subset, batch_size, limit, is_paired)
                for name, subset in valid.items()}
    if is_paired:
        check_paired(valid, "valid")
    size = None if is_loader(valid) else batch_size
    return limit_batches(as_loader(valid, size, who="valid"), limit)
