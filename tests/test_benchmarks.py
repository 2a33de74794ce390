"""The benchmark's cases run on flambeau, and its table finds its place in README.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("cases", "table")


@pytest.fixture(scope="module")
def benchmarks():
    """The modules `cases` and `table` of benchmarks/."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield [__import__(name) for name in MODULES]
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_small_cases_run(benchmarks):
    cases, _ = benchmarks
    for case in cases.GROUPS["small"].values():
        case.prepare(flambeau)()


@pytest.mark.parametrize("name", ["tiny_mlp", "mlp"])
def test_a_step_trains(benchmarks, name):
    cases, _ = benchmarks
    work = cases.GROUPS["steps"][name].prepare(flambeau)
    work()
    work()


def test_every_headline_is_a_row(benchmarks):
    cases, table = benchmarks
    rows = {name for group in cases.GROUPS.values() for name in group} | {"import"}
    assert set(table.HEADLINE) <= rows


def test_readme_has_the_marks(benchmarks):
    _, table = benchmarks
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(table.BEGIN) == text.count(table.END) == 1
    assert text.index(table.BEGIN) < text.index(table.END)


def test_a_row_that_did_not_run_says_so(benchmarks):
    _, table = benchmarks
    results = {"torch": {"add": 2e-6, "exp": 1.0}, "flambeau": {"add": 1e-6, "exp": None}}
    assert table.row("`a + b`", "add", results) == "| `a + b` | 2 us | 1 us | 0.50 |  |"
    assert table.row("`exp`", "exp", results) == "| `exp` | 1 s | does not run |  |  |"
