"""Writes a profile's events as a file for chrome://tracing, Perfetto and TensorBoard's plugin.

Uses complete events of the Trace Event Format, times in microseconds. An arrow leads from each
operator to the backward node that it recorded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from .argument_texts import format_type, format_value
from .recorder import Recorder, RecordScope


class TraceSwitches:
    """Optional parts of trace files, switched by `torch._C._profiler`."""

    links = True  # arrows from operators to the nodes of the backward pass
    arguments = True  # scalar arguments of operators


def write_chrome_trace(
    events: Sequence[Any], path: str, metadata: dict[str, Any] | None = None,
    began_us: float = 0.0, recorder: Recorder | None = None,
) -> None:
    """Write events to `path`, plus the Python calls and memory events of a recorder if given."""
    pid = os.getpid()
    rows: list[dict[str, Any]] = [
        _describe_process(pid, began_us, 0, "process_name", name="python"),
        _describe_process(pid, began_us, 0, "process_labels", labels="CPU"),
    ]
    threads = sorted({event.thread for event in events})
    rows += [
        _describe_process(pid, began_us, t, "thread_name", name=f"thread {t}") for t in threads
    ]
    rows += [_call(event, pid, began_us) for event in events if event.name != "[memory]"]
    if TraceSwitches.links:
        rows += _list_links(events, pid, began_us)
    end_us = max([began_us + event.time_range.end for event in events], default=began_us)
    if recorder is not None:
        rows += _list_python_calls(recorder, pid, began_us)
        rows += _list_memory_changes(recorder, pid, began_us)
        end_us = max(end_us, began_us + (recorder.ended_ns - recorder.began_ns) / 1e3)
    rows += _mark_span(began_us, end_us)
    trace = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": rows,
             "traceName": path}
    with _open_file(path) as file:
        json.dump(trace, file)


def _describe_process(
    pid: int, began_us: float, thread: int, kind: str, **args: Any
) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "ts": began_us, "pid": pid, "tid": thread, "args": args}


def _call(event: Any, pid: int, began_us: float) -> dict[str, Any]:
    kind = "user_annotation" if event.is_user_annotation else _choose_category(event.name)
    args: dict[str, Any] = {"External id": event.id, "Record function id": event.record_id}
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
        args["Input Strides"] = list(event.strides)
        if TraceSwitches.arguments:
            args["Concrete Inputs"] = list(map(format_value, event.concrete_inputs))
            args["Input type"] = list(map(format_type, event.concrete_inputs, event.dtypes))
    if event.python_parent:
        args["Python parent id"] = event.python_parent
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    if event.cpu_memory_usage:
        args["Bytes"] = event.cpu_memory_usage
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
    return {"ph": "X", "cat": kind, "name": event.name, "pid": pid, "tid": event.thread,
            "ts": began_us + event.time_range.start, "dur": event.time_range.elapsed_us(),
            "args": args}


def _list_links(events: Iterable[Any], pid: int, began_us: float) -> list[dict[str, Any]]:
    """Return the arrows from the outermost operator that recorded a node to that node."""
    operators: dict[int, Any] = {}
    rows: list[dict[str, Any]] = []
    for event in events:
        if event.sequence_nr < 0:
            continue
        if event.scope == RecordScope.FUNCTION:
            operators.setdefault(event.sequence_nr, event)
        elif event.scope == RecordScope.BACKWARD_FUNCTION and event.sequence_nr in operators:
            number = len(rows) // 2 + 1
            for phase, end in (("s", operators[event.sequence_nr]), ("f", event)):
                rows.append({"ph": phase, "id": number, "pid": pid, "tid": end.thread,
                             "ts": began_us + end.time_range.start, "cat": "fwdbwd",
                             "name": "fwdbwd", **({"bp": "e"} if phase == "f" else {})})
    return rows


def _list_python_calls(recorder: Recorder, pid: int, began_us: float) -> list[dict[str, Any]]:
    calls = [] if recorder.python is None else recorder.python.calls
    return [{
        "ph": "X", "cat": "python_function", "name": call.name, "pid": pid, "tid": call.thread,
        "ts": began_us + (call.begin_ns - recorder.began_ns) / 1e3,
        "dur": (call.end_ns - call.begin_ns) / 1e3,
        "args": {"Python id": call.number, "Python parent id": call.caller or None},
    } for call in calls]


def _list_memory_changes(recorder: Recorder, pid: int, began_us: float) -> list[dict[str, Any]]:
    return [{
        "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid,
        "tid": change.thread, "ts": began_us + (change.time_ns - recorder.began_ns) / 1e3,
        "args": {"Total Allocated": change.total, "Device Id": -1, "Device Type": 0,
                 "Addr": change.address, "Bytes": change.nbytes},
    } for change in recorder.memory_events]


def _mark_span(began_us: float, end_us: float) -> list[dict[str, Any]]:
    """Return the rows that mark the time span of the profile."""
    return [
        {"ph": "X", "cat": "Trace", "ts": began_us, "dur": end_us - began_us, "pid": "Spans",
         "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
        {"ph": "M", "name": "process_sort_index", "ts": began_us, "pid": "Spans", "tid": 0,
         "args": {"sort_index": 536870912}},
        {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces",
         "tid": "Trace PyTorch Profiler", "ts": began_us},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": end_us},
    ]


def _open_file(path: str) -> Any:
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "wt")
    return open(path, "w")


def _choose_category(name: str) -> str:
    if name.startswith("nn.Module: "):
        return "python_function"
    return "kernel" if name.startswith("kernel: ") else "cpu_op"
