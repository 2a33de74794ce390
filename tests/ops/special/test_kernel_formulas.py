"""Special functions of large float32 arrays against SciPy's in float64, also where they end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import flambeau as torch
from flambeau.ops.native import pointwise

# The function, SciPy's, how far its arguments are tried, units in the last place.
FUNCTIONS = [
    (torch.lgamma, special.gammaln, 40, 1.0),
    (torch.digamma, special.digamma, 40, 1.0),
    (torch.special.ndtr, special.ndtr, 13, 3.0),  # erfc has 2
    (torch.i0, special.i0, 95, 1.0),
    (torch.special.i1, special.i1, 95, 1.0),
    (torch.special.i0e, special.i0e, 200, 1.0),
    (torch.special.i1e, special.i1e, 200, 1.0),
]
IDS = [reference.__name__ for _, reference, _, _ in FUNCTIONS]
ENDS = [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, -40.0, 0.5, 1.5, 2.5, 8.0, np.inf, -np.inf, np.nan, 1e-30,
        -1e-30, 1e-41, 1e10, 3e38, -3e38]
BESIDE = [np.nextafter(np.float32(a), np.float32(b)) for a in (1, 2, 8, 1.5, 2.5) for b in (0, 9)]


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "_ready", {})
    monkeypatch.setattr(pointwise, "_straight", {})


def from_kernel(function, x: np.ndarray) -> np.ndarray:
    for _ in range(4):  # SciPy's, then the kernel's
        y = function(torch.from_numpy(x)).numpy()
    assert any(v.__class__ is tuple for v in pointwise._ready.values())
    return y


@pytest.mark.parametrize(("function", "reference", "far", "units"), FUNCTIONS, ids=IDS)
def test_values(function, reference, far: float, units: float) -> None:
    x = np.linspace(-far, far, 40_003)
    x = np.concatenate([x, 10 ** np.linspace(-38, 3, 997), ENDS, BESIDE]).astype(np.float32)
    y = from_kernel(function, x)
    exact = reference(x.astype(float))
    with np.errstate(over="ignore"):
        single = exact.astype(np.float32)
    finite = np.isfinite(single)
    if reference is special.gammaln:
        exact[x == -np.inf] = single[x == -np.inf] = np.inf  # as in C, and in PyTorch
    if reference is special.digamma:
        single[x == -np.inf] = np.nan
        finite &= x != -np.inf
    np.testing.assert_array_equal(y[~finite], single[~finite])
    spacing = np.spacing(np.maximum(np.abs(single[finite]), np.float32(1.2e-38)))
    if reference in (special.gammaln, special.digamma):
        spacing = np.maximum(spacing, 1e-14)  # SciPy's own error, where sums cancel
    assert (np.abs(y[finite] - exact[finite]) / spacing).max() <= units


@pytest.mark.parametrize(("function", "reference", "far", "units"), FUNCTIONS, ids=IDS)
@pytest.mark.parametrize("size", [32_771, 65_535, 65_537])
def test_sizes(function, reference, far: float, units: float, size: int) -> None:
    x = np.random.default_rng(size).uniform(0.6, 9, size).astype(np.float32)
    np.testing.assert_allclose(from_kernel(function, x), reference(x.astype(float)), 1e-6, 1e-7)


def test_zeros_of_the_gamma_functions() -> None:
    """Near a zero the result is as precise as elsewhere."""
    root = 1.4616321449683623
    x = np.resize(np.float32([1, 2, root]).view(np.int32)[:, None] + np.arange(-40, 41),
                  (40_000,)).astype(np.int32).view(np.float32)
    apart = x.astype(float) - root
    near = np.abs(apart) < 1e-3
    slopes = [float(special.polygamma(k, root)) for k in (1, 2, 3)]
    exact = apart * (slopes[0] + apart * (slopes[1] / 2 + apart * slopes[2] / 6))
    actual = from_kernel(torch.digamma, x)
    np.testing.assert_allclose(actual[near], exact[near], 2e-7)
    actual = from_kernel(torch.lgamma, x)
    for zero, slope, curve in ((1, -0.5772156649015329, np.pi**2 / 6),
                               (2, 1 - 0.5772156649015329, np.pi**2 / 6 - 1)):
        near, apart = np.abs(x - zero) < 1e-3, x.astype(float) - zero
        np.testing.assert_allclose(actual[near], (apart * (slope + apart * curve / 2))[near], 2e-7)
