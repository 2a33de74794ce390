"""Operators in files: every public one, under the name that PyTorch has for it."""

from __future__ import annotations

import io
from types import FunctionType
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

NAMESPACES = (torch, F, torch.linalg, torch.special, torch.fft)


def again(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda namespace: namespace.__name__)
def test_every_operator_comes_back(namespace: Any) -> None:
    functions = {name: value for name, value in vars(namespace).items()
             if isinstance(value, FunctionType) and not name.startswith("_")}
    assert len(functions) > 15
    loaded = again(functions)
    assert [name for name in functions if loaded[name] is not functions[name]] == []


@pytest.mark.parametrize("net", [
    nn.TransformerEncoderLayer(8, 2), nn.TransformerDecoderLayer(8, 2, activation="gelu"),
    nn.TransformerEncoderLayer(8, 2, activation=torch.tanh),
], ids=["relu", "gelu", "tanh"])
def test_modules_that_hold_functions(net: Any) -> None:
    assert again(net).activation is net.activation


@pytest.mark.parametrize(("name", "function"), [
    ("torch._C._nn gelu", F.gelu), ("torch._C._linalg linalg_det", torch.linalg.det),
    ("torch._C._fft fft_rfft", torch.fft.rfft), ("torch.nn.functional relu", F.relu),
    ("torch._C._special special_erf", torch.special.erf),
])
def test_names_in_the_files_of_pytorch(name: str, function: Any) -> None:
    from flambeau.serialization.names import resolve

    assert resolve(*name.split()) is function
