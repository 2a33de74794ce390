"""Profiler events, named as PyTorch's, for the time spent waiting for a loader's next batch.

Importing this module registers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.traces.recorder import Recorder, RecordScope
from ...ops.interception import operator_timing
from .iterator import _BaseDataLoaderIter


def _time_batches(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    def name(iterator: _BaseDataLoaderIter) -> str:
        return f"enumerate(DataLoader)#{type(iterator).__name__}.__next__"

    timed = operator_timing.time_as(recorder, name, RecordScope.USER_SCOPE)
    yield _BaseDataLoaderIter.__next__, timed


operator_timing.TIMED.append(_time_batches)
