"""Profiler events for compiled programs: one per run, one per kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from ...autograd.traces.recorder import Recorder
from ...native.runtime.launch_table import LaunchTable
from ...ops.interception import operator_timing
from .executable import Step


def _patch_kernels(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    known: dict[int, list[str]] = {}

    def run(original: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        program = args[0]
        begin = perf_counter_ns()
        timing = program.measure(*args[1:], **kwargs)
        end = perf_counter_ns()
        thread, note = get_ident(), recorder.events.append
        note(("compiled step", begin, end, thread, None, None, 0))
        if id(program) not in known:
            known[id(program)] = _list_names(program)
        for name, start, stop in zip(
            known[id(program)], timing.begin.min(axis=0), timing.finish.max(axis=0), strict=True
        ):
            first, last = begin + int(start * 1e9), min(end, begin + int(stop * 1e9))
            note((f"kernel: {name}", first, max(first, last), thread, None, None, 0))

    yield LaunchTable.run, run


def _list_names(program: LaunchTable) -> list[str]:
    """Return the names of a program's kernels in order, as the report shows them."""
    owner = program.keep
    if isinstance(owner, Step):
        entries, tasks = owner.table.entries, owner.tasks
        parts: list[list[str]] = [[]]
        for i, entry in enumerate(entries):
            if not entry.code:
                parts.append([])
            else:
                parts[-1].append(tasks[i].name if len(tasks) == len(entries) else entry.code)
        programs = [part for part in owner.parts if isinstance(part, LaunchTable)]
        for candidate, names in zip(programs, filter(None, parts), strict=False):
            if candidate is program and len(names) == len(program):
                return names
    return [str(i) for i in range(len(program))]


operator_timing.TIMED.append(_patch_kernels)
