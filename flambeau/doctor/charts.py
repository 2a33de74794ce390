"""Charts: curves as inline SVG, without scripts or network access."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 400, 190
_LEFT, _BOTTOM, _TOP, _RIGHT = 56, 24, 10, 12
_COLORS = ("#2166ac", "#d6604d", "#1b7837", "#762a83", "#b8860b", "#35978f", "#c51b7d", "#525252")
_SHOWN = 8  # curves per chart; the legend counts the rest

Curve = Sequence[tuple[int, float]]


def render_chart(title: str, curves: dict[str, Curve]) -> str:
    """Return one panel as HTML: curves over the backward pass number, on a logarithmic axis if
    they are positive and span more than two decades; "" if no value is finite."""
    finite = _select_finite(curves)
    if not finite:
        return ""
    shown = dict(list(finite.items())[:_SHOWN])
    values = [y for points in shown.values() for _, y in points]
    positive = [y for y in values if y > 0]
    logarithmic = len(positive) == len(values) and max(values) > 100 * min(values)
    scale = math.log10 if logarithmic else float
    low, high = scale(min(values)), scale(max(values))
    if high - low <= 1e-6 * abs(high):
        margin = 0.5 if logarithmic else 0.5 * abs(high) or 0.5
        low, high = low - margin, high + margin
    last = max(x for points in shown.values() for x, _ in points) or 1

    def to_pixels(x: float, y: float) -> str:
        px = _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / last
        py = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - scale(y)) / (high - low)
        return f"{px:.1f},{py:.1f}"

    elements = _draw_axes(low, high, last, logarithmic)
    legend = []
    for index, (name, points) in enumerate(shown.items()):
        color = _COLORS[index % len(_COLORS)]
        if len(points) == 1:
            x, y = to_pixels(*points[0]).split(",")
            elements.append(f"<circle cx='{x}' cy='{y}' r='3' fill='{color}'/>")
        else:
            path = " ".join(to_pixels(x, y) for x, y in points)
            elements.append(f"<polyline points='{path}' fill='none' stroke='{color}' "
                            "stroke-width='1.6'/>")
        legend.append(f"<span><i style='background:{color}'></i>{escape(name)} "
                      f"<b>{points[-1][1]:.3g}</b></span>")
    if len(finite) > len(shown):
        legend.append(f"<span>and {len(finite) - len(shown)} more</span>")
    svg = f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>{''.join(elements)}</svg>"
    return (f"<figure><figcaption>{escape(title)}</figcaption>{svg}"
            f"<div class='legend'>{''.join(legend)}</div></figure>")


def _select_finite(curves: dict[str, Curve]) -> dict[str, Curve]:
    finite = {name: [p for p in curve if math.isfinite(p[1])] for name, curve in curves.items()}
    return {name: points for name, points in finite.items() if points}


def _draw_axes(low: float, high: float, last: int, logarithmic: bool) -> list[str]:
    elements = []
    for fraction in (0.0, 0.5, 1.0):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * fraction
        value = high - (high - low) * fraction
        shown = f"{10**value:.2g}" if logarithmic else f"{value:.3g}"
        elements.append(f"<line x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y:.1f}' y2='{y:.1f}' "
                        f"class='grid'/><text x='{_LEFT - 6}' y='{y + 4:.1f}' "
                        f"text-anchor='end'>{shown}</text>")
    for x, anchor in ((0, "start"), (last, "end")):
        px = _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / last
        elements.append(f"<text x='{px:.1f}' y='{_HEIGHT - 6}' text-anchor='{anchor}'>{x}</text>")
    return elements
