"""How much boxes that are turned overlap: areas of the polygons that two of them have in common."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...native.target.eager_costs import ROTATED_PAIRS_PER_BLOCK
from ...tensor.meta import MetaArray, meta_array
from ..core.operator import Array
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample
from .arguments import check_dtype

_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def _samples(rng: Rng) -> Iterator[Sample]:
    def boxes(count: int) -> np.ndarray:
        return np.concatenate([rng.uniform(0, 6, (count, 2)), rng.uniform(2, 6, (count, 2)),
                               rng.uniform(-180, 180, (count, 1))], 1)

    yield (boxes(5), boxes(4)), {}
    yield (boxes(0), boxes(3)), {}


def _reference(boxes1: np.ndarray, boxes2: np.ndarray) -> np.ndarray:
    """By the corners of the common polygon: corners of a box that lie in the other one, and points
    where sides cross, in the order of their angles."""
    y = np.zeros((len(boxes1), len(boxes2)), np.float32)
    for i, j in np.ndindex(*y.shape):
        a, b = _compute_corners(boxes1[i : i + 1])[0], _compute_corners(boxes2[j : j + 1])[0]
        corners = [p for p in a if _is_inside(p, boxes2[j])] + [
            p for p in b if _is_inside(p, boxes1[i])
        ]
        for m, n in np.ndindex(4, 4):
            way, line = a[(m + 1) % 4] - a[m], b[(n + 1) % 4] - b[n]
            s, t = np.linalg.solve(np.stack([way, -line], 1), b[n] - a[m])
            corners += [a[m] + s * way] if 0 <= s <= 1 and 0 <= t <= 1 else []
        common = 0.0
        if corners:
            z = np.array(corners) @ (1, 1j)
            z = z[np.argsort(np.angle(z - z.mean()))]
            common = (z.conj() * np.roll(z, -1)).imag.sum() / 2
        total = boxes1[i, 2] * boxes1[i, 3] + boxes2[j, 2] * boxes2[j, 3]
        y[i, j] = common / (total - common)
    return y


def _is_inside(point: np.ndarray, box: np.ndarray) -> bool:
    z = complex(*(point - box[:2])) * np.exp(1j * np.radians(box[4]))
    return abs(z.real) <= box[2] / 2 and abs(z.imag) <= box[3] / 2


@opaque(expose=(), differentiable=False, ref=_reference, samples=_samples)
def box_iou_rotated(boxes1: Array, boxes2: Array) -> Array:
    """Intersection over union of boxes1 (n, 5) with boxes2 (m, 5): float32 (n, m).

    A box is its center x and y, width, height, and counter-clockwise rotation in degrees, with y
    pointing down. The first box is clipped by the half planes of the second one's sides to find the
    common polygon.

    >>> from flambeau.ops.detection import box_iou_rotated
    >>> square = torch.tensor([[0., 0., 2., 2., 0.]])
    >>> box_iou_rotated(square, torch.tensor([[1., 0., 2., 2., 90.], [0., 0., 2., 2., 45.]]))
    tensor([[0.3333, 0.7071]])
    """
    if boxes1.dtype != boxes2.dtype:
        raise RuntimeError("boxes1 and boxes2 must have the same dtype")
    check_dtype("box_iou_rotated_cpu", boxes1, half=False)
    shape = len(boxes1), len(boxes2)
    if boxes1.__class__ is MetaArray:
        return meta_array(shape, np.dtype(np.float32))
    y = np.empty(shape, np.float32)
    step = max(ROTATED_PAIRS_PER_BLOCK // max(shape[1], 1), 1)
    for first in range(0, shape[0], step):
        part = slice(first, first + step)
        y[part] = _compute_overlaps(boxes1[part].astype(np.float64), boxes2.astype(np.float64))
    return y


def _compute_overlaps(boxes1: Array, boxes2: Array) -> Array:
    # Coordinates from the middle of both centers: far from zero they would lose digits.
    middle = (boxes1[:, None, :2] + boxes2[None, :, :2]) / 2
    subject = _compute_corners(boxes1)[:, None] - middle[:, :, None]  # (n, m, 4, 2)
    clip = _compute_corners(boxes2)[None] - middle[:, :, None]
    areas = boxes1[:, None, 2] * boxes1[:, None, 3], boxes2[None, :, 2] * boxes2[None, :, 3]
    common = _compute_common_area(subject.reshape(-1, 4, 2), clip.reshape(-1, 4, 2))
    common = common.reshape(middle.shape[:2])
    union = areas[0] + areas[1] - common
    y = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return np.where((areas[0] < 1e-14) | (areas[1] < 1e-14), 0, y)


def _compute_corners(boxes: Array) -> Array:
    """The corners (n, 4, 2) of boxes, in one sense of rotation."""
    angle = np.radians(boxes[:, 4])
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    across, down = (np.array(_CORNERS).T[i] * boxes[:, 2 + i, None] / 2 for i in range(2))
    return boxes[:, None, :2] + np.stack([across * cos + down * sin, down * cos - across * sin], 2)


def _compute_common_area(subject: Array, clip: Array) -> Array:
    """Areas of what convex polygons (pairs, 4, 2) have in common (Sutherland and Hodgman 1974).

    A polygon of up to eight corners is kept as eight, the last one repeated.
    """
    pairs = np.arange(len(subject))[:, None]
    polygon, count = np.concatenate([subject, np.repeat(subject[:, -1:], 4, 1)], 1), 4
    for side in range(4):
        a, b = clip[:, side, None], clip[:, (side + 1) % 4, None]
        ahead = np.roll(polygon, -1, 1)
        inside, next_inside = _measure_side(a, b, polygon), _measure_side(a, b, ahead)
        crosses = (inside < 0) != (next_inside < 0)
        gap = inside - next_inside
        share = np.divide(inside, gap, out=np.zeros_like(gap), where=gap != 0)[..., None]
        # Each corner that is inside, then the point where its side leaves or enters.
        points = np.stack([polygon, polygon + share * (ahead - polygon)], 2).reshape(-1, 16, 2)
        corner = (inside >= 0) & (np.arange(8) < count)
        present = np.stack([corner, crosses], 2).reshape(-1, 16)
        order = np.argsort(~present, 1, kind="stable")
        count = present.sum(1)[:, None]
        last = np.minimum(np.arange(8), np.maximum(count - 1, 0))
        polygon = points[pairs, order[pairs, last]] * (count > 0)[..., None]
    ahead = np.roll(polygon, -1, 1)
    twice = polygon[..., 0] * ahead[..., 1] - polygon[..., 1] * ahead[..., 0]
    return abs(twice.sum(1)) / 2


def _measure_side(a: Array, b: Array, points: Array) -> Array:
    """Positive for points on the inner side of the line from a to b."""
    line, way = b - a, points - a
    return line[..., 0] * way[..., 1] - line[..., 1] * way[..., 0]
