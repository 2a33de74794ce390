"""Input-weight equalization in graph mode."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import pytest


def load(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.ao.quantization.{name}")


class Layers:
    """Builds two layers whose inputs' columns have very different ranges."""

    @staticmethod
    def modules(torch: Any, relu: bool = False) -> Any:
        nn = torch.nn
        return nn.Sequential(nn.Linear(3, 4), *[nn.ReLU()] * relu, nn.Linear(4, 2)).eval()

    @staticmethod
    def functions(torch: Any) -> Any:
        F = torch.nn.functional

        class Functional(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                for name, shape in {"w1": (4, 3), "bias1": (4,), "w2": (2, 4)}.items():
                    self.register_buffer(name, torch.randn(shape))

            def forward(self, x: Any) -> Any:
                return F.linear(F.relu(F.linear(x, self.w1, self.bias1)), self.w2)

        return Functional().eval()


def prepare(torch: Any, model: Any, x: Any) -> Any:
    q, eq = torch.ao.quantization, load(torch, "fx._equalize").default_equalization_qconfig
    nn, F = torch.nn, torch.nn.functional
    mapping = q.QConfigMapping().set_global(q.default_qconfig)
    equalization = q.QConfigMapping()
    for layer in (nn.Linear, nn.ReLU, F.linear, F.relu):
        equalization.set_object_type(layer, eq)
    prepared = load(torch, "quantize_fx").prepare_fx(model, mapping, (x,),
                                                     _equalization_config=equalization)
    prepared(x)
    return prepared


@pytest.mark.parametrize("build", [
    Layers.modules, lambda torch: Layers.modules(torch, relu=True), Layers.functions,
], ids=["modules", "fused", "functions"])
def test_equalized_layers_compute_the_same(torch: Any, build: Any) -> None:
    model, x = build(torch), torch.randn(50, 3) * torch.tensor([1., 10., 100.])
    expected = model(x)
    reference = load(torch, "fx._equalize")._convert_equalization_ref(
        prepare(torch, copy.deepcopy(model), x))
    assert torch.allclose(reference(x), expected, rtol=1e-4, atol=1e-4)
    products = [node for node in reference.graph.nodes if node.target is torch.mul]
    assert len(products) == 1  # the second layer's factors are in the first's rows


def test_quantized_layers_come_closer(torch: Any) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4)).eval()
    with torch.no_grad():
        model[0].weight.div_(torch.tensor([1., 10., 100.]))
    x = torch.randn(50, 3) * torch.tensor([1., 10., 100.])
    expected, fx = model(x), load(torch, "quantize_fx")
    equalized = fx.convert_fx(prepare(torch, copy.deepcopy(model), x))
    q = torch.ao.quantization
    plain = fx.prepare_fx(copy.deepcopy(model), q.QConfigMapping().set_global(q.default_qconfig),
                          (x,))
    plain(x)
    plain = fx.convert_fx(plain)
    assert (equalized(x) - expected).norm() < 0.5 * (plain(x) - expected).norm()


def test_layers_that_share_an_input_stay(torch: Any) -> None:
    class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.a(x) + self.b(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepared = prepare(torch, Branches().eval(), torch.randn(2, 3))
    texts = [str(w.message) for w in caught if "part of a branch" in str(w.message)]
    assert texts == ["Cannot equalize a because it is part of a branch.",
                     "Cannot equalize b because it is part of a branch."]
    assert not any("equalization" in node.name for node in prepared.graph.nodes)


def test_factors_are_roots_of_ranges_ratios(torch: Any) -> None:
    eq = load(torch, "fx._equalize")
    inputs, weights = eq._InputEqualizationObserver(), eq._WeightEqualizationObserver()
    with pytest.warns(UserWarning, match="Must run observer before calling calculate_equalization"):
        assert eq.calculate_equalization_scale(inputs, weights) == 1
    inputs(torch.tensor([[0., 1., 5.], [4., 2., 5.]]))
    weights(torch.tensor([[1., 3., 2.], [2., 7., 4.]]))
    scale = eq.calculate_equalization_scale(inputs, weights)
    assert torch.equal(scale, torch.tensor([0.5, 2., 1.]))  # the last column's range is 0
    inputs.set_equalization_scale(scale)
    assert [x.item() for x in inputs.calculate_scaled_minmax()] == [0, 5]
    with pytest.raises(ValueError, match="must have the same column dimension"):
        weights = eq._WeightEqualizationObserver()
        weights(torch.ones(2, 2))
        eq.calculate_equalization_scale(inputs, weights)
    with pytest.raises(ValueError, match="only supports Linear and Conv layers"):
        inputs(torch.ones(3))
    with pytest.raises(TypeError, match="Input qscheme must be per-tensor"):
        eq._InputEqualizationObserver(qscheme=torch.per_channel_affine)
    with pytest.raises(ValueError, match="received observer instance"):
        eq.EqualizationQConfig(inputs)


def test_the_worst_layers_are_chosen(torch: Any) -> None:
    eq, fx = load(torch, "fx._equalize"), load(torch, "quantize_fx")
    model, x, q = Layers.modules(torch), torch.rand(5, 3), torch.ao.quantization
    prepared = fx.prepare_fx(model, q.QConfigMapping().set_global(q.default_qconfig), (x,))
    prepared(x)
    layers = eq.get_layer_sqnr_dict(copy.deepcopy(prepared), fx.convert_fx(prepared), x)
    assert set(layers) == {"0", "1"}
    assert all(sqnr > 20 for sqnr in layers.values())
    worst = min(layers, key=layers.get)
    assert eq.get_equalization_qconfig_dict(layers, 1) == {
        "module_name": [(worst, eq.default_equalization_qconfig)]}
