"""The examples run: docstrings of the package, and the Python blocks of README.md and docs/.

What cannot be run is looked at: other libraries' code, excerpts, links, targets of make.
"""

from __future__ import annotations

import doctest
import importlib
import re
import tomllib
from functools import lru_cache
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.doctor.rules import all_rules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flambeau"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:)([^)#]+)")


def _modules() -> list[str]:
    """The modules with examples; operators' own are run by tests/ops."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if ">>>" in path.read_text() and parts[1] != "ops" and parts[-1] != "__main__":
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


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
    allowed = torch.serialization.get_safe_globals()  # an example clears them
    for example in finder.find(module, globs=names):
        runner.run(example, out=report.append)
    torch.serialization.add_safe_globals(allowed)
    assert not runner.failures, "".join(report)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name
)
def test_pages(page: Path, tmp_path, monkeypatch) -> None:
    """The blocks of a page run one after the other, with the names of those before."""
    monkeypatch.chdir(tmp_path)
    names = {"torch": torch, "__name__": "page"}
    text = page.read_text()
    for block in BLOCK.finditer(text):
        # Empty lines in front, so that errors have the line of the page.
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_run(page: Path) -> None:
    """Blocks without a language are output; `py` is other libraries' code, or an excerpt."""
    text = page.read_text()
    rules = all_rules().values()
    programs = {text.lstrip("\n") for rule in rules for text in (rule.broken, rule.fixed)}
    assert text.count("\n```") % 2 == 0
    for language, block in FENCE.findall(text):
        assert language in ("python", "py", ""), "a block that runs is marked python"
        if language == "py" and page.name == "coming_from.md":
            compile(block, str(page), "exec")
        elif language == "py":
            assert block in programs or any(
                block in path.read_text() for path in PACKAGE.rglob("*.py")), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_point_to_is_there(page: Path) -> None:
    text = page.read_text()
    for link in LINK.findall(text):
        assert (page.parent / link).exists(), link
    for path in re.findall(r"`?\b((?:examples|benchmarks|tests|docs)/[\w/]+\.\w+)", text):
        assert (ROOT / path).exists(), path
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"(?:^    |`)make (\w+)", text, re.MULTILINE):
        assert target in targets, f"make {target}"


INTERNALS = [ROOT / "docs/design.md",
             *(page for page in sorted((ROOT / "docs/internals").glob("*.md"))
               if page.name != "house.md")]  # which quotes names that were replaced
HYPOTHETICAL = {"helpers.py", "misc.py"}  # names that the style guide forbids


@lru_cache
def _list_path_ends() -> set[str]:
    """Every ending of the paths of files and folders: `a/b/c.py`, `b/c.py`, `c.py`."""
    ends = set()
    for folder in ("flambeau", "tests", "docs", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*"):
            parts = path.relative_to(ROOT).parts
            ends |= {"/".join(parts[i:]) for i in range(len(parts))}
    return ends


@lru_cache
def _list_words() -> set[str]:
    """Every word of the sources and of their file names."""
    words = {"Makefile"}
    for path in [ROOT / "Makefile", ROOT / "pyproject.toml",
                 *(p for folder in ("flambeau", "tests", "benchmarks", "examples")
                   for p in (ROOT / folder).rglob("*.py"))]:
        words |= {*re.findall(r"\w+", path.read_text()), *path.parts, path.stem}
    return words


@pytest.mark.parametrize("page", INTERNALS, ids=lambda page: page.name)
def test_names_in_pages_about_the_source_are_current(page: Path) -> None:
    """Whatever a page writes in backticks, a path or a name, is still in the sources."""
    text = FENCE.sub("", page.read_text())
    for code in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[\w./-]+(\.py|/)", code) and code not in HYPOTHETICAL:
            assert code.rstrip("/") in _list_path_ends(), code
        for name in re.findall(r"[A-Za-z_]\w{2,}", code):
            assert name in _list_words(), code


def test_what_runs_on_libraries_write_is_on_their_page() -> None:
    """`make wild` writes the page anew, with this text at its end."""
    settings = tomllib.loads((ROOT / "tests/wild/wild.toml").read_text())
    page = (ROOT / "docs/libraries.md").read_text()
    assert page.endswith(settings["beyond"]["text"])
