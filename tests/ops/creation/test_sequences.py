"""Evenly spaced numbers agree with PyTorch's to the last bit, also where they cross zero."""

from __future__ import annotations

import pytest


def read_hex(tensor):
    return [float(x).hex() for x in tensor.double().tolist()]


def parse(text):
    return [float.fromhex(x).hex() for x in text.split()]


@pytest.mark.parametrize(("dtype", "places", "expected"), [
    ("float32", [11, 15, 22, 60], "-0x1.8f5c2ap-1 -0x1.666666p-1 -0x1.1eb852p-1 0x1.99999cp-3"),
    ("float64", [9, 17, 60], "-0x1.a3d70a3d70a3dp-1 -0x1.51eb851eb851fp-1 0x1.9999999999999p-3"),
    ("float16", [14, 16, 60], "-0x1.708p-1 -0x1.5cp-1 0x1.99p-3"),
    ("bfloat16", [12, 13, 60], "-0x1.84p-1 -0x1.7cp-1 0x1.98p-3"),
])
def test_linspace_is_rounded_as_in_pytorch(torch, dtype, places, expected):
    y = torch.linspace(-1, 1, 101, dtype=getattr(torch, dtype))[places]
    assert read_hex(y) == parse(expected)


def test_linspace_of_integers_cuts_its_ends_first(torch):
    y = torch.linspace(-45, 285, 101, dtype=torch.int64)
    assert y[[20, 30]].tolist() == [20, 53]  # 21 and 54 without fused multiply-adds
    y = torch.linspace(169.05, -46.59, 33, dtype=torch.int32)
    assert y[[11, 15]].tolist() == [95, 68]


def test_parts_of_complex_sequences_are_spaced_separately(torch):
    y = torch.linspace(complex(-1, 5), complex(1, 3), 101)
    assert torch.equal(y.real, torch.linspace(-1, 1, 101))
    assert torch.equal(y.imag, torch.linspace(5, 3, 101))


@pytest.mark.parametrize(("dtype", "expected"), [
    ("float32", "-0x1.333334p-2 -0x1.99999ap-3 -0x1.99999ap-4 0x1p-55 0x1.99999ap-4 0x1.99999ap-3 "
                "0x1.333334p-2"),
    ("float64", "-0x1.3333333333333p-2 -0x1.9999999999999p-3 -0x1.9999999999998p-4 0x1p-55 "
                "0x1.999999999999cp-4 0x1.999999999999bp-3 0x1.3333333333334p-2"),
])
def test_arange_adds_and_multiplies_in_one_rounding(torch, dtype, expected):
    y = torch.arange(-0.3, 0.35, 0.1, dtype=getattr(torch, dtype))
    assert read_hex(y) == parse(expected)


def test_long_aranges_count_from_the_first_element_of_each_vector(torch):
    y = torch.arange(-61.2, 162.4, 0.55)
    exact = [-61.2 + k * 0.55 for k in range(len(y))]
    assert torch.allclose(y.double(), torch.tensor(exact, dtype=torch.float64), atol=1e-5)
    for vector in (8, 16):  # AVX2, AVX-512
        whole = y[: len(y) // (2 * vector) * 2 * vector].double().reshape(-1, vector)
        steps = (torch.arange(vector, dtype=torch.float64) * 0.55).expand_as(whole)
        if torch.equal((whole[:, :1] + steps).float(), whole.float()):
            return
    raise AssertionError("vectors do not start from their rounded first element")


@pytest.mark.parametrize("bounds", [(0.5, 3.7, 1), (0, 5, 1.5), (0, 3, 0.5), (3.7, 0.5, -1)])
def test_narrow_integers_count_before_they_are_cut(torch, bounds):
    expected = {(0.5, 3.7, 1): [0, 1, 2, 3], (0, 5, 1.5): [0, 1, 2, 3], (0, 3, 0.5): [0] * 6,
                (3.7, 0.5, -1): [3, 2, 1, 0]}[bounds]
    for dtype in (torch.int32, torch.int16):
        assert torch.arange(*bounds, dtype=dtype).tolist() == expected


def test_int64_cuts_before_it_counts(torch):
    assert torch.arange(0.5, 3.7, 1, dtype=torch.int64).tolist() == [0, 1, 2]
    assert torch.arange(300, dtype=torch.uint8)[-2:].tolist() == [42, 43]
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 3, 0.5, dtype=torch.int64)


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda t: t.linspace(0, 300, 5, dtype=t.uint8), RuntimeError,
     "value cannot be converted to type uint8_t without overflow"),
    (lambda t: t.logspace(0, 1j, 3, dtype=t.float32), RuntimeError,
     r"torch.logspace\(\): inferred dtype c10::complex<float> can't be safely cast to passed"),
    (lambda t: t.linspace(0, 1, 3, dtype=t.bool), NotImplementedError,
     "\"linspace_cpu\" not implemented for 'Bool'"),
    (lambda t: t.arange(0, 2, dtype=t.complex64), NotImplementedError,
     "\"arange_cpu\" not implemented for 'ComplexFloat'"),
    (lambda t: t.arange(0, 5, out=t.rand(1).expand(5)), RuntimeError, "unsupported operation"),
    (lambda t: t.linspace(0, 5, 5, out=t.rand(1).expand(5)), RuntimeError, "unsupported operation"),
    (lambda t: float(t.tensor(1.5j)), RuntimeError,
     "value cannot be converted to type double without overflow"),
    (lambda t: int(t.tensor(1.5j)), RuntimeError,
     "value cannot be converted to type int64_t without overflow"),
])
def test_what_sequences_and_numbers_refuse(torch, call, kind, text):
    with pytest.raises(kind, match=text):
        call(torch)
    assert float(torch.tensor(2 + 0j)) == int(torch.tensor(2 + 0j)) == 2
