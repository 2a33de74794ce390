"""Cross-layer equalization, and fusing with functions of one's own."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest

import flambeau


def build_model(torch: Any) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Conv2d(4, 3, 2, bias=False), nn.ReLU(),
                         nn.Conv2d(3, 2, 1))


def load(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.ao.quantization.{name}")


def test_channels_get_equal_ranges_and_results_stay(torch: Any) -> None:
    equalization = load(torch, "_equalize")
    model, x = build_model(torch), torch.rand(2, 1, 4, 4)
    same = equalization.equalize(model, [["0", model[2], "4"]], inplace=False)
    assert torch.allclose(same(x), model(x), atol=1e-6)
    first, second, third = (same[i].weight for i in (0, 2, 4))
    for a, b in ((first, second), (second, third)):
        ranges = equalization.channel_range(a, 0), equalization.channel_range(b, 1)
        assert torch.allclose(*ranges, atol=1e-3)
    assert not torch.allclose(first, model[0].weight)


def test_wrong_pairs_are_refused(torch: Any) -> None:
    equalization, model = load(torch, "_equalize"), build_model(torch)
    with pytest.raises(ValueError, match="Group must have at least two modules"):
        equalization.equalize(model, [["0"]])
    with pytest.raises(TypeError, match="item must be a nn.Module or a string"):
        equalization.equalize(model, [[0, 1]])
    with pytest.raises(ValueError, match="module type not supported"):
        equalization.cross_layer_equalization(model[0], model[1])
    with pytest.raises(TypeError, match="Number of output channels"):
        equalization.cross_layer_equalization(model[0], model[4])
    with pytest.raises(ValueError, match="module is not in the model"):
        equalization.get_name_by_module(model, copy.deepcopy(model[0]))


def test_a_channel_of_one_weight_does_not_loop_for_ever() -> None:
    model = flambeau.nn.Sequential(flambeau.nn.Linear(1, 2), flambeau.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="range 0"):
        load(flambeau, "_equalize").equalize(model, [["0", "1"]])


def test_functions_of_ones_own_fuse(torch: Any) -> None:
    nn, fuse = torch.nn, load(torch, "fuse_modules").fuse_modules
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.ReLU()).eval()
    seen = []

    def fuse_tanh(is_qat: bool, linear: Any, tanh: Any) -> Any:
        seen.append(is_qat)
        return nn.Sequential(linear, tanh)

    mapping = {"additional_fuser_method_mapping": {(nn.Linear, nn.Tanh): fuse_tanh}}
    fused = fuse(model, ["0", "1"], fuse_custom_config_dict=mapping)
    assert seen == [False]
    assert [type(m) for m in fused] == [nn.Sequential, nn.Identity, nn.ReLU]
    assert [type(m) for m in fuse(model, ["0"], fuser_func=lambda *_: [nn.Identity()])] == [
        nn.Identity, nn.Tanh, nn.ReLU]
    with pytest.raises(AssertionError, match="did not find fuser method for"):
        fuse(model, ["0", "1"])
