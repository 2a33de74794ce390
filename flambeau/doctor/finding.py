"""Findings: a mistake, its level of certainty, and the lines it points to."""

from __future__ import annotations

import enum
import linecache
import os
from dataclasses import dataclass, field
from typing import Any


class Level(enum.StrEnum):
    """How certain a finding is.

    CERTAIN: the values prove it. LIKELY: a harmless explanation exists, but is rare. HINT: worth a
    look; hints appear in the page and in JSON, never on the terminal.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    HINT = "hint"


@dataclass(frozen=True)
class Place:
    """A line of the user's program, and its role in a finding."""

    file: str
    line: int
    function: str = ""
    role: str = ""

    @property
    def text(self) -> str:
        """The line's source without indentation, or "" if unavailable."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """`file:line`, relative to the working directory if that is shorter."""
        file = self.file
        try:
            relative = os.path.relpath(file)
        except ValueError:  # another drive
            relative = file
        return f"{relative if len(relative) < len(file) else file}:{self.line}"


@dataclass
class Finding:
    """One mistake: the check that found it, the lines, the evidence and the fix.

    `places` starts with the line to fix. `evidence` maps names to values. `steps` lists the
    numbers of the backward passes at which it was seen.
    """

    id: str
    level: Level
    what: str
    places: tuple[Place, ...]
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: str = ""
    steps: list[int] = field(default_factory=list)

    @property
    def place(self) -> Place | None:
        """The line to fix, or None if no user code took part."""
        return self.places[0] if self.places else None

    def __str__(self) -> str:
        location = self.place.short if self.place else "(no line)"
        return f"{location}: {self.id} ({self.level}): {self.what}"

    def text(self) -> str:
        """Return the finding as terminal text of at most five lines."""
        lines = [str(self)]
        if self.place is not None and self.place.text:
            lines.append(f"    {self.place.line} | {self.place.text}")
        roles = [f"{p.role or 'see'}: {p.short}" for p in self.places[1:3]]
        evidence = [f"{name} {format_value(value)}" for name, value in self.evidence.items()]
        if evidence or roles:
            lines.append("    evidence: " + "; ".join([*evidence, *roles]))
        if self.fix:
            lines.append(f"    fix: {self.fix}")
        lines.append(f"    on purpose? `# doctor: ok {self.id}` on the line; "
                     f"more: flambeau explain {self.id}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data, for JSON."""
        return {
            "id": self.id, "level": str(self.level), "what": self.what,
            "evidence": {name: _convert_to_plain(value) for name, value in self.evidence.items()},
            "places": [
                {"file": p.file, "line": p.line, "function": p.function, "role": p.role,
                 "text": p.text}
                for p in self.places
            ],
            "fix": self.fix, "steps": list(self.steps),
            "silence": f"# doctor: ok {self.id}",
        }


class Mistake(Exception):
    """Raised at the user's line by the first certain finding of a strict doctor."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text())
        self.finding = finding


def _convert_to_plain(value: Any) -> Any:
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, float):
        finite = value == value and abs(value) != float("inf")
        return float(f"{value:.6g}") if finite else str(value)
    if isinstance(value, (list, tuple)):
        return [_convert_to_plain(v) for v in value]
    return str(value)


def format_value(value: Any) -> str:
    """Return a piece of evidence as text, floats with four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(v) for v in value)
    return str(value)
