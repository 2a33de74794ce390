"""LSTM and attention out of parts that are quantized; modules of the user's own; old names."""

from __future__ import annotations

import copy
import warnings
from importlib import import_module

import pytest


def _quantization(torch):
    return import_module(torch.__name__ + ".ao.quantization")


class Sandwich:
    """Makes a model: quantize, a layer, dequantize."""

    def __new__(cls, torch, layer):
        quantization = _quantization(torch)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
                self.layer = layer
                self.qconfig = quantization.get_default_qconfig("fbgemm")

            def forward(self, *xs):
                result = self.layer(*map(self.quant, xs))
                return self.dequant(result[0] if isinstance(result, tuple) else result)

        return Model().eval()


def _quantize(torch, model, samples, **custom):
    quantization = _quantization(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = quantization.prepare(model, **custom.get("prepare", {}))
        prepared(*samples)
        return quantization.convert(prepared, **custom.get("convert", {}))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm(torch, bidirectional: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(6, 5, 2, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(7, 3, 6)
    expected = layer(x)[0].detach()
    quantized = _quantize(torch, Sandwich(torch, copy.deepcopy(layer)), (x,))
    assert type(quantized.layer) is torch.ao.nn.quantized.LSTM
    cell = quantized.layer.layers[1].layer_fw.cell
    assert type(cell.igates) is torch.ao.nn.quantized.Linear
    assert type(cell.ogate_cy) is torch.ao.nn.quantized.QFunctional
    assert torch.allclose(quantized(x), expected, atol=0.1)


def test_split_gates_give_the_same(torch) -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(6, 5)
    layer.qconfig = _quantization(torch).get_default_qconfig("fbgemm")
    x, state = torch.randn(4, 3, 6), (torch.randn(1, 3, 5), torch.randn(1, 3, 5))
    expected, (h, c) = layer(x, state)
    quantizable = torch.ao.nn.quantizable.LSTM
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for split in (False, True):
            observed = quantizable.from_float(layer.eval(), split_gates=split)
            y, (h_again, c_again) = observed(x, state)
            for actual, wanted in ((y, expected), (h_again, h), (c_again, c)):
                assert torch.allclose(actual, wanted, atol=1e-6)
    with pytest.raises(ValueError, match="dropout should be a number"):
        quantizable(2, 2, dropout=2.0)


@pytest.mark.parametrize("extra", [{}, {"add_zero_attn": True, "add_bias_kv": True},
                                   {"kdim": 6, "vdim": 4, "bias": False}])
def test_attention(torch, extra: dict) -> None:
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, **extra).eval()
    q, k = torch.randn(5, 3, 8), torch.randn(6, 3, extra.get("kdim", 8))
    v = torch.randn(6, 3, extra.get("vdim", 8))
    expected = layer(q, k, v)[0].detach()
    model = Sandwich(torch, copy.deepcopy(layer))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = _quantization(torch).prepare(model)
        assert torch.allclose(prepared(q, k, v), expected, atol=1e-5)
        quantized = _quantization(torch).convert(prepared)
    assert type(quantized.layer) is torch.ao.nn.quantized.MultiheadAttention
    assert torch.allclose(quantized(q, k, v), expected, atol=0.15)
    if not extra:
        with torch.no_grad():
            again = quantized.layer.dequantize()
        assert torch.allclose(again.in_proj_weight, layer.in_proj_weight, atol=0.02)


def test_modules_of_ones_own(torch) -> None:
    """They are observed and converted by classes that the user names."""
    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.inner(x)

    class Observed(Plain):
        @classmethod
        def from_float(cls, mod):
            result = cls()
            result.inner, result.qconfig = mod.inner, mod.qconfig
            return result

    class Quantized(Plain):
        @classmethod
        def from_observed(cls, mod):
            result = cls()
            result.seen = mod.activation_post_process.max_val
            return result

    model = Sandwich(torch, Plain())
    converted = _quantize(torch, model, (torch.randn(4, 3),), prepare={
        "prepare_custom_config_dict": {
            "float_to_observed_custom_module_class": {Plain: Observed}}}, convert={
        "convert_custom_config_dict": {
            "observed_to_quantized_custom_module_class": {Observed: Quantized}}})
    assert type(converted.layer) is Quantized
    assert float(converted.layer.seen) > 0
    assert not hasattr(converted.quant, "qconfig")


@pytest.mark.parametrize("path", [
    "intrinsic.LinearReLU", "intrinsic.qat.ConvBn2d", "intrinsic.quantized.ConvReLU2d",
    "qat.Conv2d", "quantizable.LSTM", "quantized.FloatFunctional", "quantized.dynamic.Linear"])
def test_old_names_are_the_new_ones(torch, path: str) -> None:
    package, _, name = path.rpartition(".")
    old, new = (import_module(f"{torch.__name__}.{space}.{package}") for space in ("nn", "ao.nn"))
    assert getattr(old, name) is getattr(new, name)
