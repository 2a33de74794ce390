"""The callbacks behind options of `fit`: progress, max_steps, validate_every."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..reporting.progress import Progress
from .limits import StopAfterSteps, ValidateEvery


def build_callbacks(
    attached: Sequence[Any], progress: bool | str | None, max_steps: int | None,
    validate_every: int | None,
) -> list[Any]:
    """Return the callbacks that options of `fit` request. `attached`: those already attached."""
    result: list[Any] = []
    if max_steps is not None:
        result.append(StopAfterSteps(max_steps))
    if validate_every is not None:
        result.append(ValidateEvery(validate_every))
    has_bar = any(isinstance(callback, Progress) for callback in attached)
    if progress is not False and not (progress is None and has_bar):
        result.append(Progress(progress if isinstance(progress, str) else None))
    return result
