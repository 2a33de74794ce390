"""CompilationUnit: functions defined by source text and scripted with `torch.jit.script`."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
import textwrap
import typing
from typing import Any

from .checking.program import Program
from .scripted import ScriptFunction

__all__ = ["CompilationUnit"]

_numbers = itertools.count(1)


class CompilationUnit:
    """Functions defined by source text, available as attributes.

    >>> unit = torch.jit.CompilationUnit('''
    ... def double(x):
    ...     return x * 2
    ... ''')
    >>> unit.double(torch.ones(2))
    tensor([2., 2.])

    The text is run as Python, where the caller's names are visible: texts from elsewhere are as
    dangerous as any program. `torch.jit.load` runs no Python.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Add the functions that a text defines. Raise RuntimeError for other statements."""
        text = textwrap.dedent(lang)
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise RuntimeError(f"{error.msg}:\n{error.text or ''}") from error
        for statement in tree.body:
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                raise RuntimeError(f"expected 'def' but found {ast.unparse(statement)!r}")
        file = f"<torch.jit.CompilationUnit {next(_numbers)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        frame = sys._getframe(1 + _frames_up)
        space = {**vars(typing), **frame.f_globals, **frame.f_locals}
        exec(compile(tree, file, "exec"), space)
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                Program().check(space[statement.name])
                self._functions[statement.name] = ScriptFunction(space[statement.name])

    def find_function(self, name: str) -> ScriptFunction | None:
        """Return the function with this name, or None."""
        return self._functions.get(name)

    def get_functions(self) -> list[ScriptFunction]:
        """Return all functions."""
        return list(self._functions.values())

    def __getattr__(self, name: str) -> ScriptFunction:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        result: ScriptFunction = functions[name]
        return result
