"""Profiler events, named as PyTorch's, for the time spent waiting for a loader's next batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.traces.recorder import Recorder
from ...ops.interception import operator_timing
from .iterator import _BaseDataLoaderIter

_LABEL = 7  # the scope of user labels


def _timed_batches(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    def name(iterator: _BaseDataLoaderIter) -> str:
        return f"enumerate(DataLoader)#{type(iterator).__name__}.__next__"

    yield _BaseDataLoaderIter.__next__, operator_timing.time_as(recorder, name, _LABEL)


operator_timing.TIMED.append(_timed_batches)
