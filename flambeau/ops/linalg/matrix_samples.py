"""Sample matrices for the tests of linear algebra: well conditioned, square, rectangular."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.operator import Array
from ..core.sample_inputs import Rng, Sample


def well_conditioned(rng: Rng, *shape: int) -> Array:
    """Return random matrices far from singular, with well separated singular values."""
    x = rng.normal(size=shape) * 0.3
    n = min(shape[-2:])
    x[..., range(n), range(n)] += np.linspace(1.5, 3.5, n)
    return x


def square_samples(rng: Rng) -> Iterator[Sample]:
    """Yield invertible square matrices."""
    for shape in ((3, 3), (2, 2, 2), (1, 1)):
        yield (well_conditioned(rng, *shape),), {}


def rectangular_samples(rng: Rng) -> Iterator[Sample]:
    """Yield matrices of full rank: tall, square and wide."""
    for shape in ((4, 3), (3, 3), (2, 2, 3)):
        yield (well_conditioned(rng, *shape),), {}


def positive_definite(rng: Rng, *shape: int) -> Array:
    """Return symmetric positive-definite matrices."""
    x = well_conditioned(rng, *shape)
    return x @ np.swapaxes(x, -1, -2)
