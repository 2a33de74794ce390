"""Runs samples of PyTorch's own tests on PyTorch and on flambeau, and writes docs/pytorch_tests.md.

    python tests/wild/pytorch_tests.py [--seconds 60] [--tests FOLDER] [FILE ...]

Needs an environment with torch==2.13.0 and flambeau: `make wild-pytorch` has one. The test files
are PyTorch's at the tag v2.13.0, cloned once into the cache; --tests names another folder that
holds them. A sample's outcomes stay in the cache too, so that a run that was cut goes on; --fresh
runs flambeau's anew. A row counts in pytorch_rows.json until its file runs again, so that a run of
a few files keeps the others' rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytorch_page
from outcomes import Compared, Reasons, compare

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "pytorch_tests.md"
ROWS = HERE / "pytorch_rows.json"
NOTES = HERE / "pytorch_notes.md"  # what the page says beside its tables
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "flambeau-wild"
SETTINGS = tomllib.loads((HERE / "wild.toml").read_text())["pytorch"]

# A run that writes nothing hangs when it has computed for as long, whatever else the machine does,
SILENT_S = 150
WAITING_S = 900  # or when the clock went on for as long: locks that nobody opens
LOOK_S = 5  # between two looks at a run
RESTARTS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="as they are called in wild.toml; all without")
    parser.add_argument("--seconds", type=float, default=SETTINGS["seconds"], help="per sample")
    parser.add_argument("--tests", type=Path, help="a folder with PyTorch's test files")
    parser.add_argument("--results", type=Path, default=CACHE / "pytorch")
    parser.add_argument("--fresh", action="store_true", help="run flambeau's samples anew")
    parser.add_argument("--table", action="store_true", help="only write the page")
    options = parser.parse_args()
    options.results = options.results.resolve()
    options.results.mkdir(parents=True, exist_ok=True)
    files = [] if options.table else options.files or SETTINGS["files"]
    tests = (options.tests or cloned_tests()).resolve() if files else None
    rows = pytorch_page.read(ROWS)
    for file in files:
        sample(file, tests, options)
        rows[file] = pytorch_page.row(compared(file, options.results))
        print(pytorch_page.line(file, rows[file]), flush=True)
        pytorch_page.write(ROWS, rows)
    version, source = SETTINGS["tag"].removeprefix("v"), SETTINGS["copies"].strip()
    PAGE.write_text(pytorch_page.page(rows, version, source, NOTES.read_text()))


def cloned_tests() -> Path:
    """PyTorch's test folder, cloned without history and without the rest of the repository."""
    folder = CACHE / f"pytorch-{SETTINGS['tag']}"
    if not folder.exists():
        url = "https://github.com/pytorch/pytorch"
        subprocess.run(["git", "clone", "--depth", "1", "--filter=blob:none", "--sparse",
                        "--branch", SETTINGS["tag"], url, str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "sparse-checkout", "set", "test"], check=True)
    return folder / "test"


def outputs(file: str, results: Path) -> tuple[Path, Path]:
    """Where a file's outcomes go: on PyTorch, on flambeau."""
    name = file.replace("/", ".")
    return results / f"{name}.torch.jsonl", results / f"{name}.flambeau.jsonl"


def compared(file: str, results: Path) -> Compared:
    return compare(file, *outputs(file, results), Reasons(HERE / "reasons.toml"))


def sample(file: str, tests: Path, options: argparse.Namespace) -> None:
    """Runs a file's sample on PyTorch, unless it is there, and what passed on flambeau."""
    theirs, ours = outputs(file, options.results)
    run("torch", tests, file, theirs, options.seconds)
    if options.fresh:
        ours.unlink(missing_ok=True)
    run("flambeau", tests, file, ours, 2 * options.seconds, theirs)


def run(
    backend: str, tests: Path, file: str, out: Path, seconds: float, only: Path | None = None
) -> None:
    """Runs a sample to its end: after a crash or a hang it goes on with the next test."""
    command = [sys.executable, str(HERE / "pytorch_sample.py"), backend, str(tests), file,
               str(out), str(seconds), *([str(only)] if only else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(RESTARTS):
        with out.with_suffix(".log").open("a") as log:
            process = subprocess.Popen(command, cwd=(tests / file).parent, env=environment,
                                       stdout=log, stderr=log)
        hung = not finished(process, out)
        lines = [json.loads(line) for line in out.open()] if out.exists() else []
        if not lines or lines[-1]["ev"] in ("finished", "budget"):
            return
        ended = {line["id"] for line in lines if line["ev"] == "end"}
        started = [line["id"] for line in lines if line["ev"] == "start"]
        unfinished = [id for id in started if id not in ended]
        if not unfinished:
            return
        outcome = "hang" if hung else "crash"
        message = f"{outcome}: the process ended with {process.returncode}"
        with out.open("a") as log:
            for id in unfinished:
                print(json.dumps({"ev": "end", "id": id, "outcome": outcome, "msg": message,
                                  "s": 0}), file=log)


def finished(process: subprocess.Popen, out: Path) -> bool:
    """Waits for a process; kills it, and says False, when it has written nothing for long."""
    size, computed_s, changed = -1, 0.0, time.monotonic()
    while True:
        try:
            process.wait(timeout=LOOK_S)
            return True
        except subprocess.TimeoutExpired:
            now = out.stat().st_size if out.exists() else 0
            if now != size:
                size, computed_s, changed = now, processor_s(process.pid), time.monotonic()
            elif (processor_s(process.pid) - computed_s > SILENT_S
                  or time.monotonic() - changed > WAITING_S):
                process.kill()
                process.wait()
                return False


def processor_s(pid: int) -> float:
    """What a process and its children have computed; 0 when it has ended."""
    try:
        process = psutil.Process(pid)
        below = [child.cpu_times() for child in process.children(recursive=True)]
        return sum(process.cpu_times()[:4]) + sum(sum(times[:2]) for times in below)
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    main()
