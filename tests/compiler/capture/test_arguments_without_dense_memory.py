"""Arguments that hold no dense array (sparse, quantized, nested, lazily conjugated): calls with
them run eagerly, and calls with dense tensors have a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

ARGUMENTS: dict[str, Callable[[], Any]] = {
    "coo": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(4)],
                                                 layout=torch.jagged),
    "conjugate": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
}


def _read(x: Any) -> Any:
    if x.is_quantized:
        return x.dequantize()
    y = x * 2
    return y.values() if x.is_nested else y.to_dense() if x.layout != torch.strided else y


@pytest.mark.filterwarnings("ignore:flambeau.compile")
@pytest.mark.parametrize("mode", ["now", "default"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_calls_run_eagerly(name: str, mode: str) -> None:
    x = ARGUMENTS[name]()
    fast = torch.compile(_read, mode=mode)
    for _ in range(5):
        assert torch.equal(fast(x), _read(x))
    for _ in range(5):
        assert fast(torch.ones(3)).tolist() == [2.0] * 3
