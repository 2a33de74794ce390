"""Formats a profile as a text table with PyTorch's column widths and units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_NARROW = 12  # width of a number column in characters
_GAP = "  "


def format_time(time_us: float) -> str:
    """Format microseconds in s, ms or us, whichever suits the size.

    >>> from flambeau.autograd.traces.profile_table import format_time
    >>> format_time(1500.0)
    '1.500ms'
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def format_memory(size_bytes: int) -> str:
    """Format bytes in GB, MB, KB or B, whichever suits the size."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(size_bytes) >= size:
            return f"{size_bytes / size:.2f} {unit}"
    return f"{size_bytes} B"


def _share(time_us: float, total_us: float) -> str:
    return f"{time_us * 100.0 / total_us:.2f}%" if total_us else "NaN"


def _format_in_unit(time_us: float, unit: str | None) -> str:
    sizes = {"s": 1e6, "ms": 1e3, "us": 1.0}
    return format_time(time_us) if unit not in sizes else f"{time_us / sizes[unit]:.3f}{unit}"


def _shorten(name: str, width: int | None) -> str:
    return name if width is None or len(name) < width - 3 else name[: width - 3] + "..."


def _end(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    return "..." + text[3:] if len(text) > 3 else text


def _measure_width(texts: Sequence[str], limit: int | None) -> int:
    width = max(map(len, texts)) + 4
    return width if limit is None else min(width, limit)


def build_table(
    events: Sequence[Any], sort_by: str | None, header: str | None, row_limit: int,
    widths: tuple[int | None, int | None, int], memory: bool, top_level_only: bool,
    unit: str | None, with_flops: bool = False,
) -> str:
    """Return the table of events. `widths`: maximum widths of names, shapes and source lines."""
    if not events:
        return ""
    if sort_by is not None:
        field = sort_by
        for device in ("cuda", "xpu", "privateuse1"):
            field = field.replace(device, "device")
        events = sorted(events, key=lambda event: getattr(event, field), reverse=True)
    total_us = sum(event.self_cpu_time_total for event in events)
    shaped = any(event.input_shapes for event in events)
    lined = any(event.stack for event in events)
    columns = [_measure_width([e.key for e in events], widths[0])]
    titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    titles += ["CPU Mem", "Self CPU Mem"] if memory else []
    titles.append("# of Calls")
    columns += [_NARROW] * (len(titles) - 1)
    if shaped:
        titles.append("Input Shapes")
        columns.append(_measure_width([str(e.input_shapes) for e in events], widths[1]))
    if lined:
        titles.append("Source Location")
        columns.append(_measure_width([line for e in events for line in e.stack], widths[2]))
    least_flops = min((e.flops for e in events if e.flops), default=0)
    flops = _choose_flops_unit(least_flops) if with_flops else None
    if flops is not None:
        titles.append(f"Total {flops[0]}")
        columns.append(_NARROW)
    shown = [e for e in events if not (top_level_only and e.cpu_parent is not None)]
    rows: list[list[str]] = []
    for event in shown[: row_limit if row_limit >= 0 else None]:
        rows += _format_rows(
            event, total_us, columns, widths[0], memory, shaped, lined, unit, flops
        )
    return _draw(titles, rows, columns, lined, header, top_level_only, total_us)


def _choose_flops_unit(flops: int) -> tuple[str, float] | None:
    """Return name and size of the unit for `flops` operations, or None if none were counted."""
    if flops <= 0:
        return None
    power = min(int(math.log10(flops)) // 3, 5)
    return ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[power], 1e3**power


def _format_rows(
    event: Any, total_us: float, columns: list[int], name_width: int | None, memory: bool,
    shaped: bool, lined: bool, unit: str | None, flops: tuple[str, float] | None,
) -> list[list[str]]:
    """Return an event's row, and one row per further line of its stack."""
    row = [
        _shorten(event.key, name_width), _share(event.self_cpu_time_total, total_us),
        _format_in_unit(event.self_cpu_time_total, unit), _share(event.cpu_time_total, total_us),
        _format_in_unit(event.cpu_time_total, unit), _format_in_unit(event.cpu_time, unit),
    ]
    if memory:
        row += [format_memory(event.cpu_memory_usage), format_memory(event.self_cpu_memory_usage)]
    row.append(str(event.count))
    if shaped:
        row.append(str(event.input_shapes)[: columns[len(row)]])
    operations = [] if flops is None else [
        f"{event.flops / flops[1]:.3f}" if event.flops > 0 else "--"]
    if not lined:
        return [row + operations]
    lines = [_end(line, columns[-1]) for line in event.stack] or [""]
    rest = [[""] * len(row) + [line] for line in lines[1:]]
    blank = [""] * len(operations)
    rest = [line + blank for line in rest]
    return [[*row, lines[0], *operations], *rest,
            *([[""] * (len(row) + 1 + len(blank))] if rest else [])]


def _draw(
    titles: list[str], rows: list[list[str]], columns: list[int], lined: bool, header: str | None,
    top_level_only: bool, total_us: float,
) -> str:
    lines_at = titles.index("Source Location") if lined else -1

    def draw_row(cells: list[str]) -> str:
        texts = [cell.rjust(width) for cell, width in zip(cells, columns, strict=True)]
        if lined:
            texts[lines_at] = cells[lines_at].ljust(columns[lines_at])
        return _GAP.join(texts) + _GAP

    rule = _GAP.join("-" * width for width in columns) + _GAP
    double = "=" * (len(rule) - len(_GAP))
    lines = [double, header] if header is not None else []
    if top_level_only:
        lines += [double, "This report only display top-level ops statistics"]
    lines += [rule, draw_row(titles), rule, *map(draw_row, rows), rule]
    lines.append(f"Self CPU time total: {format_time(total_us)}")
    return "\n".join(lines) + "\n"
