"""Page: a step drawn in one self-contained HTML file.

page.html has its design and drawing code; this module supplies the data.
"""

from __future__ import annotations

import html
import json
import linecache
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...native.loop_ir.printer import format_kernel
from ..schedule.tasks import Task
from .explain import shorten_origin
from .figures import BOUNDS, PHASES, StepFigures, KernelFigures

_ORIGIN = re.compile(r"^(\S+)( \(backward\))?(?: in (.+?))?(?: at (.+))?$")


def render_page(programs: Sequence[StepFigures], name: str, calls: Sequence[str] = ()) -> str:
    """Return the HTML page about a step and its programs, in order."""
    text = json.dumps(collect_page_data(programs, name, calls), separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that no string closes the script element
    template = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    return template.replace("TITLE", html.escape(name), 1).replace("DATA", text, 1)


def collect_page_data(
    programs: Sequence[StepFigures], name: str, calls: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the page's data: the step's figures and its kernels in order, times in seconds."""
    loops: dict[str, int] = {}
    kernels: list[dict[str, Any]] = []
    for k, item in enumerate(programs):
        for line, task in zip(item.lines, item.tasks, strict=True):
            phase = PHASES[1] if k else line.phase  # the second program is the backward pass
            kernels.append(_describe_kernel(line, task, phase, k, loops))
    flops, moved = programs[0].limits
    lines = [line for element in programs for line in element.lines]
    return {
        "name": name,
        "total": sum(element.total for element in programs),
        "least": sum(element.least for element in programs),
        "arena": sum(element.arena for element in programs),
        "threads": max(element.threads for element in programs),
        "peak": flops,
        "bandwidth": moved,
        "unique": len(
            {(kernel["program"], kernel["code"]) for kernel in kernels if kernel["code"] >= 0}
        ),
        "calls": list(calls),
        "phases": PHASES,
        "bounds": BOUNDS,
        "kernels": kernels,
        "loops": list(loops),
        "sources": _read_sources(lines),
    }


def _describe_kernel(
    line: KernelFigures, task: Task, phase: str, program: int, loops: dict[str, int]
) -> Any:
    text = "" if task.kernel is None else format_kernel(task.kernel)
    operator, module, where = _split_origin(line.main)
    return {
        "name": line.name, "operator": operator or line.name, "module": module, "line": where,
        "seconds": line.seconds, "bytes": line.bytes, "flops": line.flops, "share": line.share,
        "bound": line.bound, "busy": line.busy, "phase": phase, "program": program,
        "code": line.code, "origins": [shorten_origin(origin) for origin in line.origins],
        "loops": loops.setdefault(text, len(loops)),
    }


def _read_sources(lines: Sequence[KernelFigures]) -> dict[str, str]:
    """Return source place, as the page shows it, -> text of that line, for all kernel origins."""
    result: dict[str, str] = {}
    for origin in {origin: None for line in lines for origin in (line.main, *line.origins)}:
        location = origin.rpartition(" at ")[2]
        file, _, number = location.rpartition(":")
        text = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
        if text:
            result[shorten_origin(f" at {location}")[len(" at ") :]] = text
    return result


def _split_origin(origin: str) -> tuple[str, str, str]:
    """Split an origin into operator, module and source line."""
    match = _ORIGIN.match(shorten_origin(origin))
    if match is None:
        return origin, "", ""
    return match[1], match[3] or "", match[4] or ""
