"""How kernels walk broadcast operands: every pair of layouts against NumPy."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from flambeau.ops.native import pointwise
from flambeau.ops.native.pointwise_walk import plan_walk

F4 = np.dtype("f")


def place(x: np.ndarray) -> tuple:
    return x.shape, x.strides, x.dtype


def names(shape: tuple[int, ...], *arrays: np.ndarray) -> tuple[str, ...] | None:
    walk = plan_walk(shape, tuple([place(x) for x in arrays]))
    return None if walk is None else tuple([layout for _, layout in walk.layouts])


def test_the_simplest_form_is_chosen() -> None:
    x = np.zeros((4, 5, 32), "f")
    rows = x.reshape(20, 32)
    assert names(x.shape, x, x) == ("full", "full")
    assert names(x.shape, x, x[0, 0, :1]) == ("full", "number")
    assert names(x.shape, x, x[0]) == ("full", "row")
    assert names(x.shape, x, x[0, 0]) == ("full", "row")
    assert names(rows.shape, rows, np.zeros((20, 1), "f")) == ("full", "column")
    assert names(x.shape, x, np.zeros((4, 1, 1), "f")) == ("full", "column")
    assert names(x.shape, x, np.zeros((5, 1), "f")) == ("spread", "repeated")
    assert names(x.shape, x, np.zeros((4, 1, 32), "f")) == ("spread", "spread")
    assert names(rows.shape, rows, np.zeros((20, 64), "f")[:, ::2]) == ("spread", "second")
    assert names(rows.shape, rows[:, ::-1]) is None
    assert names((4, 5, 3), np.zeros((4, 5, 3), "f"), np.zeros((5, 1), "f")) is None  # short rows
    assert names(x.shape, x, np.zeros((3, 1, 1), "f")) is None  # does not broadcast


def test_a_result_lies_in_memory_as_the_first_full_operand() -> None:
    x = np.zeros((2, 20, 6, 5), "f").transpose(0, 3, 1, 2)
    walk = plan_walk(x.shape, (place(x), place(np.zeros((5, 1, 1), "f"))))
    assert walk is not None and not walk.in_order and walk.full == 0
    assert walk.sizes[:3] == (2, 5, 120) or walk.layouts[1][1] in ("row", "repeated", "spread")


SHAPES = ((3, 4, 32), (4, 32), (1, 32), (32,), (1,), (), (3, 1, 32), (4, 1), (3, 1, 1), (3, 4, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_broadcasts_agree_with_numpy(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each shape of the second operand: adjacent, with gaps, and turned."""
    monkeypatch.setattr(pointwise, "_ready", {})
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3, 4, 32)) * 9).astype(dtype)
    wide = (rng.normal(size=(3, 4, 64)) * 9).astype(dtype)
    turned = np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1)
    firsts = (x, wide[..., :32], wide[..., ::2], turned)
    seconds = [np.asarray(rng.normal(size=shape) * 9, dtype) for shape in SHAPES]
    seconds += [wide[..., 32:], wide[:1, :, 1::2], turned]
    pairs = list(itertools.product(firsts, seconds))
    results: dict[int, np.ndarray] = {}
    until = time.monotonic() + 120
    expected = {n for n, pair in enumerate(pairs) if plan_walk(x.shape, tuple(map(place, pair)))}
    assert len(expected) > 30
    monkeypatch.setattr(pointwise, "MAX_NUMPY_POINTWISE_ELEMENTS", 3)
    while results.keys() < expected:
        assert time.monotonic() < until, "no kernel came"
        for n in expected - results.keys():
            y = pointwise.serve(np.multiply, pairs[n])
            if y is not None:
                results[n] = y
        time.sleep(0.002)
    for n, y in results.items():
        np.testing.assert_array_equal(y, pairs[n][0] * pairs[n][1])
        assert y.dtype == x.dtype
        assert y.strides == (pairs[n][0] * pairs[n][1]).strides
