"""Sparse tensors on the meta device are refused: not created on the CPU instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

INDICES = torch.zeros(2, 1, dtype=torch.int64)
REFUSED: dict[str, Callable[[], Any]] = {
    "to_sparse": lambda: torch.zeros(2, 2, device="meta").to_sparse(),
    "to_sparse with axes": lambda: torch.zeros(2, 2, device="meta").to_sparse(1),
    "to_sparse_csr": lambda: torch.zeros(2, 2, device="meta").to_sparse_csr(),
    "to": lambda: torch.eye(2).to_sparse().to("meta"),
    "coo": lambda: torch.sparse_coo_tensor(INDICES, [1.0], (2, 2), device="meta"),
    "csr": lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), device="meta"),
    "empty": lambda: torch.empty(2, 2, layout=torch.sparse_coo, device="meta"),
    "zeros_like": lambda: torch.zeros_like(torch.eye(2).to_sparse(), device="meta"),
    "empty_like": lambda: torch.empty_like(torch.eye(2).to_sparse_csr(), device="meta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_meta_device_is_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match="sparse tensors on the meta device"):
        REFUSED[name]()


def test_likes_stay_on_their_device() -> None:
    x = torch.eye(2).to_sparse()
    with torch.device("meta"):
        assert torch.zeros_like(x).device.type == "cpu"
