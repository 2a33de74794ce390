"""Numbers that do not fit a dtype, and Python types in a dtype's place: as in PyTorch."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

U8, I8, I32, I64, F16 = torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16
MASK = torch.tensor([True, False])


@pytest.mark.parametrize(
    ("value", "dtype", "name"),
    [
        (300, U8, "uint8_t"), (-300, U8, "uint8_t"), (200, I8, "int8_t"), (1e10, I32, "int"),
        (math.nan, I64, "int64_t"), (math.inf, I64, "int64_t"), (1e6, F16, "c10::Half"),
        (1j, torch.float32, "float"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(value, dtype, name):
    x = torch.ones(2, dtype=dtype)
    calls = (
        lambda: torch.full((2,), value, dtype=dtype), lambda: torch.full_like(x, value),
        lambda: x.fill_(value), lambda: x.masked_fill_(MASK, value),
        lambda: x.index_fill_(0, torch.tensor([0]), value),
        lambda: torch.full((2,), value, out=x),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match=f"converted to type {name} without overflow"):
            call()
    assert torch.equal(x, torch.ones(2, dtype=dtype))


def test_what_wraps_or_is_cut_off():
    assert torch.full((1,), -1, dtype=U8).item() == 255
    assert torch.ones(1, dtype=U8).fill_(-1).item() == 255
    assert torch.ones(2, dtype=I64).masked_fill(MASK, 1.7).tolist() == [1, 1]
    assert MASK.masked_fill(MASK, 0.5).tolist() == [True, False]
    assert torch.where(MASK, torch.ones(2, dtype=U8), -1).tolist() == [1, 255]
    assert torch.full((1,), math.inf, dtype=F16).item() == math.inf


def test_masks_are_boolean():
    mask = torch.tensor([1, 0], dtype=U8)
    with pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks, but got mask "
                       "with dtype unsigned char"):
        torch.ones(2).masked_fill(mask, 1)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(bool, torch.bool), (int, I64), (float, torch.float64), (complex, torch.complex128)],
)
def test_python_types_stand_for_dtypes(kind, dtype):
    x = torch.ones(2)
    result = (
        torch.ones(2, dtype=kind), torch.zeros((2,), dtype=kind), torch.empty(2, dtype=kind),
        torch.full((2,), 1, dtype=kind), torch.tensor([1, 0], dtype=kind), x.to(kind),
        torch.as_tensor([1, 0], dtype=kind), torch.asarray([1, 0], dtype=kind),
        torch.zeros_like(x, dtype=kind), x.new_zeros(2, dtype=kind), x.to(dtype=kind),
        x.to("cpu", kind),
    )
    assert {y.dtype for y in result} == {dtype}


def test_python_types_as_options_of_operators():
    x = torch.ones(2)
    assert x.sum(dtype=float).dtype is torch.float64
    assert x.cumsum(0, dtype=float).dtype is torch.float64
    assert torch.nn.functional.softmax(x, dim=0, dtype=float).dtype is torch.float64
    assert torch.arange(3, dtype=float).dtype is torch.float64
    assert torch.nn.Linear(2, 2).to(float).weight.dtype is torch.float64
    assert torch.promote_types(int, torch.float32) is torch.float32
    assert torch.finfo(float).bits == 64
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not type"):
        torch.ones(2, dtype=str)


def test_factories_write_into_views_of_as_many_elements():
    for make in (
        lambda out: torch.linspace(0, 3, 4, out=out), lambda out: torch.arange(4.0, out=out),
        lambda out: torch.range(0, 3, out=out),
    ):
        x = torch.zeros(2, 3)
        make(x.narrow(1, 1, 2))
        assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    with pytest.raises(RuntimeError, match=r"dtype Long does not match dtype of out .* \(Float\)"):
        torch.zeros(2, dtype=I64, out=torch.zeros(2))


def test_two_numbers_divide():
    assert torch.div(7, 2, rounding_mode="trunc").item() == 3
    assert torch.floor_divide(-7, 2).item() == -4


def test_statistics_of_one_number_and_of_nan():
    assert math.isnan(torch.var(torch.tensor(3.0)).item())
    assert torch.var(torch.tensor(3.0), unbiased=False).item() == 0
    x = torch.tensor([1.0, math.nan, 2.0], dtype=torch.bfloat16)
    assert math.isnan(x.median().item())
    assert x[None].median(1).indices.item() == 1
    assert math.isnan(torch.nn.CrossEntropyLoss()(torch.rand(5, 0), torch.rand(5, 0)).item())


def test_ravel_of_a_strided_tensor_is_a_copy():
    x = torch.arange(6.0)[::2]
    assert x.ravel().stride() == (1,)
    assert x.ravel().data_ptr() != x.data_ptr()
    y = torch.ones(2, 3)
    assert y.ravel().data_ptr() == y.data_ptr()


NUMBERS = [("uint8", 300, 44), ("int8", -1.5, -1), ("int32", 2**40, 0), ("float16", 1e6, math.inf),
           ("float32", True, 1.0), ("complex64", 2j, 2j), ("bool", 3, True)]


@pytest.mark.parametrize(("dtype", "number", "expected"), NUMBERS)
def test_copies_of_numbers_cast_as_tensors_do(torch, dtype, number, expected):
    """fill_ refuses what does not fit; copy_ wraps around and overflows."""
    x = torch.ones(2, dtype=getattr(torch, dtype))
    assert x.copy_(number) is x
    assert x.tolist() == [expected, expected]


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_copied_complex_number_loses_its_imaginary_part(torch):
    assert torch.ones(2).copy_(3 + 2j).tolist() == [3, 3]
