"""Line search for LBFGS: find a step that satisfies the strong Wolfe conditions.

After Nocedal and Wright, Numerical Optimization, algorithms 3.5 (bracket) and 3.6 (zoom), with
cubic interpolation (equation 3.59).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..tensor import Tensor


class Point(NamedTuple):
    """A trial step: its length, the loss and gradient there, and the slope along the direction."""

    t: Any
    loss: float
    grad: Tensor
    slope: Any


Evaluate = Callable[[Any], Point]

DECREASE = 1e-4  # c1: fraction of the predicted decrease that is required
CURVATURE = 0.9  # c2: fraction of the initial slope that may remain


def minimize_cubic(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """Return the minimizer, within the bounds, of the cubic through two points and slopes.

    The default bounds are the points. Without a minimum, return the middle of the bounds.
    """
    if b.t < a.t:
        a, b = b, a
    lower, upper = (a.t, b.t) if bounds is None else bounds
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (lower + upper) / 2.0
    d2 = square**0.5
    best = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(best, lower), upper)


def strong_wolfe(
    evaluate: Evaluate, start: Point, t: Any, longest: Any, tolerance: float, max_tries: int
) -> tuple[Point, int]:
    """Find a point with sufficient decrease and a flat enough slope, first trying `t`.

    `start` is the point at step 0, `longest` the largest entry of the direction, `tolerance` the
    change of a parameter below which the search ends, `max_tries` the number of further evaluations
    allowed. Returns the point and the number of evaluations.
    """
    ends, tries, is_found = _bracket(evaluate, start, evaluate(t), max_tries)
    evaluations = tries + 1
    if not is_found:
        ends, zoom_evaluations = _zoom(evaluate, start, ends, longest, tolerance, max_tries - tries)
        evaluations += zoom_evaluations
    return min(ends, key=lambda point: point.loss), evaluations


def _is_too_high(start: Point, point: Point) -> bool:
    return bool(point.loss > start.loss + DECREASE * point.t * start.slope)


def _is_flat(start: Point, point: Point) -> bool:
    return bool(abs(point.slope) <= -CURVATURE * start.slope)


def _bracket(
    evaluate: Evaluate, start: Point, point: Point, max_tries: int
) -> tuple[list[Point], int, bool]:
    """Return two points around a good step, or a good one; the tries; whether it is good."""
    previous = start
    for tries in range(max_tries):
        if _is_too_high(start, point) or (tries > 1 and point.loss >= previous.loss):
            return [previous, point], tries, False
        if _is_flat(start, point):
            return [point], tries, True
        if point.slope >= 0:
            return [previous, point], tries, False
        bounds = point.t + 0.01 * (point.t - previous.t), point.t * 10
        t = minimize_cubic(previous, point, bounds)
        previous, point = point, evaluate(t)
    return [start, point], max(max_tries, 0), False


def _zoom(
    evaluate: Evaluate, start: Point, ends: list[Point], longest: Any, tolerance: float,
    max_tries: int,
) -> tuple[list[Point], int]:
    """Narrow the bracket around a good step; return it and the number of tries."""
    best_end, other_end = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    stalled = False  # whether the last try was close to an end
    for tries in range(max_tries):
        if abs(ends[1].t - ends[0].t) * longest < tolerance:
            return ends, tries
        t, stalled = _choose_between(ends, stalled)
        point = evaluate(t)
        if _is_too_high(start, point) or point.loss >= ends[best_end].loss:
            ends[other_end] = point
            best_end, other_end = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        if _is_flat(start, point):
            ends[best_end] = point
            return ends, tries + 1
        if point.slope * (ends[other_end].t - ends[best_end].t) >= 0:
            ends[other_end] = ends[best_end]
        ends[best_end] = point
    return ends, max(max_tries, 0)


def _choose_between(ends: list[Point], stalled: bool) -> tuple[Any, bool]:
    """Choose a step between the ends, at least a tenth of the gap from them the second time."""
    t = minimize_cubic(ends[0], ends[1])
    lower, upper = min(ends[0].t, ends[1].t), max(ends[0].t, ends[1].t)
    margin = 0.1 * (upper - lower)
    if not min(upper - t, t - lower) < margin:
        return t, False
    if not (stalled or t >= upper or t <= lower):
        return t, True
    is_near_high = abs(t - upper) < abs(t - lower)
    return (upper - margin if is_near_high else lower + margin), False
