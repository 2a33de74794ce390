"""What samples of tests came to: outcomes by test, messages in short, reasons of failures."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

_TAIL = re.compile(r"To execute this test|This message can be|\n\nTo execute", re.S)


def read(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The last line of each test that ended, and what was said of the whole run."""
    ended, whole = {}, {}
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        if line["ev"] == "end":
            ended[line["id"]] = line
        elif line["ev"] == "collected":
            whole.setdefault("collected", line["n"])
        elif line["ev"] == "collecterror":
            whole["collecterror"] = line["msg"]
    return ended, whole


def short(message: str) -> str:
    """A message in one line without addresses and what pytest and the harness add."""
    lines = [line.strip() for line in _TAIL.split(message)[0].splitlines() if line.strip()]
    text = re.sub(r"0x[0-9a-f]+", "0x", " ".join(lines))
    text = re.sub(r"/(?:[\w.@+-]+/)+", "", text)  # folders of the machine
    return text[:160].replace("|", "\\|")


class Reasons:
    """Why tests fail, by patterns on their ids and messages, from a file."""

    def __init__(self, path: Path) -> None:
        table = tomllib.loads(path.read_text())
        self.absent = {name: re.compile("|".join(p)) for name, p in table["absent"].items()}
        self.theirs = {name: re.compile("|".join(p)) for name, p in table["theirs"].items()}

    def of(self, id: str, line: dict[str, Any]) -> tuple[str, str]:
        """("absent", subsystem), ("theirs", reason) or ("open", message)."""
        text = f"{id} {line.get('msg', '')} {line.get('tb', '')}"
        for kind, patterns in (("absent", self.absent), ("theirs", self.theirs)):
            for name, pattern in patterns.items():
                if pattern.search(text):
                    return kind, name
        return "open", short(line.get("msg", ""))


class Compared(NamedTuple):
    """One file's sample, on PyTorch and on flambeau."""

    name: str
    collected: int
    on_torch: int  # passed there
    ran: int  # of these, here
    passed: int
    lost: dict[str, Counter]  # by kind of reason
    examples: dict[str, str]  # by reason, the id of a test


def compare(name: str, torch: Path, flambeau: Path, reasons: Reasons) -> Compared:
    """What passed on PyTorch, and how it ended on flambeau."""
    theirs, whole = read(torch)
    ours, here = read(flambeau)
    wanted = {id for id, line in theirs.items() if line["outcome"] == "passed"}
    ran = {id: line for id, line in ours.items() if id in wanted}
    lost: dict[str, Counter] = defaultdict(Counter)
    examples: dict[str, str] = {}
    for id, line in ran.items():
        if line["outcome"] == "passed":
            continue
        if line["outcome"] == "notcollected":
            line = {"msg": here.get("collecterror", "the file has no test of this name")[-300:]}
        kind, reason = reasons.of(id, line)
        lost[kind][reason] += 1
        examples.setdefault(reason, id)
    passed = len(ran) - sum(sum(counts.values()) for counts in lost.values())
    return Compared(name, whole.get("collected", 0), len(wanted), len(ran), passed, lost, examples)


def share(passed: int, of: int) -> str:
    """A percentage, or a dash."""
    return f"{100 * passed / of:.1f}" if of else "-"
