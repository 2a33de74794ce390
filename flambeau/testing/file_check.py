"""FileCheck: check that strings occur in a text, in order."""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["FileCheck"]


class FileCheck:
    """A chain of checks; `run` performs them in order, each after the previous one's match.

    Raises RuntimeError for the first check that fails.

    >>> torch.testing.FileCheck().check("relu").check_next("return").run("x = relu(y)\\nreturn x")
    """

    def __init__(self) -> None:
        self._checks: list[tuple[str, str, int]] = []

    def _add(self, directive: str, text: str, count: int = 1) -> FileCheck:
        self._checks.append((directive, text, count))
        return self

    def check(self, text: str) -> FileCheck:
        """Require the text."""
        return self._add("CHECK", text)

    def check_not(self, text: str) -> FileCheck:
        """Require that the text does not occur before the next check's match."""
        return self._add("CHECK-NOT", text)

    def check_same(self, text: str) -> FileCheck:
        """Require the text on the same line."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text: str) -> FileCheck:
        """Require the text on the next line."""
        return self._add("CHECK-NEXT", text)

    def check_dag(self, text: str) -> FileCheck:
        """Require the text, in any order among adjacent `check_dag` calls."""
        return self._add("CHECK-DAG", text)

    def check_regex(self, pattern: str) -> FileCheck:
        """Require a match of the regular expression."""
        return self._add("CHECK-REGEX", pattern)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """Require `count` occurrences of the text; with `exactly`, no more."""
        self._add("CHECK-COUNT", text, count)
        return self._add("CHECK-NOT", text) if exactly else self

    def check_source_highlighted(self, text: str) -> FileCheck:
        """Require the text above a line of `~~~` that marks it."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", text)

    def run(self, text: Any) -> None:
        """Perform the checks."""
        _Run(str(text)).run(self._checks)


class _Run:
    """Runs checks on one text; `at` is where the last match ended."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def run(self, checks: list[tuple[str, str, int]]) -> None:
        """Perform the checks in order."""
        absent: list[str] = []
        i = 0
        while i < len(checks):
            directive, pattern, count = checks[i]
            i += 1
            if directive == "CHECK-NOT":
                absent.append(pattern)
                continue
            start = self.at
            if directive == "CHECK-DAG":
                group = [pattern]
                while i < len(checks) and checks[i][0] == "CHECK-DAG":
                    group.append(checks[i][1])
                    i += 1
                matches = [self._find(directive, other, start) for other in group]
                first, self.at = min(a for a, _ in matches), max(b for _, b in matches)
            else:
                first = self._check(directive, pattern, count)
            self._refuse(absent, start, first)
            absent = []
        self._refuse(absent, self.at, len(self.text))

    def _check(self, directive: str, pattern: str, count: int) -> int:
        """Perform one check, which advances `at`; return where its first match starts."""
        start = self.at
        if directive in ("CHECK-SAME", "CHECK-NEXT"):
            first, end = self._find(directive, pattern, start)
            lines = self.text.count("\n", start, first)
            if lines != (directive == "CHECK-NEXT"):
                self._fail(directive, pattern)
            self.at = end
            return first
        if directive == "CHECK-REGEX":
            match = re.compile(pattern).search(self.text, start)
            if match is None:
                self._fail(directive, pattern)
            self.at = match.end()
            return match.start()
        if directive == "CHECK-SOURCE-HIGHLIGHTED":
            marked = re.compile(re.escape(pattern) + r"[^\n]*\n[^\n]*~").search(self.text, start)
            if marked is None:
                self._fail(directive, pattern)
            self.at = marked.end()
            return marked.start()
        first = -1
        for _ in range(count):
            match_start, self.at = self._find(directive, pattern, self.at)
            first = match_start if first < 0 else first
        return first if first >= 0 else start

    def _find(self, directive: str, pattern: str, start: int) -> tuple[int, int]:
        index = self.text.find(pattern, start)
        if index < 0:
            self._fail(directive, pattern)
        return index, index + len(pattern)

    def _refuse(self, absent: list[str], start: int, end: int) -> None:
        for pattern in absent:
            if self.text.find(pattern, start, end) >= 0:
                raise RuntimeError(f'Expected to not find "{pattern}" but found it\n{self.text}')

    def _fail(self, directive: str, pattern: str) -> NoReturn:
        raise RuntimeError(f'Expected to find "{pattern}" but did not find it\nSearched string:\n'
                           f"{self.text}\nFrom {directive}: {pattern}\n")
