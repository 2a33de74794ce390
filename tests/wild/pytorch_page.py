"""docs/pytorch_tests.md: the table of PyTorch's test files, why tests fail, and written notes.

A row of the table is kept in a file, by the name of its test file, until that runs again.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from outcomes import Compared, share

HEAD = """# PyTorch's own tests

Written by `make wild-pytorch`. Each file of PyTorch's tests runs in a sample, on PyTorch {version}
and on flambeau, in one process of one thread; of what passes on PyTorch the table says how much
passes here. A sample is a prefix of the tests in the order of a checksum of their names. Tests of
`torch._refs`, fake tensors, dispatcher tags and negative views are left out, and those that take
PyTorch more than four seconds. Samples are measured in processor seconds.

{source}

"absent": tests that need a subsystem which flambeau does not have. "theirs": tests of PyTorch's
private names. "open": the rest. The last column leaves out the first two.

| file | tests | pass on PyTorch | run here | pass | % | absent | theirs | open | % of the others |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""

KINDS = {"absent": "Subsystems that are absent", "theirs": "Tests of PyTorch's own code",
         "open": "Open"}
Rows = dict[str, dict[str, Any]]


def read(path: Path) -> Rows:
    """The rows so far, by file."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, rows: Rows) -> None:
    """A line per row, so that a change of one is a change of one line."""
    lines = ",\n".join(f"{json.dumps(file)}: {json.dumps(row)}" for file, row in rows.items())
    path.write_text(f"{{\n{lines}\n}}\n")


def row(c: Compared) -> dict[str, Any]:
    """What is kept of a file's sample: counts, and each reason's count and a test for example."""
    return {
        "counts": [c.collected, c.on_torch, c.ran, c.passed],
        "lost": [sum(c.lost[kind].values()) for kind in KINDS],
        "reasons": {kind: {reason: [n, c.examples[reason]] for reason, n in c.lost[kind].items()}
                    for kind in KINDS if c.lost[kind]},
    }


def line(name: str, row: dict[str, Any]) -> str:
    """A line of the table."""
    collected, on_torch, ran, passed = row["counts"]
    absent, theirs, still_open = row["lost"]
    others = ran - absent - theirs
    return (f"| {name} | {collected} | {on_torch} | {ran} | {passed} "
            f"| {share(passed, ran)} | {absent} | {theirs} | {still_open} "
            f"| {share(passed, others)} |")


def page(rows: Rows, version: str, source: str, notes: str) -> str:
    """The table and its sums, the notes, and why tests fail; `source`: where the tests are from."""
    text = HEAD.format(version=version, source=source)
    ran = {name: row for name, row in rows.items() if row["counts"][2]}
    text += "".join(line(name, row) + "\n" for name, row in ran.items())
    sums = {key: [sum(column) for column in zip(*(row[key] for row in ran.values()), strict=True)]
            for key in ("counts", "lost")}
    if ran:
        text += line("**all**", sums) + "\n"
    if left_out := [name for name in rows if name not in ran]:
        text += f"\nNot run for this table: {', '.join(left_out)}.\n"
    text += "\n" + notes.strip() + "\n"
    for kind, title in KINDS.items():
        text += f"\n## {title}\n\n| tests | reason | for example |\n|---:|---|---|\n"
        text += "".join(reasons(ran, kind))
    return text


def reasons(rows: Rows, kind: str) -> list[str]:
    """Lines of a table: how many tests fail for a reason, the most frequent first."""
    tests: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name, row in rows.items():
        for reason, (n, example) in row["reasons"].get(kind, {}).items():
            tests[reason] += n
            examples.setdefault(reason, f"{name}::{example}")
    return [f"| {n} | {reason} | {examples[reason]} |\n" for reason, n in tests.most_common()]
