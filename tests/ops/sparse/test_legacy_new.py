"""`new` of a sparse tensor: the constructor from before `sparse_coo_tensor`."""

from __future__ import annotations

import pytest

import flambeau as torch

INDICES, VALUES = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])


@pytest.fixture
def s() -> torch.Tensor:
    return torch.sparse_coo_tensor(INDICES, VALUES, (2, 3))


def test_indices_and_values(s: torch.Tensor) -> None:
    assert torch.equal(s.new(INDICES, VALUES).to_dense(), s.to_dense())
    assert s.new(INDICES, VALUES, (4, 5)).shape == (4, 5)
    assert s.new(INDICES, VALUES.double()).dtype is torch.float64


def test_sizes(s: torch.Tensor) -> None:
    for x, shape in ((s.new(), (0,)), (s.new(2, 3), (2, 3)), (s.new(torch.Size([4])), (4,))):
        assert (x.layout, x.shape, x._nnz()) == (torch.sparse_coo, shape, 0)


def test_refusals(s: torch.Tensor) -> None:
    with pytest.raises(TypeError, match=r"SparseTensor.new\(sequence\) only accepts sizes"):
        s.new([6])
    for value in (VALUES, VALUES.untyped_storage()):
        with pytest.raises(TypeError, match=r"new\(\) received an invalid combination"):
            s.new(value)
    with pytest.raises(RuntimeError, match="legacy constructor expects device type: cpu"):
        s.new(device="cuda")
