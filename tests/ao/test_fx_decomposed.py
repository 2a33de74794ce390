"""Graph mode: reference models of operators on plain integers."""

from __future__ import annotations

import copy
from importlib import import_module

import pytest


def _models(torch, model, mapping, inputs):
    """The reference model with quantized tensors, and the one with plain integers."""
    fx = import_module(torch.__name__ + ".ao.quantization.quantize_fx")
    prepared = fx.prepare_fx(model.eval(), mapping, inputs)
    prepared(*inputs)
    return (fx.convert_to_reference_fx(copy.deepcopy(prepared)),
            fx._convert_to_reference_decomposed_fx(prepared))


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_linear(torch, kind: str) -> None:
    quantization = import_module(torch.__name__ + ".ao.quantization")
    torch.manual_seed(0)
    mapping = quantization.get_default_qconfig_mapping("fbgemm")
    if kind == "dynamic":
        mapping = mapping.set_object_type(torch.nn.Linear, quantization.default_dynamic_qconfig)
    x = torch.randn(3, 5)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4))
    reference, plain = _models(torch, model, mapping, (x,))
    assert torch.allclose(plain(x), reference(x), atol=0.04)  # a step of rounding
    targets = [str(node.target) for node in plain.graph.nodes]
    assert any("dequantize_per_tensor" in target for target in targets)
    assert any("choose_qparams" in target for target in targets) == (kind == "dynamic")


def test_weights_by_channel(torch) -> None:
    quantization = import_module(torch.__name__ + ".ao.quantization")

    class Model(torch.nn.Module):
        def forward(self, x, weight, bias):
            return torch.nn.functional.linear(x, weight, bias)

    torch.manual_seed(0)
    mapping = quantization.get_default_qconfig_mapping("fbgemm").set_object_type(
        torch.nn.functional.linear, quantization.default_per_channel_qconfig)
    inputs = torch.randn(3, 5), torch.randn(4, 5), torch.randn(4)
    reference, plain = _models(torch, Model(), mapping, inputs)
    assert torch.allclose(plain(*inputs), reference(*inputs), atol=0.04)
    assert sum("per_channel" in str(node.target) for node in plain.graph.nodes) == 2


def test_scales_in_double_precision_do_not_widen_results(torch) -> None:
    import_module(torch.__name__ + ".ao.quantization.fx._decomposed")
    decomposed = torch.ops.quantized_decomposed
    x = torch.randn(5, 10)
    scale, zero = decomposed.choose_qparams.tensor(x, 0, 255, 1e-7, torch.uint8)
    codes = decomposed.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
    y = decomposed.dequantize_per_tensor.tensor(codes, scale, zero, 0, 255, torch.uint8)
    assert y.dtype is torch.float32
    assert torch.allclose(x, y, atol=0.05)
