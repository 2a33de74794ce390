"""logcumsumexp of complex numbers, whose results at infinities are PyTorch's."""

from __future__ import annotations

import cmath

import pytest

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_infinities_and_nans(torch, name):
    x = torch.tensor([-INF + 4j, -INF + 1j, 1.2 + 2.1j, 1e10 + 1e20j, INF + 0j, NAN + 2j],
                     dtype=getattr(torch, name))
    y = x.logcumsumexp(0).tolist()
    assert [z.real for z in y[:2]] == [-INF, -INF]
    assert [z.imag for z in y[:2]] == [0, 0]
    assert y[2] == pytest.approx(1.2 + 2.1j)
    assert y[3] == pytest.approx(1e10 + 1e20j)
    assert y[4].real == INF
    assert cmath.isnan(y[5])


def test_small_terms_are_not_lost(torch):
    x = torch.tensor([0j, -45 + 0.5j], dtype=torch.complex128)
    y = x.logcumsumexp(0)[1].item()
    assert y == pytest.approx(cmath.exp(-45 + 0.5j), rel=1e-12, abs=0)


def test_gradients(torch):
    x = torch.randn(3, 3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: x.logcumsumexp(0), x)


def test_log1p_is_accurate_near_zero(torch):
    assert torch.log1p(torch.tensor(1e-19 + 1e-18j, dtype=torch.complex128)).item() == \
        pytest.approx(1e-19 + 1e-18j, rel=1e-12, abs=0)
    small = torch.log1p(torch.tensor([1e-19 + 1e-18j] * 9, dtype=torch.complex128))[8].item()
    assert small.real == pytest.approx(1e-19, rel=1e-12, abs=0)


@pytest.mark.parametrize(("function", "value", "wanted"), [
    ("exp2", complex(-INF, 1), 0), ("sgn", complex(NAN, 1), None), ("sgn", complex(0, 0), 0),
])
def test_other_functions_of_extreme_numbers(torch, function, value, wanted):
    result = getattr(torch, function)(torch.tensor([value]))[0].item()
    if wanted is None:
        assert cmath.isnan(result)
    else:
        assert result == wanted


def test_empty_pairs_are_complex_numbers(torch):
    pairs = torch.view_as_real(torch.empty(0, dtype=torch.complex64)).frac()
    assert torch.view_as_complex(pairs).shape == (0,)


def test_halves_of_complex_numbers_may_be_real(torch):
    assert torch.isreal(torch.tensor([1 + 1j, 2]).to(torch.complex32)).tolist() == [False, True]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_integrals_of_nothing(torch, shape):
    assert torch.cumulative_trapezoid(torch.ones(shape)).shape == shape
