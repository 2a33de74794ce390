"""Activations, norms and pooling of quantized tensors, as modules and as functions."""

from __future__ import annotations

import pytest

import flambeau as torch

nn, quantization = torch.nn, torch.ao.quantization


@pytest.fixture
def q():
    x = torch.arange(2.0 * 4 * 6 * 6).reshape(2, 4, 6, 6) / 20
    return torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)


@pytest.mark.parametrize("middle", [
    nn.ELU(0.5), nn.Hardswish(), nn.LeakyReLU(0.1), nn.ReLU6(),
    nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm(6),
    nn.PReLU(), nn.Dropout(0.5),
], ids=lambda m: type(m).__name__)
def test_modules_are_converted_and_stay_close(middle):
    torch.manual_seed(0)
    model = quantization.QuantWrapper(nn.Sequential(middle)).eval()
    model.qconfig = quantization.default_qconfig
    x = torch.randn(2, 4, 6, 6)
    expected = model(x)
    prepared = quantization.prepare(model)
    prepared(x)
    converted = quantization.convert(prepared)
    kind = type(converted.module[0])
    assert kind is getattr(torch.ao.nn.quantized, type(middle).__name__)
    inner = converted.module[0](converted.quant(x))
    assert inner.is_quantized
    assert (converted(x) - expected).abs().max() < 0.1  # norms stretch steps of 0.05
    again = quantization.convert(quantization.prepare(model))
    again.load_state_dict(converted.state_dict(), strict=False)


@pytest.mark.parametrize("layer", [nn.Sigmoid(), nn.Softmax(1)], ids=lambda m: type(m).__name__)
def test_modules_of_known_range(q, layer):
    """They are not converted by default: functions of quantized tensors know their range."""
    kind = getattr(torch.ao.nn.quantized, type(layer).__name__)
    assert type(layer) not in quantization.get_default_static_quant_module_mappings()
    y = kind.from_reference(layer, 1 / 256, 0)(q)
    assert y.is_quantized
    assert (y.dequantize() - layer(q.dequantize())).abs().max() < 1 / 256


def test_sums_are_exact_in_means_of_windows(q):
    functional = torch.ao.nn.quantized.functional
    # sums of integers, as PyTorch 2.13 gives them
    assert functional.avg_pool2d(q, 3).int_repr().sum() == 2392
    assert nn.functional.avg_pool2d(q, 3, 2, 1, True, False).int_repr().sum() == 9720
    assert functional.adaptive_avg_pool2d(q, (2, 3)).int_repr().sum() == 3576
    volumes = q.reshape(2, 4, 3, 4, 3)
    assert nn.functional.avg_pool3d(volumes, 2, 1).int_repr().sum() == 7168
    assert nn.functional.adaptive_avg_pool3d(volumes, (1, 2, 2)).int_repr().sum() == 2392
    assert nn.functional.max_pool3d(volumes, 2).int_repr().sum() == 1208
    assert nn.functional.max_pool1d(q.reshape(2, 4, 36), 2).int_repr().sum() == 10800


def test_functions(q):
    functional = torch.ao.nn.quantized.functional
    assert functional.hardsigmoid(q).int_repr().sum() == 69596
    assert functional.hardswish(q, 0.1, 0).int_repr().sum() == 20518
    assert functional.elu(q, 0.1, 0).int_repr().sum() == 20664
    assert functional.threshold(q, 1.0, 2.0).int_repr().sum() == 21843
    assert functional.clamp(q, 1.0, 2.0).int_repr().sum() == 6319
    assert nn.functional.gelu(q).int_repr().sum() == 21480
    assert torch.std(q, 2).int_repr().sum() == 416
    assert nn.functional.pad(q, (1, 1), value=0.5).int_repr().sum() == 22296
    assert nn.functional.pad(q, (1, 1, 1, 1), mode="reflect").int_repr().sum() == 38272
    assert torch.stack([q, q]).int_repr().sum() == 43056
    with pytest.raises(ValueError, match="must be quantized"):
        functional.clamp(torch.ones(2), 0.0, 1.0)
