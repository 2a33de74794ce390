"""Runs a sample of one of PyTorch's test files, on PyTorch or on flambeau, and notes how each ends.

    python pytorch_sample.py torch|flambeau TESTS FILE OUT.jsonl SECONDS [ON_TORCH.jsonl]

A sample is a prefix of the test ids in the order of their checksums: longer ones contain shorter
ones. With ON_TORCH only what passed there runs. A run that is started again goes on.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import sys
import zlib
from pathlib import Path
from typing import Any

# torch._refs, fake tensors and the like are private machinery, which flambeau has in other forms.
PRIVATE = re.compile(
    r"__refs_|TestFakeTensor|TestCompositeCompliance|TestTags|_neg_view|_neg_conj|test_compare_cpu"
)
# Classes of another device's tests, which skip themselves here: test_transformers.py has 74,000.
OTHER_DEVICES = re.compile(r"(Cuda|Npu|Xpu|Mps)Only")
# Seconds are those of processors, so that other programs on the machine change no sample.
SLOWEST_S = 4  # tests that take PyTorch longer are left out
COUNTED_S = 2.5  # the most that one test may take of a sample's time
TIMEOUT_S = {"torch": 20, "flambeau": 45}  # of a test
WAITING_S = 300  # the same of the clock, for tests that wait


def processor_s() -> float:
    """What this process and its children have computed."""
    return sum(os.times()[:4])


def ident(item: Any) -> str:
    """A test's id without its file."""
    return item.nodeid.partition("::")[2] or item.nodeid


class Outcomes:
    """A pytest plugin: chooses the sample, and writes a line at each test's start and end."""

    def __init__(self, out: Path, seconds: float, only: Path | None, timeout_s: float) -> None:
        self.lines = [json.loads(line) for line in out.open()] if out.exists() else []
        self.done = {line["id"] for line in self.lines}
        self.spent_s = sum(min(COUNTED_S, line.get("s", 0)) for line in self.lines)
        self.seconds, self.report, self.timeout_s = seconds, {}, timeout_s
        signal.signal(signal.SIGPROF, self.interrupt)
        self.wanted = None if only is None else {
            line["id"] for line in map(json.loads, only.open())
            if line.get("outcome") == "passed" and line["s"] < SLOWEST_S
        }
        self.file = out.open("a")

    def emit(self, event: str, id: str = "", **values: Any) -> None:
        """Writes a line."""
        print(json.dumps({"ev": event, "id": id, **values}), file=self.file, flush=True)

    def pytest_pycollect_makeitem(self, collector: Any, name: str, obj: Any) -> list | None:
        return [] if OTHER_DEVICES.search(name) else None

    def pytest_collection_modifyitems(self, items: list) -> None:
        public = [item for item in items if not PRIVATE.search(item.nodeid)]
        chosen = [item for item in public if ident(item) not in self.done
                  and (self.wanted is None or ident(item) in self.wanted)]
        items[:] = sorted(chosen, key=lambda item: zlib.crc32(ident(item).encode()))
        self.emit("collected", n=len(public))
        there = self.done | {ident(item) for item in items}
        for id in sorted((self.wanted or set()) - there):
            self.emit("end", id, outcome="notcollected", msg="not collected", s=0)

    def pytest_runtest_protocol(self, item: Any) -> None:
        if self.spent_s > self.seconds:
            self.emit("budget")
            os._exit(0)  # threads and processes that a test left must not hold this one up
        self.started_s, self.report = processor_s(), {"outcome": "passed", "msg": ""}
        self.emit("start", ident(item))
        signal.setitimer(signal.ITIMER_PROF, self.timeout_s)

    def interrupt(self, *_: Any) -> None:
        """Ends a test that computes for too long."""
        raise TimeoutError(f"more than {self.timeout_s} s of the processor")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome != "passed" and self.report["outcome"] not in ("failed", "error"):
            self.report = self.described(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        took_s = processor_s() - self.started_s
        self.spent_s += min(COUNTED_S, took_s)
        self.emit("end", nodeid.partition("::")[2], s=round(took_s, 2), **self.report)

    def described(self, report: Any) -> dict[str, Any]:
        """Outcome, message and the end of the traceback of a test that did not pass."""
        long = report.longrepr
        if report.outcome == "skipped":
            message = str(long[2]) if isinstance(long, tuple) else str(long)[-300:]
            return {"outcome": "skipped", "msg": message}
        crash = getattr(getattr(long, "reprcrash", None), "message", "") or str(long)[-600:]
        return {
            "outcome": "failed" if report.when == "call" else "error",
            "msg": crash[:1500],
            "tb": "\n".join(str(long).splitlines()[-25:])[:3000],
        }

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.emit("collecterror", msg=str(report.longrepr)[-3000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=["torch", "flambeau"])
    for name in ("tests", "file", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("only", type=Path, nargs="?")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")
    file = arguments.tests / arguments.file
    sys.path[:0] = [str(file.parent), str(arguments.tests)]
    pytorch = Path(importlib.util.find_spec("torch").origin).parent
    import stand_ins

    if arguments.backend == "flambeau":
        import harness

        harness.install(pytorch)
    own_parts = str(pytorch / "testing/_internal/common_quantiz")  # they import what is missing
    stand_ins.import_leniently((str(arguments.tests), own_parts), arguments.backend == "flambeau")
    import pytest
    import torch
    import torch.testing._internal.common_utils as settings

    torch.set_num_threads(1)
    settings.GRAPH_EXECUTOR = settings.ProfilingMode.PROFILING  # as in run_tests()
    outcomes = Outcomes(
        arguments.out, arguments.seconds, arguments.only, TIMEOUT_S[arguments.backend]
    )
    options = f"""-q -p no:cacheprovider -o addopts= -W ignore -c {os.devnull} --tb=native -rN
        --noconftest --no-header --continue-on-collection-errors
        --timeout {WAITING_S} --timeout-method signal"""
    code = pytest.main([str(file), *options.split(), "--rootdir", str(arguments.tests)], [outcomes])
    if code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.INTERRUPTED):
        os._exit(int(code))  # within a test, which counts as one that crashed
    outcomes.emit("finished", rc=int(code))
    os._exit(0)


if __name__ == "__main__":
    main()
