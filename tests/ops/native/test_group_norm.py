"""Group norm in machine code beside NumPy's, for images of odd sizes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.native.runtime import fast_call
from flambeau.native.runtime.thread_pool import POOL
from flambeau.ops.native import group_norm

from .test_rows import ROW_THRESHOLDS, ready

SHAPES = [((4, 8, 17), 2), ((3, 6, 33), 3), ((8, 4, 90), 1), ((2, 64, 32), 64), ((5, 6, 1031), 6)]


@pytest.fixture(autouse=True, params=[1, 2])
def any_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Kernels for any number of elements, on one thread and on two."""
    for name in ("native.rows", "normalization.group_norm"):
        for limit in ROW_THRESHOLDS:
            monkeypatch.setattr(sys.modules[f"flambeau.ops.{name}"], limit, 0, raising=False)
    monkeypatch.setattr(fast_call, "MAX_SINGLE_THREAD_ELEMENTS", 0)
    before = POOL.threads()
    POOL.set_threads(request.param)
    yield
    POOL.set_threads(before)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_group_norm(shape, groups: int, affine, kind: str) -> None:
    draw = np.random.default_rng(0)
    x, g = draw.normal(size=shape) * 3 + 1, draw.normal(size=shape)
    w, b = (draw.normal(size=shape[1]) if present else None for present in affine)
    tolerance = 1e-4 if kind == "float32" else 1e-11
    tx = torch.from_numpy(x).requires_grad_()
    rows = tx.reshape(shape[0], groups, -1)
    centre = rows.mean(2, True)
    root = 1 / (((rows - centre) ** 2).mean(2, True) + 1e-3).sqrt()
    y = ((rows - centre) * root).reshape(shape)
    for part, apply in ((w, torch.mul), (b, torch.add)):
        y = y if part is None else apply(y, torch.from_numpy(part)[:, None])
    (y * torch.from_numpy(g)).sum().backward()

    x, g, w, b = (None if v is None else v.astype(kind) for v in (x, g, w, b))
    mean, rstd = np.empty((2, shape[0], groups), kind)
    actual = ready(group_norm.group_norm, x, w, b, mean, rstd, 1e-3)
    np.testing.assert_allclose(actual, y.detach().numpy(), tolerance, tolerance)
    np.testing.assert_allclose(mean, centre.detach().numpy()[..., 0], tolerance, tolerance)
    np.testing.assert_allclose(rstd, root.detach().numpy()[..., 0], tolerance)
    gx, of_g, of_product = ready(group_norm.group_norm_backward, g, x, w, mean, rstd)
    np.testing.assert_allclose(gx, tx.grad.numpy(), tolerance, tolerance)
    means = np.repeat(mean, shape[1] // groups, 1)[..., None]
    np.testing.assert_allclose(of_g, g.sum(2), tolerance, tolerance * 30)
    np.testing.assert_allclose(of_product, (g * (x - means)).sum(2), tolerance, tolerance * 100)


def test_few_groups_and_few_pixels_are_left_to_numpy() -> None:
    for shape, groups in (((1, 4, 90), 2), ((9, 4, 3), 2)):
        mean, rstd = np.empty((2, shape[0], groups), "f")
        args = np.ones(shape, "f"), None, None, mean, rstd, 1e-5
        for _ in range(3):
            assert group_norm.group_norm(*args) is None
