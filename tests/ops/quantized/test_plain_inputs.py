"""Operators of quantized tensors that are called with plain ones, as without a QuantStub."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

CALLS: dict[str, Callable] = {
    "linear": lambda torch: torch.ao.nn.quantized.Linear(4, 2),
    "conv2d.new": lambda torch: torch.ao.nn.quantized.Conv2d(1, 1, 1),
    "conv1d": lambda torch: torch.ao.nn.quantized.Conv1d(2, 1, 1),
    "conv_transpose2d": lambda torch: torch.ao.nn.quantized.ConvTranspose2d(1, 1, 1),
    "batch_norm2d": lambda torch: torch.ao.nn.quantized.BatchNorm2d(2),
    "hardswish": lambda torch: torch.ao.nn.quantized.Hardswish(0.1, 0),
    "leaky_relu": lambda torch: torch.ao.nn.quantized.LeakyReLU(0.1, 0),
    "sigmoid": lambda torch: torch.ao.nn.quantized.Sigmoid(0.1, 0),
    "relu6": lambda torch: torch.ao.nn.quantized.ReLU6(),
    "add": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().add(x, x),
    "add_relu": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().add_relu(x, x),
    "add_scalar": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().add_scalar(x, 1.0),
    "mul": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().mul(x, x),
    "mul_scalar": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().mul_scalar(x, 1.0),
    "cat": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().cat([x, x]),
    "matmul": lambda torch: lambda x: torch.ao.nn.quantized.QFunctional().matmul(x, x),
    "clamp": lambda torch: lambda x: torch.ops.quantized.clamp(x, 0.0, 1.0),
    "threshold": lambda torch: lambda x: torch.ops.quantized.threshold(x, 0.0, 1.0),
    "linear_relu": lambda torch: torch.ao.nn.intrinsic.quantized.LinearReLU(4, 2),
}

_SHAPES = {"conv2d.new": (1, 1, 2, 2), "conv1d": (1, 2, 4), "conv_transpose2d": (1, 1, 2, 2),
           "batch_norm2d": (1, 2, 2, 2), "matmul": (2, 2)}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("library", ["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def test_the_operator_and_the_backend_are_named(name: str, library: str) -> None:
    torch = pytest.importorskip(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = CALLS[name](torch)
    with pytest.raises(NotImplementedError, match=f"Could not run 'quantized::{name}' with "
                                                  "arguments from the 'CPU' backend"):
        layer(torch.ones(_SHAPES.get(name, (2, 4))))
