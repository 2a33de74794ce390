"""torch.quantization and torch.nn's quantized packages: older names of what is in torch.ao."""

from __future__ import annotations

import importlib

import pytest

import flambeau

MODULES = {
    "quantization.quantize": ("convert", "prepare_qat", "quantize_dynamic", "swap_module"),
    "quantization.fuse_modules": ("fuse_modules",),
    "quantization.observer": ("MinMaxObserver", "_PartialWrapper"),
    "quantization.quantize_fx": ("prepare_fx", "convert_fx"),
    "nn.quantized.modules.linear": ("Linear",),
    "nn.quantized.dynamic.modules": ("LSTM",),
    "nn.intrinsic.modules.fused": ("ConvReLU2d", "LinearReLU"),
    "nn.qat.modules": ("Linear",),
    "nn.quantizable.modules": ("LSTM",),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_objects_of_their_new_names(name: str) -> None:
    old = importlib.import_module(f"flambeau.{name}")
    new = importlib.import_module(f"flambeau.ao.{name}")
    for attribute in MODULES[name]:
        assert getattr(old, attribute) is getattr(new, attribute)


def test_functions_stay_where_modules_have_their_names() -> None:
    importlib.import_module("flambeau.quantization.quantize")
    importlib.import_module("flambeau.quantization.fuse_modules")
    assert flambeau.quantization.quantize is flambeau.ao.quantization.quantize
    assert flambeau.quantization.fuse_modules is flambeau.ao.quantization.fuse_modules


@pytest.mark.parametrize("name", ["quantization.nothing", "nn.quantized.nothing"])
def test_modules_that_the_new_package_lacks_are_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module(f"flambeau.{name}")


def test_names_that_the_new_module_lacks_raise() -> None:
    module = importlib.import_module("flambeau.nn.quantized.modules.linear")
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018
