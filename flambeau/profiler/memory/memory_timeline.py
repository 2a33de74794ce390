"""MemoryProfileTimeline: memory by category over time, as JSON and as a page with a drawing."""

from __future__ import annotations

import gzip
import json
from html import escape
from pathlib import Path
from typing import Any

from .categories import Category
from .memory_profile import Action, MemoryProfile

__all__ = ["MemoryProfileTimeline"]

# The order of the areas in a drawing, from the bottom, with their colours.
_COLOURS: dict[Category | None, str] = {
    Category.PARAMETER: "#1b7837", Category.OPTIMIZER_STATE: "#d6a419",
    Category.INPUT: "#111111", Category.TEMPORARY: "#9970ab", Category.ACTIVATION: "#d6604d",
    Category.GRADIENT: "#4393c3", Category.AUTOGRAD_DETAIL: "#7fbfff", None: "#aaaaaa",
}
_WIDTH, _HEIGHT, _MARGIN = 1200, 480, 60


class MemoryProfileTimeline:
    """The memory of one device's tensors at each change."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.timeline, self.categories = memory_profile.timeline, memory_profile._categories

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """Return the times of changes, and after each the bytes without a category and of each."""
        times: list[int] = []
        totals: list[list[int]] = []
        current = [0] * (len(Category) + 1)
        for time, action, (key, version), size in self.timeline:
            if str(key.device) != device_str:
                continue
            if action is not Action.DESTROY:
                after = version + (action is Action.INCREMENT_VERSION)
                current[_number(self.categories.get(key, after))] += size
            if action in (Action.INCREMENT_VERSION, Action.DESTROY):
                current[_number(self.categories.get(key, version))] -= size
            if times and times[-1] == time:
                totals[-1] = current.copy()
            else:
                times.append(time)
                totals.append(current.copy())
        start = next((time for time in times if time >= 0), 0)
        return [start if time < 0 else time for time in times], totals

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """Write the times and the bytes by category as JSON; compressed for `.gz`."""
        _write(path, json.dumps(self._coalesce_timeline(device_str)))

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """Write every change as JSON: time, action, bytes, category; compressed for `.gz`."""
        _write(path, json.dumps([
            (time, action.value, size, _number(self.categories.get(key, version)))
            for time, action, (key, version), size in self.timeline
            if str(key.device) == device_str]))

    def export_memory_timeline_html(
        self, path: str, device_str: str, figsize: tuple[float, float] = (20, 12),
        title: str | None = None,
    ) -> None:
        """Write a page that draws the bytes of each category over time."""
        times, totals = self._coalesce_timeline(device_str)
        peak = max(map(sum, totals), default=0)
        heading = escape(title or f"Memory by category on {device_str}")
        areas = "".join(_draw_areas(times, totals, peak))
        legend = "".join(
            f'<li><span style="background:{colour}"></span>{_show(category)}</li>'
            for category, colour in reversed(_COLOURS.items()))
        width, height = (int(60 * n) for n in figsize)
        Path(path).write_text(
            f"<!doctype html><meta charset=utf-8><title>{heading}</title><style>{_STYLE}</style>"
            f"<h1>{heading}</h1><p>At most {_format_bytes(peak)}.</p>"
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" style="width:{width}px;max-height:{height}px">'
            f"{areas}{''.join(_draw_axes(times, peak))}</svg><ul>{legend}</ul>", "utf-8")


_STYLE = """body{font:14px sans-serif;margin:2em}li{display:inline-block;margin-right:1.5em}
ul{padding:0}span{display:inline-block;width:1em;height:1em;margin-right:.4em}svg{max-width:100%}"""


def _write(path: str, text: str) -> None:
    data = text.encode()
    Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


def _number(category: Category | None) -> int:
    return 0 if category is None else category.value


def _show(category: Category | None) -> str:
    return "Unknown" if category is None else category.name.replace("_", " ").capitalize()


def _draw_areas(times: list[int], totals: list[list[int]], peak: int) -> Any:
    """Yield a polygon for each category, stacked; memory is constant between changes."""
    if not peak:
        return
    span = max(times[-1] - times[0], 1)
    lower = [0] * len(times)
    for category, colour in _COLOURS.items():
        upper = [y + total[_number(category)] for y, total in zip(lower, totals, strict=True)]
        there = _place_steps(times, upper, span, peak)
        back = _place_steps(times, lower, span, peak)[::-1]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in there + back)
        yield f'<polygon fill="{colour}" points="{points}"/>'
        lower = upper


def _place_steps(
    times: list[int], values: list[int], span: int, peak: int
) -> list[tuple[float, float]]:
    """Return the points of a line of steps."""
    points: list[tuple[float, float]] = []
    for time, value in zip(times, values, strict=True):
        x = _MARGIN + (time - times[0]) / span * (_WIDTH - 2 * _MARGIN)
        if points:
            points.append((x, points[-1][1]))
        points.append((x, _HEIGHT - _MARGIN - value / peak * (_HEIGHT - 2 * _MARGIN)))
    return points


def _draw_axes(times: list[int], peak: int) -> Any:
    """Yield lines and labels of both axes."""
    bottom, right = _HEIGHT - _MARGIN, _WIDTH - _MARGIN
    yield f'<path d="M{_MARGIN} {_MARGIN}V{bottom}H{right}" stroke="#000" fill="none"/>'
    for part in range(5):
        y = bottom - part / 4 * (bottom - _MARGIN)
        yield (f'<text x="{_MARGIN - 6}" y="{y + 4}" text-anchor="end" font-size="11">'
               f"{_format_bytes(peak * part // 4)}</text>")
    span_ms = (times[-1] - times[0]) / 1e6 if times else 0.0
    for part in range(5):
        x = _MARGIN + part / 4 * (right - _MARGIN)
        yield (f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" font-size="11">'
               f"{span_ms * part / 4:.3g} ms</text>")


def _format_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"
