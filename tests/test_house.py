"""The house rules that a linter does not know: sizes, docstrings, names, what import loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
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
# Names that say nothing, and the folders that are free of them.
EMPTY_NAMES = {"one", "made", "found", "given", "kept", "held"}
NAMED_FOLDERS = ("flambeau/native/", "flambeau/compiler/lowering/")
# Keys of kernels' arguments and the like, which other folders know by these names.
NAMED_LATER = {
    "flambeau/compiler/lowering/numpy/rebind_numpy.py",
    "flambeau/native/codegen/winograd/forward.py",
    "flambeau/native/kernels/depthwise.py",
    "flambeau/native/kernels/pool_nhwc.py",
}
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


def bound_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of variables, parameters, functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.lineno, node.name


@pytest.mark.parametrize(
    "path", [p for p in PACKAGE if relative(p).startswith(NAMED_FOLDERS)], ids=relative
)
def test_names_say_something(path: Path) -> None:
    empty = [f"line {line}: {name}" for line, name in bound_names(ast.parse(path.read_text()))
             if name in EMPTY_NAMES]
    assert bool(empty) == (relative(path) in NAMED_LATER), empty or "take it off the list"


def test_classes_of_the_native_layer_have_names_of_their_own() -> None:
    homes: dict[str, list[str]] = {}
    for path in PACKAGE:
        if relative(path).startswith("flambeau/native/"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(relative(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


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
             "flambeau.serialization", "multiprocessing", "matplotlib")
    program = f"import flambeau, sys; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                         check=True)
    assert run.stdout.strip() == "[]"
