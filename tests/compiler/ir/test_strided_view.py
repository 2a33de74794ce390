"""Windows are what NumPy's movements of an array show, or None."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from flambeau.compiler.ir.strided_view import StridedView, make_contiguous_view


def seen(window: StridedView, memory: np.ndarray) -> np.ndarray:
    """What a window shows, element by element."""
    out = np.zeros(window.shape)
    for index in np.ndindex(*window.shape):
        ranges = window.valid or [(0, n) for n in window.shape]
        if all(low <= i < high for i, (low, high) in zip(index, ranges, strict=True)):
            steps = zip(index, window.strides, strict=True)
            out[index] = memory[window.offset + sum(i * s for i, s in steps)]
    return out


def moved(draw: random.Random, array: np.ndarray, window: StridedView) -> tuple:
    """One random movement of both."""
    kind = draw.choice(["reshape", "permute", "slice", "pad", "expand"])
    rank = array.ndim
    if kind == "reshape":
        first = draw.choice([d for d in range(1, array.size + 1) if array.size % d == 0])
        shape = draw.choice([(array.size,), (first, array.size // first)])
        return array.reshape(shape), window.reshape(shape)
    if kind == "permute":
        axes = tuple(draw.sample(range(rank), rank))
        return array.transpose(axes), window.permute(axes)
    if kind == "slice":
        ranges = [range(draw.randrange(n), n if (s := draw.choice([1, 2, -1, -2])) > 0 else -1, s)
                  for n in array.shape]
        shown = array[np.ix_(*(list(r) for r in ranges))]
        starts, steps = tuple(r.start for r in ranges), tuple(r.step for r in ranges)
        return shown, window.slice(starts, steps, shown.shape)
    if kind == "pad" and array.size < 300:
        low = tuple(draw.randint(0, 1) for _ in range(rank))
        high = tuple(draw.choice([0, 2]) for _ in range(rank))
        return np.pad(array, list(zip(low, high, strict=True))), window.pad(low, high)
    shape = tuple(2 if n == 1 else n for n in array.shape)
    return np.broadcast_to(array, shape), window.expand(shape)


@pytest.mark.parametrize("seed", range(150))
def test_chains_of_movements(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4)))
    memory = np.arange(1.0, prod(shape) + 1)
    array, window = memory.reshape(shape), make_contiguous_view(shape)
    for _ in range(5):
        expected, actual = moved(draw, array, window)
        if actual is None:
            continue  # strides cannot say it: the same value is moved otherwise
        array, window = expected, actual
        np.testing.assert_array_equal(seen(window, memory), array)


def test_reshape_of_a_permutation_is_refused() -> None:
    assert make_contiguous_view((2, 3)).permute((1, 0)).reshape((6,)) is None


def test_reshape_keeps_a_mask_on_one_axis() -> None:
    window = make_contiguous_view((2, 3)).pad((1, 0), (0, 0)).reshape((3, 1, 3))
    assert window is not None
    assert window.valid == ((1, 3), (0, 1), (0, 3))
