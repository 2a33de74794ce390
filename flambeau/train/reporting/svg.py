"""Render panels as standalone SVG: labeled axes, lines named at their ends, the best point."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ..state.formatting import shorten
from .plot_panel import Panel

ToPixels = Callable[[float, float], tuple[float, float]]  # from linear coordinates
WIDTH, HEIGHT = 436, 264
LEFT, RIGHT, TOP, BOTTOM = 60, 108, 40, 40  # room around a panel's axes; names stand on the right
INK, FAINT, GRID = "#3a3f45", "#7a828a", "#e6e8ea"
COLORS = {"train": "#2166ac", "valid": "#d6604d", "test": "#1b7837", "lr": "#6a51a3"}
SPARE = ("#2166ac", "#d6604d", "#1b7837", "#762a83", "#b8860b", "#35978f", "#c51b7d", "#525252")
_LONG_NAME = 13  # letters that fit beside the axes at the default size
FONT = "font-family='system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif'"


def choose_color(label: str, index: int) -> str:
    """Return a stage's color, or the next free color."""
    return COLORS.get(label, SPARE[index % len(SPARE)])


def count_columns(count: int) -> int:
    """Return the number of columns for `count` panels: at most three; two for four panels."""
    return 2 if count == 4 else max(1, min(3, count))


def render_svg(panels: list[Panel]) -> str:
    """Return panels arranged in a grid, as SVG."""
    columns = count_columns(len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * WIDTH, rows * HEIGHT
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' {FONT} font-size='12' role='img'>"
        f"<rect width='{width}' height='{height}' fill='#fff'/>"
    ]
    for i, panel in enumerate(panels):
        row, column = divmod(i, columns)
        parts.append(f"<g transform='translate({column * WIDTH},{row * HEIGHT})'>")
        parts.extend(_render_panel(panel))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def place_in(panel: Panel) -> ToPixels:
    """Return the function from linear coordinates to positions in the panel's picture."""
    left, right, low, high = panel.limits()
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        return LEFT + (x - left) / (right - left) * width, TOP + (high - y) / (high - low) * height

    return to_pixels


def _render_panel(panel: Panel) -> list[str]:
    to_pixels = place_in(panel)
    parts = _draw_axes(panel, to_pixels)
    names = []
    for index, label in enumerate(panel.lines):
        color = choose_color(label, index)
        stretches = panel.pieces(label)
        count = sum(map(len, stretches))
        for stretch in stretches:
            pixels = [to_pixels(x, y) for x, y in stretch]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
            parts.append(
                f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='1.8' "
                "stroke-linejoin='round' stroke-linecap='round'/>"
            )
        if count <= 60:
            parts += _draw_dots(panel, label, color, to_pixels)
        parts += _mark_best(panel, label, color, to_pixels)
        if stretches:
            value = next(y for x, y in reversed(panel.lines[label]) if panel.place(x, y))
            names.append([to_pixels(*stretches[-1][-1])[1], f"{label} {shorten(value)}", color])
    return parts + _draw_names(names)


def _draw_axes(panel: Panel, to_pixels: ToPixels) -> list[str]:
    left, right, low, high = panel.limits()
    (x0, y0), (x1, _) = to_pixels(left, low), to_pixels(right, high)
    parts = [f"<text x='{x0 - LEFT + 12:.1f}' y='22' font-size='14' font-weight='600' "
             f"fill='{INK}'>{escape(panel.title)}</text>"]
    for position, text in panel.place_y_ticks():
        y = to_pixels(left, position)[1]
        parts.append(
            f"<line x1='{x0:.1f}' x2='{x1:.1f}' y1='{y:.1f}' y2='{y:.1f}' stroke='{GRID}'/>"
            f"<text x='{x0 - 6:.1f}' y='{y + 4:.1f}' text-anchor='end' fill='{FAINT}'>{text}</text>"
        )
    parts.append(
        f"<line x1='{x0:.1f}' x2='{x1:.1f}' y1='{y0:.1f}' y2='{y0:.1f}' stroke='{FAINT}'/>"
    )
    for position, text in panel.place_x_ticks():
        x = to_pixels(position, low)[0]
        parts.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{y0:.1f}' y2='{y0 + 4:.1f}' stroke='{FAINT}'/>"
            f"<text x='{x:.1f}' y='{y0 + 17:.1f}' text-anchor='middle' fill='{FAINT}'>{text}</text>"
        )
    parts.append(
        f"<text x='{(x0 + x1) / 2:.1f}' y='{y0 + 33:.1f}' text-anchor='middle' fill='{INK}'>"
        f"{escape(panel.x_label)}</text>"
    )
    return parts


def _draw_dots(panel: Panel, label: str, color: str, to_pixels: ToPixels) -> list[str]:
    """Draw a dot for each point that shows its value on hover."""
    dots = []
    for x, y in panel.lines[label]:
        position = panel.place(x, y)
        if position is not None:
            cx, cy = to_pixels(*position)
            caption = escape(f"{label}, {panel.x_label} {shorten(x)}: {y:.6g}")
            dots.append(f"<circle cx='{cx:.1f}' cy='{cy:.1f}' r='2.2' fill='{color}'>"
                        f"<title>{caption}</title></circle>")
    return dots


def _mark_best(panel: Panel, label: str, color: str, to_pixels: ToPixels) -> list[str]:
    """Mark the best point with a ring, and with its value if it is not the last point."""
    best = panel.best.get(label)
    position = None if best is None else panel.place(*best)
    if best is None or position is None:
        return []
    x, y = to_pixels(*position)
    ring = (f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4.5' fill='none' stroke='{color}' "
            "stroke-width='1.6'/>")
    if best[0] == panel.lines[label][-1][0]:
        return [ring]
    is_below = y < TOP + 24
    anchor = "end" if x > WIDTH - RIGHT - 40 else "start" if x < LEFT + 40 else "middle"
    label_svg = (f"<text x='{x:.1f}' y='{y + (18 if is_below else -9):.1f}' text-anchor='{anchor}' "
                 f"font-size='11' %s>{panel.mark} {shorten(best[1])}</text>")
    halo = "stroke='#fff' stroke-width='3' stroke-linejoin='round'"
    return [ring, label_svg % halo, label_svg % f"fill='{color}'"]


def _draw_names(names: list[list]) -> list[str]:
    """Draw the lines' names at their ends, spread so that they do not overlap."""
    names.sort(key=lambda name: name[0])
    gap = 15
    for upper, lower in zip(names, names[1:], strict=False):
        lower[0] = max(lower[0], upper[0] + gap)
    lowest = HEIGHT - BOTTOM
    for lower in reversed(names):
        lower[0] = min(lower[0], lowest)
        lowest = lower[0] - gap
    size = " font-size='10'" if any(len(text) > _LONG_NAME for _, text, _ in names) else ""
    return [
        f"<text x='{WIDTH - RIGHT + 8}' y='{y + 4:.1f}' fill='{color}' font-weight='600'"
        f"{size}>{escape(text)}</text>"
        for y, text, color in names
    ]
