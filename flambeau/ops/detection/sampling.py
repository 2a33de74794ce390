"""Weighted sums of table rows, in segments: the core of sampling an image at many points.

Rows are the channels of a pixel. `Taps` lists the rows of each result. The sums, their adjoint
(rows accumulated from results) and the weights' cotangents are computed in small blocks.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ...native.target.eager_costs import GATHERED_ELEMENTS_PER_BLOCK
from ..indexing.embedding_bag import SUM, reduced_bags

Array = np.ndarray


class Taps(NamedTuple):
    """Rows and weights of result i: `bounds[i]:bounds[i + 1]` of `rows` and `weights`."""

    rows: Array
    weights: Array
    bounds: Array


def _choose_cuts(bounds: Array, width: int) -> list[int]:
    """Return the results at which blocks of about GATHERED_ELEMENTS_PER_BLOCK elements start."""
    block = max(GATHERED_ELEMENTS_PER_BLOCK // max(width, 1), 1)
    steps = np.arange(0, int(bounds[-1]), block)[1:]
    cuts = np.unique(np.searchsorted(bounds, steps))
    return [0, *cuts[(cuts > 0) & (cuts < len(bounds) - 1)].tolist(), len(bounds) - 1]


def sum_taps(table: Array, taps: Taps) -> Array:
    """Map table (rows, width) to (results, width): sums of weights times rows."""
    results = np.empty((len(taps.bounds) - 1, table.shape[1]), table.dtype)
    for start, stop in itertools.pairwise(_choose_cuts(taps.bounds, table.shape[1])):
        first, last = taps.bounds[start], taps.bounds[stop]
        results[start:stop] = reduced_bags.operator.body(
            table, taps.rows[first:last], taps.bounds[start:stop] - first, SUM,
            taps.weights[first:last],
        )[0]
    return results


def spread_taps(g: Array, taps: Taps, rows: int) -> Array:
    """Apply the adjoint of `sum_taps`: map g (results, width) to (rows, width)."""
    owners = np.repeat(np.arange(len(g)), np.diff(taps.bounds))
    by_row = np.argsort(taps.rows, kind="stable")
    counts = np.bincount(taps.rows, minlength=rows)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return sum_taps(g, Taps(owners[by_row], taps.weights[by_row], bounds))


def compute_weights_adjoint(g: Array, table: Array, taps: Taps) -> Array:
    """Return the cotangents of the weights: each row times its result's cotangent."""
    owners = np.repeat(np.arange(len(g)), np.diff(taps.bounds))
    cotangents = np.empty(len(taps.rows), table.dtype)
    step = max(GATHERED_ELEMENTS_PER_BLOCK // max(table.shape[1], 1), 1)
    for start in range(0, len(cotangents), step):
        block = slice(start, start + step)
        rows, row_cotangents = table.take(taps.rows[block], 0), g.take(owners[block], 0)
        np.einsum("ij,ij->i", rows, row_cotangents, out=cotangents[block])
    return cotangents
