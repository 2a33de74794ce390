"""The numeric suite on graphs: weights, activations, shadows, and layers in several forms."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest


def load(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.ao.{name}")


def build(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU()), nn.Flatten(),
                         nn.Linear(27, 4)).eval()


def quantize(torch: Any, model: Any, *x: Any) -> tuple[Any, Any]:
    fx = load(torch, "quantization.quantize_fx")
    mapping = load(torch, "quantization").get_default_qconfig_mapping("fbgemm")
    prepared = fx.prepare_fx(model, mapping, x)
    prepared(*x)
    return prepared, fx.convert_fx(copy.deepcopy(prepared))


def test_weights_have_paths_and_errors(torch: Any) -> None:
    suite, x = load(torch, "ns._numeric_suite_fx"), torch.rand(2, 1, 4, 4)
    prepared, quantized = quantize(torch, build(torch), x)
    results = suite.extract_weights("a", prepared, "b", quantized)
    assert [(name, layer["weight"]["b"][0]["fqn"]) for name, layer in results.items()] == [
        ("_0_0", "0.0"), ("_2", "2")]
    errors = load(torch, "ns.fx.utils")
    for name in ("sqnr", "normalized_l2_error", "cosine_similarity"):
        suite.extend_logger_results_with_comparison(
            results, "a", "b", getattr(errors, f"compute_{name}"), name)
    for layer in results.values():
        [result] = layer["weight"]["b"]
        assert result["sqnr"][0] > 30
        assert result["normalized_l2_error"][0] < 0.03
        assert result["cosine_similarity"][0] > 0.999
    with pytest.raises(AssertionError, match="c not found in results"):
        suite.extend_logger_results_with_comparison(results, "a", "c", errors.compute_sqnr, "x")


@pytest.mark.parametrize("should_log_inputs", [False, True])
def test_loggers_record_corresponding_layers(torch: Any, should_log_inputs: bool) -> None:
    suite, x = load(torch, "ns._numeric_suite_fx"), torch.rand(2, 1, 4, 4)
    prepared, quantized = quantize(torch, build(torch), x)
    a, b = suite.add_loggers("a", prepared, "b", quantized, suite.OutputLogger,
                             should_log_inputs=should_log_inputs)
    assert torch.allclose(a(x), b(x), atol=0.05)
    results = suite.extract_logger_info(a, b, suite.OutputLogger, "b")
    assert [*results] == ["_0_0", "_2"]
    for layer in results.values():
        assert set(layer) == {"node_output", *(["node_input"] if should_log_inputs else [])}
        for by_model in layer.values():
            [first], [second] = by_model["a"][0]["values"], by_model["b"][0]["values"]
            second = second.dequantize() if second.is_quantized else second
            assert torch.allclose(first, second, atol=0.05)


@pytest.mark.parametrize("should_log_inputs", [False, True])
def test_shadows_take_the_other_models_inputs(torch: Any, should_log_inputs: bool) -> None:
    suite, x = load(torch, "ns._numeric_suite_fx"), torch.rand(2, 1, 4, 4)
    prepared, quantized = quantize(torch, build(torch), x)
    for a, b in ((copy.deepcopy(prepared), copy.deepcopy(quantized)), (quantized, prepared)):
        expected = b(x)
        model = suite.add_shadow_loggers("a", a, "b", b, suite.OutputLogger,
                                         should_log_inputs=should_log_inputs)
        assert torch.equal(model(x), expected)
        results = suite.extract_shadow_logger_info(model, suite.OutputLogger, "b")
        assert len(results) == 2
        for layer in results.values():
            [first], [second] = (layer["node_output"][m][0]["values"] for m in "ab")
            first, second = (y.dequantize() if y.is_quantized else y for y in (first, second))
            assert torch.allclose(first, second, atol=0.05)


def test_models_that_do_not_correspond_are_refused(torch: Any) -> None:
    matcher, nn = load(torch, "ns.fx.graph_matcher"), torch.nn
    single, double, other = (torch.fx.symbolic_trace(nn.Sequential(*layers)) for layers in (
        [nn.Linear(2, 2)], [nn.Linear(2, 2), nn.Linear(2, 2)], [nn.Conv1d(2, 2, 1)]))
    with pytest.raises(matcher.GraphMatchingException, match="one of which is empty"):
        matcher.get_matching_subgraph_pairs(single, double)
    with pytest.raises(matcher.GraphMatchingException, match="are not related"):
        matcher.get_matching_subgraph_pairs(single, other)


def test_operators_of_ones_own_are_related(torch: Any) -> None:
    mappings = load(torch, "ns.fx.mappings")
    sets, conv = mappings.get_base_name_to_sets_of_related_ops(), torch.nn.Conv2d
    name = mappings.get_base_name_for_op(sets, conv)
    assert {torch.ao.nn.intrinsic.qat.ConvBnReLU2d, torch.ao.nn.quantized.Conv2d} <= sets[name]
    assert torch.nn.Conv1d not in sets[name]
    mappings.add_op_to_sets_of_related_ops(sets, "mine", conv)
    assert "mine" in sets[name]
    mappings.add_op_to_sets_of_related_ops(sets, "new", None)
    assert sets[mappings.get_base_name_for_op(sets, "new")] == {"new"}
    assert mappings.get_base_name_for_op(sets, "none") is None
    with pytest.raises(AssertionError, match="none was not found"):
        mappings.add_op_to_sets_of_related_ops(sets, "mine", "none")


def test_layers_run_under_several_qconfigs(torch: Any, capsys: Any) -> None:
    suite, q = load(torch, "ns._numeric_suite_fx"), load(torch, "quantization")
    mapping = load(torch, "ns.fx.qconfig_multi_mapping").QConfigMultiMapping().set_global(
        [q.default_qconfig, q.default_dynamic_qconfig]).set_module_name("2", [q.default_qconfig])
    model, x = build(torch), torch.rand(2, 1, 4, 4)
    expected = model(x)
    config = load(torch, "quantization.backend_config").get_native_backend_config()
    prepared = suite.prepare_n_shadows_model(model, (x,), mapping, config)
    prepared(x)
    converted = suite.convert_n_shadows_model(prepared)
    suite.loggers_set_enabled(converted, True)
    suite.loggers_set_save_activations(converted, False)
    assert torch.equal(converted(x), expected)
    outputs = suite.extract_results_n_shadows_model(converted)["model"]["node_output"]
    assert set(outputs) == {"subgraph_0_0", "subgraph_0_1", "subgraph_0_2", "subgraph_1_0",
                            "subgraph_1_1"}
    for name, (result,) in outputs.items():
        assert result["values"] == []
        if not name.endswith("_0"):
            assert result["comparison_fn_name"] == "sqnr"
            assert result["comparisons"][0] > 20


def test_a_second_path_is_the_quantized_model(torch: Any) -> None:
    suite, q = load(torch, "ns._numeric_suite_fx"), load(torch, "quantization")
    mapping = q.get_default_qconfig_mapping("fbgemm").set_module_name("0", None)
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)), torch.rand(5, 3)
    fx = load(torch, "quantization.quantize_fx")
    prepared = fx.prepare_fx(copy.deepcopy(model).eval(), mapping, (x,))
    prepared(x)
    expected = fx.convert_fx(prepared)(x)
    config = load(torch, "quantization.backend_config").get_native_backend_config()
    both = suite._prepare_n_shadows_add_loggers_model(model.eval(), (x,), mapping, config)
    both(x)
    both = suite.convert_n_shadows_model(both)
    suite.loggers_set_enabled(both, True)
    assert torch.allclose(both(x), model(x))
    outputs = suite.extract_results_n_shadows_model(both)["model"]["node_output"]
    assert torch.equal(outputs["subgraph_1_1"][0]["values"][-1], expected)


def test_weights_of_functions_are_compared(torch: Any) -> None:
    class Functional(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(4, 3))

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.linear(x, self.w)

    suite, q = load(torch, "ns._numeric_suite_fx"), load(torch, "quantization")
    config = load(torch, "quantization.backend_config").get_native_backend_config()
    weights = suite._n_shadows_compare_weights(
        Functional().eval(), (torch.rand(2, 3),), q.get_default_qconfig_mapping("fbgemm"), config)
    by_form = weights["model"]["weight"]
    assert set(by_form) == {"subgraph_0_0", "subgraph_0_1"}
    assert by_form["subgraph_0_1"][0]["values"][0].is_quantized
    assert by_form["subgraph_0_1"][0]["comparisons"][0] > 30


def test_one_mapping_hides_another_of_lower_priority(torch: Any) -> None:
    q = load(torch, "quantization")
    multi = load(torch, "ns.fx.qconfig_multi_mapping").QConfigMultiMapping
    mapping = multi().set_object_type(torch.nn.Linear, [q.default_qconfig, q.default_qconfig])
    assert len(mapping.qconfig_mappings_list) == 1
    mapping.set_global([q.default_qconfig, q.default_dynamic_qconfig])
    assert [m.object_type_qconfigs[torch.nn.Linear] for m in mapping.qconfig_mappings_list] == [
        q.default_qconfig, None]
    again = multi.from_list_qconfig_mapping(mapping.qconfig_mappings_list)
    assert repr(again) == repr(mapping)


def test_quantized_models_are_traced_again(torch: Any) -> None:
    class Functional(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(4, 3, 1))

        def forward(self, x: Any) -> Any:
            y = torch.nn.functional.conv1d(x, self.w, None, 1, 0, 1, 1)
            return torch.nn.functional.relu(y) + y

    x = torch.rand(2, 3, 5)
    _, quantized = quantize(torch, Functional().eval(), x)
    again = torch.fx.symbolic_trace(quantized)
    targets = [str(n.target) for n in again.graph.nodes if n.op == "call_function"]
    assert any("conv1d" in target for target in targets)
    assert torch.equal(again(x), quantized(x))


def test_what_follows_a_call_by_keywords_is_quantized(torch: Any) -> None:
    class Joined(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(torch.nn.functional.rrelu(torch.cat(tensors=[x, x])))

    _, quantized = quantize(torch, Joined().eval(), torch.rand(2, 3))
    assert isinstance(quantized.linear, torch.ao.nn.quantized.Linear)
