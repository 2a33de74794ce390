"""Times of a step and of each task, measured on runs without lasting effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ...native.runtime.launch_table import LaunchTable
from ...native.target.compile_costs import MAX_MEASURING_SECONDS
from ..ir.exchange import replay_offline
from .executable import Step


@dataclass(frozen=True)
class Times:
    """Seconds for a step and for each task, and the mean share of that time that threads are busy.

    A task takes as long as its slowest thread. `total` includes barriers and thread starts.
    """

    total: float
    seconds: list[float]
    busy: list[float]


def time_step(step: Step, values: Sequence[Any], rounds: int = 5) -> Times:
    """Return the times of the step and each task: medians of runs whose writes are undone."""
    runs: list[tuple[float, list[tuple[float, float]]]] = []
    deadline = perf_counter() + MAX_MEASURING_SECONDS
    with step.restoring_writes(values), replay_offline(step.edges):
        while len(runs) < 2 or (len(runs) <= rounds and perf_counter() < deadline):
            runs.append(_time_once(step, values))
    medians = np.median([times for _, times in runs[1:]], axis=0).tolist()
    total = float(np.median([total for total, _ in runs[1:]]))
    return Times(total, [t for t, _ in medians], [busy for _, busy in medians])


def _time_once(step: Step, values: Sequence[Any]) -> tuple[float, list[tuple[float, float]]]:
    """Time one run: total seconds, and (seconds, busy share) for each task."""
    totals: list[float] = []
    times: list[tuple[float, float]] = []

    def part(program: LaunchTable, table: list[np.ndarray]) -> None:
        timing = program.measure(table, step.count())
        totals.append(float(timing.finish.max() - timing.begin[0, 0]))
        for t, mean in zip(timing.records, timing.busy.mean(axis=0), strict=True):
            times.append((float(t), float(mean / t) if t else 1.0))

    def call(*args: Any) -> None:
        began = perf_counter()
        step.calls.run(*args)
        totals.append(perf_counter() - began)
        times.append((totals[-1], 1.0))

    step.run_parts(values, part, call, check=lambda *_: times.append((0.0, 1.0)))
    return sum(totals), times
