"""Inputs to test operators with: each is a function of a NumPy generator that yields samples.

A sample is (args, kwargs); arrays become tensors. Kept small: the tests differentiate them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator

    Rng = Generator
else:
    Rng = None  # only annotations name it: numpy.random is slow to import

Sample = tuple[tuple[Any, ...], dict[str, Any]]

_SHAPES = ((), (5,), (3, 4))
_BROADCASTS = (((5,), (5,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (3,)))


def real_line(rng: Rng) -> Iterator[Sample]:
    """Real numbers on both sides of zero."""
    for shape in _SHAPES:
        yield (rng.normal(size=shape) * 2,), {}


def positive(rng: Rng) -> Iterator[Sample]:
    """Positive numbers, away from zero."""
    for shape in _SHAPES:
        yield (rng.uniform(0.3, 3, shape),), {}


def unit_interval(rng: Rng) -> Iterator[Sample]:
    """Numbers strictly between -1 and 1."""
    for shape in _SHAPES:
        yield (rng.uniform(-0.9, 0.9, shape),), {}


def pairs(rng: Rng) -> Iterator[Sample]:
    """Two real operands that broadcast."""
    for left, right in _BROADCASTS:
        yield (rng.normal(size=left), rng.normal(size=right)), {}


def _draw_away_from_zero(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.4, 2, shape) * rng.choice([-1.0, 1.0], shape)


def pairs_nonzero(rng: Rng) -> Iterator[Sample]:
    """Two operands that broadcast, the second away from zero."""
    for left, right in _BROADCASTS:
        yield (rng.normal(size=left), _draw_away_from_zero(rng, right)), {}


def positive_pairs(rng: Rng) -> Iterator[Sample]:
    """Two positive operands that broadcast."""
    for left, right in _BROADCASTS:
        yield (rng.uniform(0.3, 3, left), rng.uniform(0.3, 3, right)), {}


def matrices(*calls: tuple) -> Callable[[Rng], Iterator[Sample]]:
    """Samples of calls whose first argument is given by its shape: `((3, 4), dim)`."""

    def samples(rng: Rng) -> Iterator[Sample]:
        for shape, *rest in calls:
            yield (rng.normal(size=shape), *rest), {}

    return samples


def reductions(rng: Rng) -> Iterator[Sample]:
    """Tensors with axes to reduce over."""
    yield (rng.normal(size=(3, 4)),), {}
    yield (rng.normal(size=(3, 4)),), {"dim": 1}
    yield (rng.normal(size=(2, 3, 4)),), {"dim": (0, -1), "keepdim": True}
    yield (rng.normal(size=()),), {}


def scans(rng: Rng) -> Iterator[Sample]:
    """Tensors with an axis to go along."""
    yield (rng.normal(size=(3, 4)), 1), {}
    yield (rng.normal(size=(3, 4)), 0), {}
