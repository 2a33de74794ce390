"""Example programs of the rules: their common prelude, and helpers to run and edit them."""

from __future__ import annotations

import linecache
import re
from typing import Any

PRELUDE = """\
import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y, t = torch.randn(64, 8), torch.randint(0, 3, (64,)), torch.randn(64, 1)
"""
MARK = "# <-"


def remove_marks(program: str) -> str:
    """Return a program without surrounding newlines, for the documentation."""
    return program.strip("\n")


def find_marked_lines(program: str) -> list[int]:
    """Return the numbers of the lines to fix, counted in the file that `run` makes."""
    lines = (PRELUDE + program).splitlines()
    return [number for number, line in enumerate(lines, 1) if line.rstrip().endswith(MARK)]


def run(program: str, name: str) -> dict[str, Any]:
    """Run a rule's program as a file called `name` and return its namespace."""
    source = PRELUDE + program
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": re.sub(r"\W", "_", name)}
    exec(compile(source, name, "exec"), space)
    return space


def edit(program: str, lines: dict[str, str]) -> str:
    """Return a program with lines replaced. `lines` maps a line's text, without indentation, to
    its replacement: empty text removes the line, several lines expand it. Raise ValueError if a
    line is missing."""
    result, missing = [], dict(lines)
    for line in program.splitlines(keepends=True):
        text = line.strip()
        if text not in lines:
            result.append(line)
            continue
        missing.pop(text, None)
        indent = line[: len(line) - len(line.lstrip())]
        result += [f"{indent}{new}\n" for new in lines[text].splitlines()]
    if missing:
        raise ValueError(f"not in the program: {', '.join(map(repr, missing))}")
    return "".join(result)
