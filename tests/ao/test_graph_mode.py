"""FX graph mode quantization: graphs, numbers and refusals, on flambeau and on PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def _quantize_fx(torch: Any) -> Any:
    import importlib

    return importlib.import_module(f"{torch.__name__}.ao.quantization.quantize_fx")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _residual(torch: Any) -> Any:
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.relu, self.second = nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)
            self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norm(self.first(x)))
            y = torch.nn.functional.relu(y + self.second(y))
            return self.head(torch.flatten(self.pool(y), 1))

    return Residual()


def _perceptron(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(),
                         nn.Linear(16, 4))


def _functions(torch: Any) -> Any:
    F = torch.nn.functional

    class Functions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 6))
            self.bias = torch.nn.Parameter(torch.randn(8))

        def forward(self, x: Any) -> Any:
            y = F.relu(F.linear(x, self.weight, self.bias))
            y = torch.cat([y, F.hardswish(y)], 1)
            return F.layer_norm(y * 2, [16])

    return Functions()


def _encoder(torch: Any) -> Any:
    nn = torch.nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
            self.norm, self.wide, self.narrow = nn.LayerNorm(16), nn.Linear(16, 32), \
                nn.Linear(32, 16)

        def forward(self, x: Any) -> Any:
            weights = torch.softmax(torch.matmul(self.q(x), self.k(x).transpose(-2, -1)), -1)
            y = self.norm(x + torch.matmul(weights, self.v(x)))
            return y + self.narrow(torch.nn.functional.gelu(self.wide(y)))

    return Encoder()


MODELS = {"perceptron": (_perceptron, (5, 6)), "residual": (_residual, (2, 3, 8, 8)),
          "functions": (_functions, (5, 6)), "encoder": (_encoder, (2, 7, 16))}
SUMS = {  # of the results, on PyTorch 2.13.0
    "perceptron": -1.2958612, "residual": 0.4590440, "functions": 0.2131290,
    "encoder": -11.2377963,
}


def _prepare(torch: Any, name: str) -> tuple[Any, Any]:
    build, shape = MODELS[name]
    torch.manual_seed(0)
    model = build(torch).eval()
    x = torch.randn(*shape)
    mapping = torch.ao.quantization.get_default_qconfig_mapping("fbgemm")
    prepared = _quantize_fx(torch).prepare_fx(model, mapping, (x,))
    with torch.no_grad():
        for _ in range(3):
            prepared(torch.randn(*shape))
    return prepared, x


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_integers_is_close_to_its_reference(torch: Any, name: str) -> None:
    import copy

    if torch.__name__ == "torch" and torch.backends.cpu.get_cpu_capability() == "AVX2":
        pytest.skip("PyTorch's sums of pairs saturate in 16 bits on AVX2 without VNNI")
    prepared, x = _prepare(torch, name)
    reference = _quantize_fx(torch).convert_to_reference_fx(copy.deepcopy(prepared))
    converted = _quantize_fx(torch).convert_fx(prepared)
    with torch.no_grad():
        expected, y = reference(x), converted(x)
    step = float(expected.abs().max()) / 16  # a few steps of the result's scale
    torch.testing.assert_close(y, expected, atol=step, rtol=0)
    assert float(y.sum()) == pytest.approx(SUMS[name], abs=1e-4)


def test_the_graph_has_operators_of_integers(torch: Any) -> None:
    prepared, _ = _prepare(torch, "residual")
    names = [node.name for node in _quantize_fx(torch).convert_fx(prepared).graph.nodes]
    assert names == [
        "x", "first_input_scale_0", "first_input_zero_point_0", "quantize_per_tensor", "first",
        "second", "_scale_0", "_zero_point_0", "add_relu", "pool", "flatten", "head",
        "dequantize_6", "output"]


def test_a_model_is_trained_with_rounded_weights(torch: Any) -> None:
    torch.manual_seed(0)
    model, x = _residual(torch).train(), torch.randn(4, 3, 8, 8)
    mapping = torch.ao.quantization.get_default_qat_qconfig_mapping("fbgemm")
    prepared = _quantize_fx(torch).prepare_qat_fx(model, mapping, (x,))
    optimizer, losses = torch.optim.SGD(prepared.parameters(), lr=0.1), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (prepared(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    converted = _quantize_fx(torch).convert_fx(prepared.eval())
    assert type(converted.first).__name__ == "ConvReLU2d"
    assert converted(x).shape == (4, 4)


def test_dynamic_layers_quantize_inputs_as_they_come(torch: Any) -> None:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = torch.nn.LSTM(6, 8), torch.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    torch.manual_seed(0)
    model, x = Tagger().eval(), torch.randn(4, 2, 6)
    mapping = torch.ao.quantization.QConfigMapping().set_global(
        torch.ao.quantization.default_dynamic_qconfig)
    expected = model(x)
    converted = _quantize_fx(torch).convert_fx(_quantize_fx(torch).prepare_fx(model, mapping, x))
    assert "dynamic" in type(converted.lstm).__module__
    torch.testing.assert_close(converted(x), expected, atol=0.02, rtol=0)


def test_a_mapping_goes_by_name_before_class(torch: Any) -> None:
    quantization = torch.ao.quantization
    mapping = quantization.QConfigMapping().set_global(quantization.default_qconfig) \
        .set_object_type(torch.nn.Linear, None).set_module_name("2", quantization.default_qconfig)
    x = torch.ones(1, 6)
    prepared = _quantize_fx(torch).prepare_fx(_perceptron(torch).eval(), mapping, (x,))
    prepared(x)
    converted = _quantize_fx(torch).convert_fx(prepared)
    homes = [type(getattr(converted, name)).__module__ for name in ("2", "4")]
    assert ["quantized" in home for home in homes] == [True, False]


def test_a_mapping_survives_a_dictionary(torch: Any) -> None:
    mapping = torch.ao.quantization.get_default_qconfig_mapping("fbgemm")
    mapping.set_module_name_object_type_order("a.b", torch.nn.Linear, 1, None)
    again = type(mapping).from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict()


def test_modules_of_the_users_own_stay(torch: Any) -> None:
    class Branching(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), Branching()).eval()
    custom = _custom_config(torch).PrepareCustomConfig().set_non_traceable_module_names(["1"])
    mapping, x = torch.ao.quantization.get_default_qconfig_mapping(), torch.ones(1, 3)
    prepared = _quantize_fx(torch).prepare_fx(model, mapping, (x,), custom)
    prepared(x)
    assert isinstance(getattr(_quantize_fx(torch).convert_fx(prepared), "1"), Branching)


def _custom_config(torch: Any) -> Any:
    import importlib

    return importlib.import_module(f"{torch.__name__}.ao.quantization.fx.custom_config")


def test_inputs_and_results_may_be_quantized_tensors(torch: Any) -> None:
    custom = _custom_config(torch).PrepareCustomConfig() \
        .set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    mapping, x = torch.ao.quantization.get_default_qconfig_mapping(), torch.ones(1, 3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2)).eval()
    prepared = _quantize_fx(torch).prepare_fx(model, mapping, (x,), custom)
    prepared(x)
    converted = _quantize_fx(torch).convert_fx(prepared)
    assert converted(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)).dtype is torch.quint8


def test_packed_weights_of_functions_are_state(torch: Any) -> None:
    prepared, x = _prepare(torch, "functions")
    converted = _quantize_fx(torch).convert_fx(prepared)
    assert "_packed_weight_0" in converted.state_dict()
    assert not list(converted.parameters())


def test_what_prepare_did_not_make_is_not_converted(torch: Any) -> None:
    convert_fx = _quantize_fx(torch).convert_fx
    with pytest.raises(ValueError, match="input model must be a GraphModule"):
        convert_fx(_perceptron(torch))


def test_parts_of_a_fused_module_need_one_qconfig(torch: Any) -> None:
    quantization = torch.ao.quantization
    mapping = quantization.QConfigMapping().set_object_type(
        torch.nn.Linear, quantization.default_qconfig).set_object_type(torch.nn.ReLU, None)
    with pytest.raises(LookupError, match="same qconfigs for all module types"):
        _quantize_fx(torch).prepare_fx(_perceptron(torch).eval(), mapping, (torch.ones(1, 6),))


def test_known_ranges_need_their_observer(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Sigmoid()).eval()
    mapping = torch.ao.quantization.QConfigMapping().set_global(
        torch.ao.quantization.default_qconfig)
    with pytest.warns(UserWarning, match="must specify a FixedQParamsObserver"):
        prepared = _quantize_fx(torch).prepare_fx(model, mapping, (torch.ones(1),))
    assert not hasattr(prepared, "activation_post_process_0")


def test_a_module_called_twice_computes_in_integers_twice(torch: Any) -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    mapping, x = torch.ao.quantization.get_default_qconfig_mapping(), torch.ones(1, 3)
    prepared = _quantize_fx(torch).prepare_fx(Twice().eval(), mapping, (x,))
    prepared(x)
    names = [node.name for node in _quantize_fx(torch).convert_fx(prepared).graph.nodes]
    assert sum("quantize_per_tensor" in name for name in names) == 1


def test_what_stands_for_any_value_is_fused_on_its_own(torch: Any) -> None:
    import importlib

    home = f"{torch.__name__}.ao.quantization"
    backend = importlib.import_module(f"{home}.backend_config")
    any_value = importlib.import_module(f"{home}.utils").MatchAllNode
    nn = torch.nn

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.relu, self.second = nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Conv2d(1, 1, 1)

        def forward(self, x: Any) -> Any:
            return torch.add(self.second(x), self.relu(self.first(x)))

    pair = backend.BackendPatternConfig((nn.Conv2d, nn.ReLU)).set_fuser_method(
        lambda is_qat, conv, relu: conv)
    total = backend.BackendPatternConfig()._set_pattern_complex_format(
        (torch.add, nn.Conv2d, any_value)).set_fuser_method(
        lambda is_qat, add, conv, _: conv)._set_root_node_getter(
        lambda bound: bound[1])._set_extra_inputs_getter(lambda bound: [bound[2]])
    config = backend.BackendConfig().set_backend_pattern_configs([pair, total])
    fused = _quantize_fx(torch).fuse_fx(Joined().eval(), backend_config=config)
    assert [n.name for n in fused.graph.nodes if n.op == "call_module"] == ["first", "second"]


def test_state_of_reference_modules_names_scheme_and_dtype(torch: Any) -> None:
    prepared, _ = _prepare(torch, "perceptron")
    reference = _quantize_fx(torch).convert_to_reference_fx(prepared)
    layer = getattr(reference, "4")
    state = reference.state_dict()
    assert state["4.weight_dtype"] is torch.qint8
    scale, layer.weight_scale = layer.weight_scale, None
    reference.load_state_dict(state)
    assert torch.equal(layer.weight_scale, scale)


def test_one_dnn_adds_within_the_convolution(torch: Any) -> None:
    import importlib

    backends = importlib.import_module(f"{torch.__name__}.ao.quantization.backend_config")
    nn = torch.nn

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.second = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), \
                nn.Conv2d(1, 1, 1)
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(torch.add(self.norm(self.first(x)), self.second(x)))

    fused = _quantize_fx(torch).fuse_fx(
        Joined().eval(), backend_config=backends.get_onednn_backend_config())
    kinds = [type(fused.get_submodule(n.target)).__name__ for n in fused.graph.nodes
             if n.op == "call_module"]
    assert kinds == ["Conv2d", "ConvAddReLU2d"]
