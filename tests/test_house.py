"""The house rules that a linter does not know: sizes, docstrings, names, what import loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("flambeau", "tests", "benchmarks", "examples", ".ci")
PACKAGE = sorted((ROOT / "flambeau").rglob("*.py"))
ALL = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))

LONGEST_FILE = 700
LONGEST_FUNCTION = 40  # lines of code: the signature and the docstring do not count
FORBIDDEN = re.compile(r"^(utils?|helpers?|misc|common|stuff|tools?)\.py$")
# Names that PyTorch has.
ALLOWED = {"flambeau/_dynamo/utils.py", "flambeau/nn/modules/utils.py"}
HOSTILE = {"tests/test_house.py", "tests/serialization/test_hostile.py"}  # they mean what they say
ABSOLUTE = re.compile(r"(?<![\w.])/(?:home|Users|work|root|tmp|mnt|opt|data)/\w")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body behind its docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE, "split the file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = code_lines(node)
            assert length <= LONGEST_FUNCTION, f"line {node.lineno}: {node.name}: {length} lines"


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_opens_with_a_docstring(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, "a module says what it is"
    if path in PACKAGE:
        assert docstring.split("\n\n")[0].count("\n") < 5


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_names_of_files(path: Path) -> None:
    assert not FORBIDDEN.match(path.name) or relative(path) in ALLOWED


def test_no_absolute_paths() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{relative(path)}:{number}"
        for path in [*ALL, *pages, ROOT / "Makefile"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ABSOLUTE.search(line) and relative(path) not in HOSTILE
    ]
    assert not found


def test_import_is_lean() -> None:
    """`import flambeau` loads NumPy and the operators, nothing that only some programs use."""
    heavy = ("scipy", "llvmlite", "flambeau.nn", "flambeau.optim", "flambeau.utils",
             "flambeau.serialization", "multiprocessing", "matplotlib")  # fmt: skip
    program = f"import flambeau, sys; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                         check=True)  # fmt: skip
    assert run.stdout.strip() == "[]"
