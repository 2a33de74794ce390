"""Runs libraries on PyTorch and on flambeau, where nothing else is called torch, and compares.

    python tests/wild/libraries.py [--flambeau PYTHON] [--torch PYTHON] [NAME ...]

`make wild` has the two environments, with the versions in requirements.txt: in one flambeau's
alias is what `import torch` finds, in the other PyTorch, with the libraries of the first. What runs
is in wild.toml: programs of this folder, whose numbers are compared case by case; libraries' own
tests; and pytorch/examples as they are, on generated data. The table goes to docs/libraries.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import subprocess
import tarfile
import time
import tomllib
from collections import Counter
from pathlib import Path

from outcomes import read, share, short

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "libraries.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "flambeau-wild"
SETTINGS = tomllib.loads((HERE / "wild.toml").read_text())

WHAT = {"program": "programs", "tests": "tests", "examples": "examples"}
TOLERANCE = 2e-3  # of numbers after a few steps of training
CLOCK = 15  # seconds of the clock that a command may take for each one of a processor
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
TIMING = re.compile(r"ms/batch|time|seconds|it/s|sec", re.I)

HEAD = """# Libraries

Written by `make wild`: each library runs on PyTorch {torch} and on flambeau, in an environment
where flambeau's alias is the only torch. "Programs" are those of `tests/wild/programs/`: numbers
(losses of a few steps, gradients, results) have to agree to {tolerance:g}; "tests" are the
library's own, in a sample; examples are pytorch/examples as they are, on generated data.

| library | version | what | pass on PyTorch | of these here | % | seconds on PyTorch | here |
|---|---|---|---:|---:|---:|---:|---:|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="entries of wild.toml; all without")
    parser.add_argument("--flambeau", type=Path, default=ROOT / ".venv-wild/bin/python")
    parser.add_argument("--torch", type=Path, default=ROOT / ".venv-wild-torch/bin/python")
    parser.add_argument("--examples", type=Path, help="a folder with pytorch/examples")
    parser.add_argument("--results", type=Path, default=CACHE / "libraries")
    parser.add_argument("--table", action="store_true", help="only write the page")
    parser.add_argument("--patience", type=float, default=1.0,
                        help="times the processor seconds in wild.toml")
    options = parser.parse_args()
    options.results = options.results.resolve()
    options.results.mkdir(parents=True, exist_ok=True)
    entries = SETTINGS["libraries"]
    for entry in entries:
        entry["seconds"] *= options.patience
    for entry in () if options.table else entries:
        if not options.names or entry["name"] in options.names:
            for backend in ("torch", "flambeau"):
                run(entry, backend, options)
            print(row(entry, options.results), flush=True)
    PAGE.write_text(page(entries, options.results, versions(options.flambeau)))


def output(entry: dict, backend: str, results: Path) -> Path:
    name = entry["name"].replace("/", "-")
    return results / f"{name}.{entry['kind']}.{backend}.jsonl"


def run(entry: dict, backend: str, options: argparse.Namespace) -> None:
    """Runs an entry's program, tests or examples on one of the two."""
    python = (options.torch if backend == "torch" else options.flambeau).absolute()
    out = output(entry, backend, options.results)
    out.unlink(missing_ok=True)
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1",
        "KERAS_BACKEND": "torch", "EINOPS_TEST_BACKENDS": "numpy,torch", "WILD_OUT": str(out),
        "PYTHONPATH": str(HERE), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    }
    ways = {"program": run_program, "tests": run_tests, "examples": run_examples}
    ways[entry["kind"]](entry, python, out, environment, options)


def start(command: list[str], folder: Path, environment: dict, seconds: float) -> tuple[str, int]:
    """What a command printed, and its exit status: negative where it took too long.

    `seconds` are those of a processor, so that a busy machine ends nothing early; a command that
    waits instead of working is ended by the clock.
    """
    limit = math.ceil(seconds)
    with subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit + 5))
        try:
            printed, _ = process.communicate(timeout=CLOCK * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            printed, _ = process.communicate()
    return printed, process.returncode


def write(out: Path, id: str, outcome: str, seconds: float, **more: object) -> None:
    with out.open("a") as file:
        line = {"ev": "end", "id": id, "outcome": outcome, "s": seconds, **more}
        print(json.dumps(line), file=file)


def run_program(entry: dict, python: Path, out: Path, environment: dict, options: object) -> None:
    file = HERE / "programs" / entry["program"]
    printed, _ = start([str(python), str(file)], file.parent, environment, entry["seconds"])
    for text in printed.splitlines():
        if text.startswith("CASE "):
            case = json.loads(text.removeprefix("CASE "))
            outcome = "failed" if "error" in case else "passed"
            write(out, case["id"], outcome, case["s"], numbers=case.get("numbers"),
                  msg=case.get("error", ""))


def run_tests(entry: dict, python: Path, out: Path, environment: dict, settings: object) -> None:
    folder = source(entry, python)
    environment["WILD_EVERY"] = str(entry.get("every", 1))
    options = "-q -p outcomes_plugin -p no:cacheprovider --timeout 300 -o addopts= -rN".split()
    options += ["--continue-on-collection-errors"]
    if entry.get("installed"):
        # Beside the library lies flambeau's alias: on PyTorch's side that folder must stay behind
        # PyTorch's in sys.path. Without -c, pytest reads the settings of the project around it.
        environment["PYTHONSAFEPATH"] = "1"
        options += ["-c", os.devnull, "--rootdir", str(folder), "--import-mode=importlib"]
    command = [str(python), "-m", "pytest", *options, *entry["paths"]]
    start(command, folder, environment, entry["seconds"])


def source(entry: dict, python: Path) -> Path:
    """Where a library's tests lie: in its package, its source distribution or its repository."""
    if entry.get("installed"):  # PyTorch's environment sees the libraries of the other one
        package = entry["paths"][0].partition("/")[0]
        program = f"import importlib.util; print(importlib.util.find_spec({package!r}).origin)"
        return Path(start([str(python), "-c", program], HERE, dict(os.environ), 60)[0].strip()
                    ).parent.parent
    if "repository" in entry:
        return checkout(entry["repository"], entry["ref"]) / entry.get("folder", ".")
    name = f"{entry['package']}-{entry['version']}"
    folder = CACHE / "sources" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        wanted = f"{entry['package']}=={entry['version']}"
        subprocess.run([str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                        ":all:", "--dest", str(folder.parent), wanted], check=True)
        with tarfile.open(folder.parent / f"{name}.tar.gz") as archive:
            archive.extractall(folder.parent, filter="data")
    return folder


def checkout(repository: str, ref: str) -> Path:
    """A GitHub repository's files at a tag or commit."""
    folder = CACHE / "sources" / f"{repository.partition('/')[2]}-{ref[:12]}"
    if not folder.exists():
        folder.mkdir(parents=True)
        url = f"https://github.com/{repository}"
        for command in (["init", "--quiet"], ["fetch", "--quiet", "--depth", "1", url, ref],
                        ["checkout", "--quiet", "FETCH_HEAD"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def run_examples(entry: dict, python: Path, out: Path, environment: dict,
                 options: argparse.Namespace) -> None:
    from generated_data import prepare

    folder = options.examples or cloned_examples()
    work = options.results / out.stem
    for name, arguments in entry["examples"].items():
        place = prepare(folder, name, work)
        started = time.monotonic()
        command = [str(python), *arguments.split()]
        printed, status = start(command, place, environment, entry["seconds"])
        lines = [line for line in printed.splitlines() if not TIMING.search(line)]
        numbers = [float(number) for line in lines for number in NUMBER.findall(line)]
        outcome = "passed" if status == 0 else "failed"
        write(out, name, outcome, time.monotonic() - started, msg=printed[-700:] if status else "",
              numbers=numbers)


def cloned_examples() -> Path:
    folder = CACHE / "examples"
    if not folder.exists():
        url = "https://github.com/pytorch/examples"
        subprocess.run(["git", "clone", "--depth", "1", url, str(folder)], check=True)
    return folder


def differs(ours: list[float] | None, theirs: list[float] | None) -> bool:
    """Whether two runs gave other numbers; where there are none, nothing differs."""
    if not ours and not theirs:
        return False
    if ours is None or theirs is None or len(ours) != len(theirs):
        return True
    scale = max((abs(x) for x in theirs if math.isfinite(x)), default=0.0)
    return any(
        abs(x - y) > TOLERANCE * max(abs(x), abs(y), 0.01 * scale, 1e-3)
        for x, y in zip(ours, theirs, strict=True) if math.isfinite(x) or math.isfinite(y)
    )


def compared(entry: dict, results: Path) -> tuple[dict, dict, dict[str, str]]:
    """What passed on PyTorch, how it ended here, and the reasons of what is lost, by id."""
    theirs, _ = read(output(entry, "torch", results))
    ours, _ = read(output(entry, "flambeau", results))
    wanted = {id: line for id, line in theirs.items() if line["outcome"] == "passed"}
    ran = {id: ours[id] for id in wanted if id in ours}
    if entry["kind"] == "program":  # a program that died has not run the rest
        ran |= {id: {"outcome": "failed", "msg": "not reached", "s": 0}
                for id in wanted if id not in ours}
    lost = {}
    for id, line in ran.items():
        if line["outcome"] != "passed":
            last = (line.get("msg") or line["outcome"]).strip().splitlines()
            lost[id] = short(last[-1])
        elif id not in entry.get("unseeded", ()) and differs(
            line.get("numbers"), wanted[id].get("numbers")
        ):
            lost[id] = "other numbers"
    return {id: wanted[id] for id in ran}, ran, lost


def row(entry: dict, results: Path, version: str = "") -> str:
    wanted, ran, lost = compared(entry, results)
    passed = len(wanted) - len(lost)
    seconds = [sum(line.get("s", 0) for line in lines.values()) for lines in (wanted, ran)]
    return (f"| {entry['name']} | {version} | {WHAT[entry['kind']]} | {len(wanted)} | {passed} "
            f"| {share(passed, len(wanted))} | {seconds[0]:.1f} | {seconds[1]:.1f} |")


def versions(python: Path) -> dict[str, str]:
    """The installed distributions' versions, by normalised name."""
    program = ("import importlib.metadata as m, json; print(json.dumps({d.metadata['Name'].lower()"
               ".replace('_', '-'): d.version for d in m.distributions()}))")
    printed = subprocess.run([str(python), "-c", program], capture_output=True, text=True,
                             check=True).stdout
    return json.loads(printed)


def page(entries: list[dict], results: Path, installed: dict[str, str]) -> str:
    """The page: entries without results keep the rows that it has."""
    earlier = PAGE.read_text().splitlines()
    rows, problems = [], []
    for entry in entries:
        wanted, _, lost = compared(entry, results)
        if not wanted:
            rows += [line for line in earlier if re.match(
                rf"\| {re.escape(entry['name'])} \|[^|]*\| {WHAT[entry['kind']]} \|", line)]
            problems += [line for line in earlier
                         if re.match(rf"\| {re.escape(entry['name'])} \| \d+ \|", line)]
            continue
        package = entry.get("package", entry["name"]).lower().replace("_", "-")
        rows.append(row(entry, results, entry.get("version") or installed.get(package, "")))
        for reason, n in Counter(lost.values()).most_common():
            id = next(id for id, why in lost.items() if why == reason)
            problems.append(f"| {entry['name']} | {n} | {reason} | {id} |")
    counts = [[int(line.split("|")[i]) for i in (4, 5)] for line in rows]
    wanted, passed = (sum(column) for column in zip(*counts, strict=True))
    rows.append(f"| **all** | | | {wanted} | {passed} | {share(passed, wanted)} | | |")
    head = HEAD.format(torch=SETTINGS["pytorch"]["tag"].removeprefix("v"), tolerance=TOLERANCE)
    failing = ["## What fails", "", "| library | cases | reason | for example |",
               "|---|---:|---|---|"]
    lines = [*rows, "", *failing, *dict.fromkeys(problems), "", SETTINGS["beyond"]["text"]]
    return head + "\n".join(lines)


if __name__ == "__main__":
    main()
