"""One fresh process of the benchmark: imports one library, times the cases it is told to, and
prints a line of JSON: {case: seconds} with "import" and the process's "peak" memory in MB.

    python measure.py {torch,flambeau} [CASE ...]

It waits when it has imported the library, and before each repeat of what it times, until it is told
to go on (turns.py).
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import statistics
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
THREADS = 2
REPEATS = 7
SPAN = {"small": 0.015, "large": 0.05, "steps": 0.25}  # seconds one repeat lasts, at least
# Kernels for large tensors begin within the first calls: at the eighth of products, at the fortieth
# of a convolution's shape, several of which come in a step.
WARM_UP = {"small": 200, "large": 48, "steps": 16}
LEAST, MAX_SECONDS = 16, 1.5  # calls, and seconds after which no more of them follow


def memory() -> float:
    """The most memory this process has held so far, in MB."""
    with contextlib.suppress(OSError):  # what getrusage says on Linux has the parent's peak in it
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        if match:
            return int(match[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024 * 1024)


def time_of(work, group: str, before=None) -> float:
    """Median over the repeats of the seconds that one call takes.

    `before()` is called before each repeat: where others had the machine meanwhile, a call follows
    that does not count.
    """
    begin = time.perf_counter()
    for number in range(WARM_UP[group]):
        work()
        if number >= LEAST and time.perf_counter() - begin > MAX_SECONDS:
            break
    begin = time.perf_counter()
    work()
    once = max(time.perf_counter() - begin, 1e-7)
    calls = max(1, round(SPAN[group] / once))
    repeats = []
    for _ in range(REPEATS):
        if before is not None:
            before()
            work()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        repeats.append((time.perf_counter() - begin) / calls)
    return statistics.median(repeats)


def main() -> None:
    library, *names = sys.argv[1:]
    begin = time.perf_counter()
    if library == "flambeau":
        sys.path.insert(0, str(HERE.parent))
        import flambeau as torch
    else:
        import torch
    results: dict[str, float | None] = {"import": time.perf_counter() - begin, "peak": memory()}

    from turns import wait_for_turn  # now, as what it imports would make the library's import short

    wait_for_turn()
    if names:
        if library == "flambeau":
            from flambeau.command import torch_alias

            torch_alias.install()  # so that the examples' `import torch` is flambeau here
        torch.set_num_threads(THREADS)
        sys.path.insert(0, str(HERE.parent / "examples"))
        from cases import GROUPS

        for group, cases in GROUPS.items():
            for name in (name for name in cases if name in names):
                try:
                    results[name] = time_of(cases[name].prepare(torch), group, wait_for_turn)
                except Exception:  # a row that does not run is shown as such, the others go on
                    traceback.print_exc()
                    results[name] = None
        results["peak"] = memory()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
