"""The eager numeric suite: float and quantized models compared; bias correction."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest


def load(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.ao.{name}")


def quantize(torch: Any, model: Any, x: Any) -> Any:
    """Return the float model, between stubs, and its quantized copy."""
    q = load(torch, "quantization")
    wrapped = q.QuantWrapper(model).eval()
    wrapped.qconfig = q.default_qconfig
    return wrapped, q.quantize(wrapped, lambda m, x: m(x), [x])


def build(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4))


def test_weights_are_paired_by_path(torch: Any) -> None:
    suite = load(torch, "ns._numeric_suite")
    a, b = quantize(torch, build(torch), torch.rand(2, 1, 4, 4))
    pairs = suite.compare_weights(a.state_dict(), b.state_dict())
    assert set(pairs) == {"module.0.weight", "module.3._packed_params._packed_params"}
    for pair in pairs.values():
        assert torch.allclose(pair["float"], pair["quantized"].dequantize(), atol=0.02)


def test_an_lstms_hidden_weights_are_paired(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.LSTM(3, 5))
    q_model = load(torch, "quantization").quantize_dynamic(model)
    pairs = load(torch, "ns._numeric_suite").compare_weights(
        model.state_dict(), q_model.state_dict())
    assert [*pairs] == ["0._all_weight_values.0.param"]
    [pair] = pairs.values()
    assert pair["float"] is model.state_dict()["0.weight_hh_l0"] or torch.equal(
        pair["float"], model[0].weight_hh_l0)
    assert torch.allclose(pair["float"], pair["quantized"].dequantize(), atol=0.02)


def test_shadows_compute_from_the_same_inputs(torch: Any) -> None:
    suite, x = load(torch, "ns._numeric_suite"), torch.rand(2, 1, 4, 4)
    a, b = quantize(torch, build(torch), x)
    stats = suite.compare_model_stub(a, b, {torch.nn.Conv2d, torch.nn.Linear}, x)
    assert set(stats) == {"module.0.stats", "module.3.stats"}
    assert isinstance(b.module[3], suite.Shadow)
    for outputs in stats.values():
        quantized, float_ = outputs["quantized"][0].dequantize(), outputs["float"][0]
        assert quantized.shape == float_.shape  # the first row of the batch
        assert torch.allclose(quantized, float_, atol=0.03)


def test_functional_modules_have_shadows_and_loggers(torch: Any) -> None:
    class Sums(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            for name in ("plus", "times", "join", "relu", "scale", "shift"):
                setattr(self, name, torch.ao.nn.quantized.FloatFunctional())

        def forward(self, x: Any) -> Any:
            y = self.join.cat([self.plus.add(x, x), self.times.mul(x, x)])
            y = self.shift.add_scalar(self.scale.mul_scalar(y, 0.5), -0.25)
            return self.relu.add_relu(y, y)

    suite, x = load(torch, "ns._numeric_suite"), torch.rand(2, 3)
    a, b = quantize(torch, Sums(), x)
    outputs = suite.compare_model_outputs(copy.deepcopy(a), copy.deepcopy(b), x)
    assert set(outputs) == {"quant.stats", *(f"module.{name}.stats" for name in (
        "plus", "times", "join", "relu"))}
    shadows = suite.compare_model_stub(a, b, {torch.ao.nn.quantized.FloatFunctional}, x)
    assert len(shadows) == 6
    for pair in shadows.values():
        assert torch.allclose(pair["quantized"][0].dequantize(), pair["float"][0], atol=0.03)


def test_outputs_are_paired_in_both_models(torch: Any) -> None:
    suite, x = load(torch, "ns._numeric_suite"), torch.rand(2, 1, 4, 4)
    a, b = quantize(torch, build(torch), x)
    pairs = suite.compare_model_outputs(a, b, x)
    assert set(pairs) == {"quant.stats", "module.0.stats", "module.3.stats"}
    for pair in pairs.values():
        assert torch.allclose(pair["float"][0], pair["quantized"][0].dequantize(), atol=0.05)


def test_bias_correction_restores_a_shifted_bias(torch: Any) -> None:
    correction, nn = load(torch, "quantization._correct_bias"), torch.nn
    batches = [(torch.rand(10, 3),) for _ in range(20)]
    a, b = quantize(torch, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)),
                    torch.cat([x for x, in batches]))
    bias = b.module[0].bias().detach().clone()
    b.module[0].set_weight_bias(b.module[0].weight(), bias + 0.25)
    correction.bias_correction(a, b, batches)
    corrected = correction.get_module(b, "module.0").orig_module.bias()
    assert torch.allclose(corrected, bias, atol=0.02)
    loggers = [m for m in b.modules() if isinstance(m, correction.MeanShadowLogger)]
    assert len(loggers) == 2
    assert all(logger.stats == {"float": None, "quantized": None} for logger in loggers)


def test_paths_split_into_parent_and_child(torch: Any) -> None:
    correction = load(torch, "quantization._correct_bias")
    assert correction.parent_child_names("a.b.c") == ("a.b", "c")
    assert correction.parent_child_names("a") == ("", "a")


def test_classes_have_counterparts(torch: Any) -> None:
    mappings = load(torch, "quantization.quantization_mappings")
    linear, quantized = torch.nn.Linear, torch.ao.nn.quantized
    assert mappings.get_static_quant_module_class(linear) is quantized.Linear
    assert mappings.get_static_quant_module_class(
        linear, is_reference=True) is quantized.reference.Linear
    assert mappings.get_dynamic_quant_module_class(linear) is quantized.dynamic.Linear
    assert mappings.get_dynamic_quant_module_class(torch.nn.ReLU, {torch.nn.ReLU: 1}) == 1
    with pytest.raises(AssertionError, match="ReLU'> does not have a corresponding quantized"):
        mappings.get_static_quant_module_class(torch.nn.ReLU)
    assert {linear, quantized.Linear, quantized.dynamic.LSTM} <= (
        mappings.get_default_compare_output_module_list())
