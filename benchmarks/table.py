"""Turns the benchmark's figures into tables, and puts them between a page's marks.

    python benchmarks/table.py      writes docs/speed.md from results.json
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from cases import GROUPS, HEADINGS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BEGIN = "<!-- speed: begin (written by benchmarks/eager.py --readme) -->"
END = "<!-- speed: end -->"
IMPORT_TARGETS = {"import": 4}


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "does not run"
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    return ""


def megabytes(size: float | None) -> str:
    return "does not run" if size is None else f"{size:.0f} MB"


def times(ours: float | None, theirs: float | None) -> str:
    """How many times faster, or smaller, ours is."""
    return "" if not ours or theirs is None else f"{theirs / ours:.2f}"


def row(title: str, name: str, results: dict, show=duration, target: float | None = None) -> str:
    theirs, ours = results["torch"].get(name), results["flambeau"].get(name)
    aim = "" if target is None else f"{target:g}"
    return f"| {title} | {show(theirs)} | {show(ours)} | {times(ours, theirs)} | {aim} |"


def head(title: str) -> list[str]:
    return [f"| {title} | PyTorch | flambeau | times | aim |", "|---|---:|---:|---:|---:|"]


def footnote(results: dict) -> str:
    machine = results["machine"]
    return (
        f"PyTorch {machine['torch']}, Python {machine['python']}, {machine['processor']}, "
        f"2 threads, {machine['date']}; medians of {results['rounds']} rounds, each in fresh "
        "processes. \"times\": how many times faster, or smaller, flambeau is; above 1 is better."
    )


def markdown(results: dict) -> str:
    """Every row that was measured, a table a group."""
    lines: list[str] = []
    for group, cases in GROUPS.items():
        measured = [name for name in cases if name in results["torch"]]
        if not measured:
            continue
        lines += head(HEADINGS[group])
        lines += [row(cases[n].title, n, results, target=cases[n].target) for n in measured]
        lines.append("")
    lines += head("Import, and peak memory")
    lines.append(row("import, time", "import", results, target=IMPORT_TARGETS["import"]))
    lines.append(row("import, memory", "import memory", results, megabytes))
    for name, step in GROUPS["steps"].items():
        if name in results["torch"]:
            lines.append(row(f"{step.title}, memory", f"{name} memory", results, megabytes))
    return "\n".join([*lines, "", footnote(results)])


def put(page: Path, begin: str, end: str, text: str) -> None:
    """Puts a text between two marks of a page."""
    marked = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    old = page.read_text(encoding="utf-8")
    if not marked.search(old):
        raise SystemExit(f"{page.name} lacks the marks {begin} and {end}")
    page.write_text(marked.sub(lambda _: f"{begin}\n{text}\n{end}", old), encoding="utf-8")


def write_page(results: dict) -> None:
    """Writes results.json, and docs/speed.md between its marks."""
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    put(ROOT / "docs" / "speed.md", BEGIN, END, markdown(results))


if __name__ == "__main__":
    write_page(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
