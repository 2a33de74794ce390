"""Dtypes of joined tensors, and copies of what has no view."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["cat", "hstack", "concat"])
@pytest.mark.parametrize(("first", "second", "joined"), [
    ("float16", "int32", "float16"), ("bfloat16", "float16", "float32"),
    ("uint8", "int8", "int16"),
])
def test_dtype_of_joined_empty_tensors(torch, name, first, second, joined):
    pair = [torch.zeros(0, dtype=getattr(torch, kind)) for kind in (first, second)]
    assert getattr(torch, name)(pair).dtype == getattr(torch, joined)


def test_scalar_blocks_do_not_widen_the_matrix(torch):
    scalar = torch.tensor(1.0, dtype=torch.float64)
    assert torch.block_diag(scalar, torch.ones(2)).dtype == torch.float32


def test_view_copy_of_a_permuted_tensor(torch):
    x = torch.arange(6).reshape(2, 3).t()
    assert torch.view_copy(x, (-1,)).tolist() == [0, 3, 1, 4, 2, 5]


def test_adjoint_of_a_scalar(torch):
    assert torch.tensor(1 + 2j).adjoint().item() == 1 - 2j
