"""The examples run: docstrings of the package, and the Python blocks of README.md and docs/."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import flambeau as torch

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flambeau"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _modules() -> list[str]:
    """The modules with examples; operators' own are run by tests/ops."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if ">>>" in path.read_text() and parts[1] != "ops" and parts[-1] != "__main__":
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")  # of old names
@pytest.mark.parametrize("name", _modules())
def test_docstrings(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {**vars(module), "torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    torch.manual_seed(0)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report: list[str] = []
    for example in finder.find(module, globs=names):
        runner.run(example, out=report.append)
    assert not runner.failures, "".join(report)


def _pages() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", _pages(), ids=lambda page: page.name)
def test_pages(page: Path, tmp_path, monkeypatch) -> None:
    """The blocks of a page run one after the other, with the names of those before."""
    monkeypatch.chdir(tmp_path)
    names = {"torch": torch, "__name__": "page"}
    text = page.read_text()
    for block in BLOCK.finditer(text):
        # Empty lines in front, so that errors have the line of the page.
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(page), "exec"), names)
