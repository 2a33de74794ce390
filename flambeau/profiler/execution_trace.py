"""Execution traces: the operators and labels of a program as a graph, in MLCommons' Chakra format.

Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using Standardized
Execution Traces", 2023 (arXiv:2305.14516).
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from datetime import datetime
from typing import Self

from ..autograd.traces.recorder import Recording
from ..native.foundation.user_frames import warn
from .traced_calls import TracedCalls, list_nodes

__all__ = ["ExecutionTraceObserver"]


class ExecutionTraceObserver:
    """Writes the operators and labels that run between `start()` and `stop()` to a JSON file.

    The file is complete after `unregister_callback()`, or when the profile that has the observer
    as its `execution_trace_observer` ends. A name that ends in .gz is compressed.

    >>> import json, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "trace.json")
    >>> observer = torch.profiler.ExecutionTraceObserver().register_callback(str(file))
    >>> observer.start()
    >>> y = torch.ones(2) + 1
    >>> observer.unregister_callback()
    >>> nodes = json.loads(file.read_text())["nodes"]
    >>> [node["outputs"]["types"] for node in nodes if node["name"] == "aten::add"]
    [['Tensor(float)']]
    """

    def __init__(self) -> None:
        self._registered = self._execution_trace_running = False
        self.extra_resources_collection = False
        self.resources_dir = self.output_file_path = ""
        self._calls = TracedCalls()
        self._began = datetime.now()

    def __del__(self) -> None:
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return a registered observer if ENABLE_PYTORCH_EXECUTION_TRACE is 1, else None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        with tempfile.NamedTemporaryFile("w+t", suffix=".et.json", delete=False) as file:
            observer = ExecutionTraceObserver().register_callback(file.name)
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        observer.set_extra_resource_collection(extras)
        return observer

    def set_extra_resource_collection(self, val: bool) -> None:
        """Create a folder for resources beside the file if `val`; flambeau writes none to it."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Return the folder of resources, or None if there is none."""
        if self.extra_resources_collection and not self.resources_dir:
            self.resources_dir = self.get_resources_dir_for_et_path(
                self.output_file_path, can_create) or ""
        return self.resources_dir or None if self.extra_resources_collection else None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """Return the folder of resources of a trace file, or None if it cannot be there."""
        folder = f"{os.path.splitext(trace_path)[0]}_resources"
        if not os.path.exists(folder):
            if not create_dir:
                return None
            try:
                os.mkdir(folder)
            except OSError:
                warn(f"Execution trace exception when creating {folder}")
                return None
        return folder

    def register_callback(self, output_file_path: str) -> Self:
        """Set the file to write. A second call before `unregister_callback` does nothing."""
        if not self._registered:
            self.output_file_path = output_file_path
            self._calls, self._began, self._registered = TracedCalls(), datetime.now(), True
        return self

    def unregister_callback(self) -> None:
        """Stop, and write the file."""
        if self._registered:
            self.stop()
            self._registered = False
            self._write()

    @property
    def is_registered(self) -> bool:
        """Whether a file is set and not written yet."""
        return self._registered

    def is_running(self) -> bool:
        """Return whether calls are recorded."""
        return self._execution_trace_running

    def start(self) -> None:
        """Start to record calls, if a file is set."""
        if self._registered and not self._execution_trace_running:
            if Recording.observer is not None:
                warn("Another execution trace is running: this one does not start")
                return
            self._execution_trace_running = True
            Recording.observe(self._calls)

    def stop(self) -> None:
        """Stop to record calls."""
        if self._execution_trace_running:
            self._execution_trace_running = False
            Recording.observe(None)
            self._calls.detach()

    cleanup = unregister_callback

    def get_output_file_path(self) -> str | None:
        """Return the name of the file, or None."""
        return self.output_file_path or None

    def _write(self) -> None:
        trace = {
            "schema": "1.1.1-chakra.0.0.4", "pid": os.getpid(),
            "time": self._began.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": int(self._began.timestamp() * 1000) % 10**6,
            "nodes": list_nodes(self._calls.calls),
            "finish_ts": int(datetime.now().timestamp() * 1000) % 10**6,
        }
        packed = self.output_file_path.endswith(".gz")
        with (gzip.open if packed else open)(self.output_file_path, "wt") as file:
            json.dump(trace, file, indent=1)
