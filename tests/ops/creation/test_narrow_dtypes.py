"""complex32 and float8_e8m0fnu: casts, what computes on them, and what refuses."""

from __future__ import annotations

import io

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Casting complex")

_INF, _NAN = float("inf"), float("nan")


def test_casts_to_exponents(torch):
    x = torch.tensor([0.0, 1.0, 1.4, 1.5, 3.0, 6.0, 1e-40, _INF, _NAN, -2.0, 0.7, 2.0**127, 3e38])
    y = x.to(torch.float8_e8m0fnu)
    bits = [0, 127, 127, 128, 129, 130, 0, 255, 255, 128, 126, 254, 255]
    assert y.view(torch.uint8).tolist() == bits
    assert y[1:6].tolist() == [1, 1, 2, 4, 8]
    assert y[3].item() == 2
    for kind in (torch.float16, torch.bfloat16, torch.float64, torch.int64):
        z = torch.tensor([3, 5], dtype=kind).to(torch.float8_e8m0fnu)
        assert z.to(kind).tolist() == [4, 4]
    assert torch.full((2,), 3.0, dtype=torch.float8_e8m0fnu).tolist() == [4, 4]
    assert torch.empty(1, dtype=torch.float8_e8m0fnu).fill_(5.0).tolist() == [4]
    assert torch.empty(1, dtype=torch.float8_e8m0fnu).copy_(torch.tensor([-8.0])).tolist() == [8]


def test_exponents_are_compared_and_moved(torch):
    y = torch.tensor([1.0, 2.0, _NAN], dtype=torch.float8_e8m0fnu)
    assert repr(y[:2]) == "tensor([1., 2.], dtype=torch.float8_e8m0fnu)"
    assert (y == y).tolist() == [True, True, False]
    assert y.isnan().tolist() == [False, False, True]
    assert torch.cat([y[:2], y[:1]]).tolist() == [1, 2, 1]
    assert (y * y)[:2].tolist() == [1, 4]
    kind = torch.float8_e8m0fnu
    assert (kind.itemsize, kind.is_signed, kind.is_floating_point) == (1, False, True)
    for call, text in ((lambda: y + y, "add_stub"), (lambda: y * 2, "mul_cpu_reduced_float"),
                       (lambda: -y, "neg_cpu"), (lambda: y > y, "gt_cpu"),
                       (lambda: torch.arange(3, dtype=kind), "arange_cpu")):
        with pytest.raises(NotImplementedError, match=f'"{text}" not implemented for '
                                                      "'Float8_e8m0fnu'"):
            call()
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        y + torch.ones(3)


def test_complex32(torch):
    x = torch.tensor([1 + 2j, 0.1 - 3j, 70000 + 1j]).to(torch.complex32)
    assert x.dtype is torch.complex32 is torch.chalf
    assert repr(x) == "tensor([1.0000+2.j, 0.1000-3.j,    inf+1.j], dtype=torch.complex32)"
    assert x.real.dtype is torch.float16
    assert x.imag.tolist() == [2, -3, 1]
    assert x.is_complex()
    assert (x.element_size(), x.type()) == (4, "torch.ComplexHalfTensor")
    assert x.to(torch.complex64)[:2].tolist() == [1 + 2j, 0.0999755859375 - 3j]
    assert torch.view_as_real(x)[0].tolist() == [1, 2]
    assert torch.equal(torch.view_as_complex(torch.view_as_real(x)).cfloat(), x.cfloat())
    assert torch.complex(torch.ones(1).half(), torch.ones(1).half()).dtype is torch.complex32
    assert (torch.ones(1).half() * 1j).dtype is torch.complex32
    for make in (lambda: torch.ones(2, dtype=torch.chalf), lambda: torch.ones_like(x)[:2],
                 lambda: torch.full((2,), 1, dtype=torch.chalf), lambda: x.new_ones(2)):
        assert make().tolist() == [1, 1]


def test_arithmetic_of_complex32(torch):
    x = torch.tensor([1 + 2j, 0.1 - 3j], dtype=torch.complex32)
    wide = x.to(torch.complex64)
    for function in (lambda t: t + t, lambda t: t * t, lambda t: t - 2, lambda t: t * 2j,
                     lambda t: -t, torch.conj_physical, torch.sgn,
                     lambda t: torch.addcmul(t, t, t)):
        y = function(x)
        assert y.dtype is torch.complex32
        assert torch.allclose(y.to(torch.complex64), function(wide), rtol=2e-3)
    assert x.abs().dtype is torch.float16
    assert (x + torch.ones(2)).dtype is torch.complex64
    assert (x + torch.ones(2).half()).dtype is torch.complex32
    assert (x == x).all()
    assert torch.cat([x, x])[[3, 0]].tolist() == [x[1].item(), 1 + 2j]
    x[0] = 5
    assert x[0].item() == 5
    for call, text in ((torch.exp, "exp_vml_cpu"), (torch.reciprocal, "reciprocal_cpu"),
                       (lambda t: t / t, "div_cpu"), (lambda t: t.sum(), "sum_cpu"),
                       (lambda t: t**2, "pow")):
        with pytest.raises(NotImplementedError, match=f'"{text}" not implemented for '
                                                      "'ComplexHalf'"):
            call(x)


def test_files_of_narrow_dtypes(torch):
    for kind in (torch.complex32, torch.float8_e8m0fnu):
        buffer = io.BytesIO()
        torch.save(torch.ones(2, dtype=kind), buffer)
        buffer.seek(0)
        x = torch.load(buffer)
        assert x.dtype is kind
        assert x.tolist() == [1, 1]


def test_complex32_is_compared_by_closeness(torch):
    x = torch.tensor([1 + 1j, 2], dtype=torch.complex64).to(torch.complex32)
    assert torch.isclose(x, x).tolist() == [True, True]
    assert torch.isclose(x, x + 0.01).tolist() == [False, False]
    torch.testing.assert_close(x, x)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 2 / 2 \(100.0%\)"):
        torch.testing.assert_close(x, x * 2)


def test_draws_of_complex32(torch):
    torch.manual_seed(0)
    normal = torch.randn(3, dtype=torch.complex32)
    assert normal.to(torch.complex64).real.tolist() == [1.08984375, -1.541015625, -0.76708984375]
    torch.manual_seed(0)
    uniform = torch.rand(2, dtype=torch.complex32).to(torch.complex64)
    assert torch.allclose(uniform, torch.tensor([0.4963 + 0.7681j, 0.0885 + 0.1321j]), atol=1e-3)
