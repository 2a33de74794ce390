"""`make wild-pytorch`: a run of a few files keeps the others' rows and what was written by hand."""

import sys
from collections import Counter
from pathlib import Path

import pytest

WILD = Path(__file__).resolve().parent / "wild"


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(WILD))
    import pytorch_page

    yield pytorch_page
    for name in ("pytorch_page", "outcomes"):
        sys.modules.pop(name, None)


def sample(pages, name, *, passed):
    lost = {"open": Counter({"a wrong sum": 10 - passed})} if passed < 10 else {}
    return pages.Compared(name, 40, 12, 10, passed, {"absent": Counter(), "theirs": Counter(),
                          "open": Counter(), **lost}, {"a wrong sum": "TestSums::test_sum"})


def test_rows_survive_a_run_of_other_files(pages, tmp_path):
    file = tmp_path / "rows.json"
    pages.write(file, {"test_a.py": pages.row(sample(pages, "test_a.py", passed=8))})
    rows = pages.read(file)
    rows["test_b.py"] = pages.row(sample(pages, "test_b.py", passed=10))
    pages.write(file, rows)
    page = pages.page(pages.read(file), "2.13.0", "From a folder.", "## By hand\n\nA remark.\n")
    assert "| test_a.py | 40 | 12 | 10 | 8 | 80.0 | 0 | 0 | 2 | 80.0 |" in page
    assert "| **all** | 80 | 24 | 20 | 18 | 90.0 | 0 | 0 | 2 | 90.0 |" in page
    assert "| 2 | a wrong sum | test_a.py::TestSums::test_sum |" in page
    assert "\n## By hand\n\nA remark.\n" in page


def test_the_page_is_the_one_that_its_parts_give(pages):
    """Nothing is written into the page by hand: the next run would lose it."""
    import tomllib

    settings = tomllib.loads((WILD / "wild.toml").read_text())["pytorch"]
    page = pages.page(pages.read(WILD / "pytorch_rows.json"), settings["tag"].removeprefix("v"),
                      settings["copies"].strip(), (WILD / "pytorch_notes.md").read_text())
    assert (WILD.parent.parent / "docs" / "pytorch_tests.md").read_text() == page
