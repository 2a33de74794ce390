"""The programs in the rules: what they begin with, and how one is run."""

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


def without_marks(program: str) -> str:
    """A program as the documentation shows it."""
    return program.strip("\n")


def marked_lines(program: str) -> list[int]:
    """The numbers of the lines to mend, as they are in the file that `run` makes."""
    lines = (PRELUDE + program).splitlines()
    return [number for number, line in enumerate(lines, 1) if line.rstrip().endswith(MARK)]


def run(program: str, name: str) -> dict[str, Any]:
    """Run a program of a rule, as a file called `name`; returns its namespace."""
    source = PRELUDE + program
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": re.sub(r"\W", "_", name)}
    exec(compile(source, name, "exec"), space)
    return space


def edit(program: str, lines: dict[str, str]) -> str:
    """A program with some lines replaced: each is named by its text without indentation, and must
    stand in the program; an empty replacement takes the line away, several lines add to it."""
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
