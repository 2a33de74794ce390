"""A panel of a plot: lines over one pair of axes, and their ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

Points = list[tuple[float, float]]


@dataclass
class Panel:
    """Lines by label, each a list of (x, y); `log_x`, `log_y` for logarithmic axes.

    `best` marks a line's point, by label; pictures call it `mark`. Points that are not finite (or,
    on a logarithmic axis, not positive) are gaps.
    """

    title: str
    lines: dict[str, Points]
    x_label: str = "epoch"
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = True
    best: dict[str, tuple[float, float]] = field(default_factory=dict)
    mark: str = "best"

    def pieces(self, label: str) -> list[Points]:
        """Return a line's stretches without gaps, in linear coordinates."""
        pieces: list[Points] = [[]]
        for x, y in self.lines[label]:
            position = self.place(x, y)
            if position is None:
                pieces.append([])
            else:
                pieces[-1].append(position)
        return [piece for piece in pieces if piece]

    def place(self, x: float, y: float) -> tuple[float, float] | None:
        """Return a point in linear coordinates, or None if it cannot be drawn."""
        if not (math.isfinite(x) and math.isfinite(y)):
            return None
        if (self.log_x and x <= 0) or (self.log_y and y <= 0):
            return None
        return (math.log10(x) if self.log_x else x), (math.log10(y) if self.log_y else y)

    def limits(self) -> tuple[float, float, float, float]:
        """Return (left, right, low, high) in linear coordinates, with a margin above and below."""
        points = [p for label in self.lines for piece in self.pieces(label) for p in piece]
        if not points:
            return 0.0, 1.0, 0.0, 1.0
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        left, right, low, high = min(xs), max(xs), min(ys), max(ys)
        if left == right:
            left, right = left - 0.5, right + 0.5
        margin = 0.06 * (high - low) or max(abs(high) * 0.05, 1e-12)
        return left, right, low - margin, high + margin

    def place_x_ticks(self, count: int = 6) -> list[tuple[float, str]]:
        """Return the ticks of x: positions in linear coordinates and labels."""
        left, right, _, _ = self.limits()
        if self.log_x:
            return log_ticks(left, right)
        return choose_ticks(left, right, count, self.whole_x)

    def place_y_ticks(self, count: int = 5) -> list[tuple[float, str]]:
        """Return the ticks of y: positions in linear coordinates and labels."""
        _, _, low, high = self.limits()
        return log_ticks(low, high) if self.log_y else choose_ticks(low, high, count, False)


def step_of(span: float, count: int, whole: bool) -> float:
    """Return the distance between ticks: 1, 2 or 5 times a power of ten."""
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return max(1.0, round(step)) if whole else step


def choose_ticks(low: float, high: float, count: int, whole: bool) -> list[tuple[float, str]]:
    """Return round numbers from `low` to `high`, with labels."""
    step = step_of(high - low, count, whole)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    largest = max(abs(low), abs(high))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = []
    for i in range(first, last + 1):
        value = i * step
        is_readable = digits <= 5 and largest < 1e6
        ticks.append((value, f"{value:.{digits}f}" if is_readable else f"{value:.3g}"))
    return ticks


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return powers of ten between the exponents `low` and `high`; with 2 and 5 too if few."""
    factors: Sequence[int] = (1,) if high - low > 2.5 else (1, 2, 5) if high - low > 0.7 else (
        1, 2, 3, 4, 5, 6, 7, 8, 9)
    stride = max(1, math.ceil((high - low) / 6))
    ticks = []
    for exponent in range(math.floor(low), math.ceil(high) + 1):
        for factor in factors:
            position = exponent + math.log10(factor)
            if low <= position <= high and exponent % stride == 0:
                value = factor * 10.0**exponent
                text = f"{value:g}" if 1e-3 <= value < 1e5 else f"{value:.0e}".replace("e-0", "e-")
                ticks.append((position, text.replace("e+0", "e")))
    return ticks
