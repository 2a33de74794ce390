"""DataLoader: flambeau and PyTorch in turn, in one run.

    python benchmarks/dataloader.py [--rounds 5] [CASE ...]

Each case is an epoch of one loader, per batch or as a whole, in a fresh process for each library.
Processes take turns, an epoch each, so that both see the same seconds of the machine; what is shown
is the median. The ratio says how many times faster flambeau is. PyTorch has to be installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from turns import Process, all_in_turn, wait_for_turn  # noqa: E402

LIBRARIES = ("flambeau", "torch")
WORKERS = (0, 1, 2, 4)
TRANSFORM_S = 0.005


class Images:
    """Samples of 3x224x224 bytes, in memory."""

    def __init__(self, torch: Any, length: int = 64 * 24) -> None:
        self.images = [torch.full((3, 224, 224), i, dtype=torch.uint8) for i in range(16)]
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.images[index % 16], index % 10


class Small(Images):
    """Samples of eight numbers and a label."""

    def __init__(self, torch: Any, length: int = 64 * 200) -> None:
        self.rows, self.length = [torch.arange(8.0) + i for i in range(16)], length

    def __getitem__(self, index: int) -> Any:
        return self.rows[index % 16], index % 10


class Transformed(Small):
    """Samples that take five milliseconds of a processor each."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch, 160)

    def __getitem__(self, index: int) -> Any:
        end = time.process_time() + TRANSFORM_S
        while time.process_time() < end:
            pass
        return super().__getitem__(index)


def stream_of(torch: Any) -> Any:
    """An IterableDataset of small samples, shared out among its workers."""
    data = importlib.import_module(f"{torch.__name__}.utils.data")

    class Stream(data.IterableDataset):  # type: ignore[misc, name-defined]
        """Rows of eight numbers."""

        def __iter__(self) -> Any:
            info = data.get_worker_info()
            count = 1 if info is None else info.num_workers
            row = torch.arange(8.0)
            for i in range(64 * 200 // count):
                yield row, i % 10

    return Stream()


def cases() -> dict[str, tuple[Any, int, str]]:
    """By name: dataset, workers, what is measured."""
    cases_by_title: dict[str, tuple[Any, int, str]] = {}
    for workers in WORKERS:
        cases_by_title[f"images, {workers} workers"] = Images, workers, "batch"
    for workers in WORKERS:
        cases_by_title[f"small samples, {workers} workers"] = Small, workers, "batch"
    for workers in WORKERS:
        cases_by_title[f"stream, {workers} workers"] = stream_of, workers, "batch"
    for workers in (0, 2):
        cases_by_title[f"5 ms transform, {workers} workers"] = Transformed, workers, "epoch"
    cases_by_title["start of 2 workers (fork)"] = Small, 2, "fork"
    cases_by_title["start of 2 workers (spawn)"] = Small, 2, "spawn"
    return cases_by_title


def epoch_s(data: Any, dataset: Any, workers: int, measure: str) -> float:
    """Seconds: of a batch, once the workers are up, of an epoch, or until the first batch."""
    options = {"multiprocessing_context": measure} if measure in ("fork", "spawn") else {}
    start = time.perf_counter()
    iterator = iter(data.DataLoader(dataset, batch_size=64 if measure != "epoch" else 8,
                                    num_workers=workers, **options))
    next(iterator)
    first = time.perf_counter()
    if options:
        return first - start
    count = sum(1 for _ in iterator)
    end = time.perf_counter()
    return (end - first) / count if measure == "batch" else end - start


def child(library: str, name: str, rounds: int) -> None:
    """One process: an epoch a turn; prints its times as JSON."""
    torch = importlib.import_module(library)
    data = importlib.import_module(f"{library}.utils.data")
    torch.set_num_threads(1)
    make, workers, measure = cases()[name]
    dataset = make(torch)
    times = []
    for _ in range(rounds + 1):
        wait_for_turn()
        times.append(epoch_s(data, dataset, workers, measure))
    print(json.dumps(times[1:]))


def run(name: str, rounds: int) -> dict[str, float]:
    """The median of each library, in seconds."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore",
           "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), str(HERE.parent)])}
    processes = [
        Process([sys.executable, str(HERE), "--child", library, "--rounds", str(rounds), name],
                env, limit=120)
        for library in LIBRARIES
    ]
    all_in_turn(processes)
    medians = {}
    for library, process in zip(LIBRARIES, processes, strict=True):
        if process.failed:
            raise subprocess.CalledProcessError(1, f"{library}: {name}", stderr=process.errors)
        medians[library] = statistics.median(json.loads(process.lines[-1]))
    return medians


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.cases[0], options.rounds)
        return
    print(f"{'':32}{'flambeau':>12}{'PyTorch':>12}{'times faster':>14}")
    for name in options.cases or cases():
        results = run(name, options.rounds)
        ours, theirs = results["flambeau"], results["torch"]
        print(f"{name:32}{ours * 1e3:9.3f} ms{theirs * 1e3:9.3f} ms{theirs / ours:14.2f}",
              flush=True)


if __name__ == "__main__":
    main()
