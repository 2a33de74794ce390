"""torch.ops.quantized_decomposed, limits of quantized dtypes, fake quantization of halves."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.ao.quantization.fx._decomposed  # defines the operators

Q = torch.ops.quantized_decomposed


def test_tensors_and_channels_are_coded_as_quantized_tensors_are() -> None:
    """The integers, and what they stand for, are those of quantize_per_tensor and per_channel."""
    x = torch.randn(6, 10)
    scale, zero = Q.choose_qparams.tensor(x, 0, 255, 1e-8, torch.uint8)
    codes = Q.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
    wanted = torch.quantize_per_tensor(x, scale.item(), int(zero), torch.quint8)
    assert torch.equal(codes, wanted.int_repr())
    again = Q.dequantize_per_tensor(codes, scale.item(), int(zero), 0, 255, torch.uint8)
    assert torch.allclose(again, wanted.dequantize())
    scales, zeros = torch.rand(10) + 0.01, torch.arange(10)
    codes = Q.quantize_per_channel(x, scales, zeros, 1, -128, 127, torch.int8)
    wanted = torch.quantize_per_channel(x, scales, zeros, 1, torch.qint8)
    assert torch.equal(codes, wanted.int_repr())
    again = Q.dequantize_per_channel(codes, scales, zeros, 1, -128, 127, torch.int8)
    assert torch.allclose(again, wanted.dequantize())


def test_rows_and_groups_come_back_within_a_step() -> None:
    """Each row, or group of a row, has a scale and a zero point."""
    x = torch.randn(4, 8)
    scales, zeros = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    codes = Q.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    again = Q.dequantize_per_token(codes, scales, zeros, -128, 127, torch.int8, torch.float32)
    assert ((again - x).abs() <= scales).all() and codes.dtype is torch.int8
    scales, zeros = torch.full((4, 2), 0.02), torch.zeros(4, 2, dtype=torch.int32)
    codes = Q.quantize_per_channel_group(x, scales, zeros, -128, 127, torch.int8, 4)
    again = Q.dequantize_per_channel_group(
        codes, scales, zeros, -128, 127, torch.int8, 4, torch.float32)
    assert ((again - x.clamp(-2.56, 2.54)).abs() <= 0.011).all()


def test_limits_of_quantized_dtypes_have_no_name() -> None:
    """As in PyTorch: the limits of the integers, and no dtype."""
    info = torch.iinfo(torch.quint8)
    assert (info.bits, info.min, info.max) == (8, 0, 255) and info == torch.iinfo(torch.quint8)
    with pytest.raises(NotImplementedError, match="not implemented for 'QUInt8'"):
        info.dtype  # noqa: B018


def test_half_precision_is_scaled_in_float32() -> None:
    """One over the scale is not rounded to the input's dtype."""
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).half()
    y = torch.fake_quantize_per_tensor_affine(x, 0.05, 3, 0, 255)
    wanted = torch.fake_quantize_per_tensor_affine(x.float(), 0.05, 3, 0, 255)
    assert y.dtype is torch.float16 and torch.equal(y, wanted.half())
