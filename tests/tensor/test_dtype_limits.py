"""torch.finfo and torch.iinfo: whole decimal digits, and equality by dtype."""

import pytest

import flambeau as torch

RESOLUTIONS = {
    torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6, torch.float64: 1e-15,
    torch.float8_e5m2: 1.0, torch.float8_e4m3fn: 1.0,
}


@pytest.mark.parametrize("dtype", RESOLUTIONS, ids=str)
def test_resolution_counts_decimal_digits(dtype):
    assert torch.finfo(dtype).resolution == RESOLUTIONS[dtype]


def test_limits_are_equal_by_dtype():
    assert torch.finfo() == torch.finfo(torch.float32) == torch.finfo(torch.complex64)
    assert len({torch.finfo(torch.float32), torch.finfo(), torch.iinfo(torch.int8)}) == 2
    assert torch.finfo(torch.float16) != torch.finfo(torch.float32)
    assert torch.iinfo(torch.int8) == torch.iinfo(torch.int8) != torch.iinfo(torch.int16)


def test_limits_are_those_of_a_dtype():
    with pytest.raises(TypeError, match=r"iinfo\(\): argument 'type' \(position 1\) must be torch"
                                        r".dtype, not str"):
        torch.iinfo("int64")
    with pytest.raises(TypeError, match="integer input type. Use torch.finfo to handle 'torch.ii"):
        torch.iinfo(torch.float32)


def test_complex_dtypes_of_others():
    assert torch.bfloat16.to_complex() is torch.complex64
    assert torch.complex128.to_complex() is torch.complex128
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Long"):
        torch.int64.to_complex()
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Float8_e5m2"):
        torch.float8_e5m2.to_complex()


def test_numbers_beside_tensors_take_a_half_default_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.tensor([torch.tensor(1), 1.0]).dtype is torch.bfloat16
    finally:
        torch.set_default_dtype(before)


def test_short_names(torch):
    names = ("uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 bfloat16 "
             "complex32 complex64 complex128 bool float8_e5m2 float8_e4m3fn").split()
    assert [getattr(torch, name).abbr for name in names] == (
        "u8 i8 i16 i32 i64 u16 u32 u64 f16 f32 f64 bf16 c32 c64 c128 b8 f8e5m2 f8e4m3fn").split()


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint32", "quint4x2", "quint2x4"])
def test_quantized_dtypes_do_not_tell_their_sign(name):
    with pytest.raises(RuntimeError, match="^isSignedType not supported for quantized types"):
        getattr(torch, name).is_signed  # noqa: B018


def test_quantized_tensors_do_not_tell_their_sign():
    x = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    with pytest.raises(RuntimeError, match="^isSignedType not supported for quantized types"):
        x.is_signed()
