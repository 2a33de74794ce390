"""torch.quasirandom: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import ops
from .ops.creation.random import randint
from .tensor import Tensor
from .tensor.dtypes import dtype as Dtype
from .tensor.dtypes import get_default_dtype
from .tensor.random.generator import Generator
from .tensor.tensor import wrap

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol sequences in up to 21201 dimensions, by the direction numbers of Joe and Kuo (2008).

    `scramble` applies a random lower triangular matrix to the digits and a digital shift
    (Matousek, 1998), from `seed` where one is given. ValueError for a dimension out of range.

    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = wrap(_direction_numbers(dimension, self.MAXBIT))
        self.shift = wrap(np.zeros(dimension, np.int64))
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def draw(
        self, n: int = 1, out: Tensor | None = None, dtype: Dtype | None = None
    ) -> Tensor:
        """The next `n` points, (n, dimension), in `dtype` or the default dtype."""
        kind = get_default_dtype() if dtype is None else dtype
        rows = self._advance(n, keep=True)
        result: Tensor = ops.mul(wrap(rows).to(kind), 2.0**-self.MAXBIT)
        if out is None:
            return result
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """The next 2**m points; ValueError unless the total stays a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Start the sequence again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points."""
        self._advance(n, keep=False)
        return self

    def _advance(self, n: int, keep: bool) -> np.ndarray:
        """The next `n` points as integers, (n, dimension); the last one alone without `keep`."""
        state, point = self.sobolstate._array, self.quasi._array
        first = self.num_generated == 0
        steps = np.arange(n - first) + (self.num_generated - 1 + first)
        self.num_generated += n
        # Point i + 1 differs from point i by the direction number of i's lowest zero bit.
        bits = np.round(np.log2(~steps & (steps + 1))).astype(np.int64) if len(steps) else steps
        changes = state[:, bits].T
        if not keep:
            point ^= np.bitwise_xor.reduce(changes, 0)
            return point[None]
        start = point[None] if first else np.empty((0, self.dimension), np.int64)
        rows = np.bitwise_xor.accumulate(changes, 0) ^ point
        result = np.concatenate([start, rows])
        if n:
            self.quasi = wrap(result[-1].copy())
        return result

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        digits = self.MAXBIT
        shifts = randint(2, (self.dimension, digits), generator=generator)._array
        self.shift = wrap(shifts @ (1 << np.arange(digits)))
        lower = np.tril(randint(2, (self.dimension, digits, digits), generator=generator)._array)
        rows = np.arange(digits)
        lower[:, rows, rows] = 1
        masks = lower @ (1 << rows[::-1])
        self.sobolstate = wrap(_digits_transformed(self.sobolstate._array, masks))

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _direction_numbers(dimension: int, bits: int) -> np.ndarray:
    """The direction numbers, (dimension, bits): SciPy has the table of Joe and Kuo."""
    from scipy.stats import qmc

    engine: Any = qmc.Sobol(dimension, scramble=False, bits=bits)
    numbers: np.ndarray = engine._sv  # in no public attribute
    return numbers.astype(np.int64)


def _digits_transformed(numbers: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Each number's binary digits times a matrix modulo two, whose rows are the masks' digits."""
    result = np.zeros_like(numbers)
    for row in range(masks.shape[1]):
        common = masks[:, row, None] & numbers
        parity = np.bitwise_count(common) & 1
        result |= parity.astype(np.int64) << (masks.shape[1] - 1 - row)
    return result
