"""Operators of quantized tensors that are called with plain ones, as without a QuantStub."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

CALLS: dict[str, Callable] = {
    "linear": lambda torch: torch.ao.nn.quantized.Linear(4, 2),
    "linear_relu": lambda torch: torch.ao.nn.intrinsic.quantized.LinearReLU(4, 2),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("library", ["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def test_the_operator_and_the_backend_are_named(name: str, library: str) -> None:
    torch = pytest.importorskip(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = CALLS[name](torch)
    with pytest.raises(NotImplementedError, match=f"Could not run 'quantized::{name}' with "
                                                  "arguments from the 'CPU' backend"):
        layer(torch.ones(2, 4))
