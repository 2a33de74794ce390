"""Descriptions of parameters: the operator's own, its family's, or a general one."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple


class Description(NamedTuple):
    """A docstring's entry for a parameter."""

    type: str
    sentence: str


_ENTRY = re.compile(r"    (\*{0,2}\w+)(?: \(([^)]*)\))?: (.*)")


def describe(name: str, module: str, overrides: dict[str, Description]) -> Description:
    """Return the description of parameter `name` of an operator declared in `module`.

    The sentence is empty if no table has the name; a test requires one.
    """
    general = _read_general()
    path = module.partition(".ops.")[2]
    described = general.get(name, Description("object", ""))
    for length in range(path.count(".") + 1, 0, -1):
        family = ".".join(path.split(".")[:length])
        if name in _read_families().get(family, ()):
            described = _read_families()[family][name]
            break
    if name in overrides:
        return Description(overrides[name].type or described.type, overrides[name].sentence)
    return described


def read_entries(lines: list[str]) -> dict[str, Description]:
    """Parse the entries of an `Args:` section: `name (type): sentence`, with continuation lines."""
    entries: dict[str, Description] = {}
    name = ""
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry:
            name = entry[1].lstrip("*")
            entries[name] = Description(entry[2] or "", entry[3])
        elif name and line.strip():
            known = entries[name]
            entries[name] = known._replace(sentence=f"{known.sentence} {line.strip()}")
    return entries


@functools.cache
def _read_general() -> dict[str, Description]:
    from .general_parameters import GENERAL

    return _read(GENERAL.splitlines())


@functools.cache
def _read_families() -> dict[str, dict[str, Description]]:
    from .family_parameters import FAMILIES

    sections: dict[str, dict[str, Description]] = {}
    for section in FAMILIES.split("\n[")[1:]:
        family, _, lines = section.partition("]\n")
        sections[family] = _read(lines.splitlines())
    return sections


def _read(lines: list[str]) -> dict[str, Description]:
    rows = [line.split(" | ") for line in lines if line]
    return {name: Description(kind, sentence) for name, kind, sentence in rows}
