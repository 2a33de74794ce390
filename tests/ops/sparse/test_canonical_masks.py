"""Masks of torch.masked in every layout, and reductions whose mask has another layout."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import masked

X = torch.arange(1.0, 7.0).reshape(2, 3)
MASK = torch.tensor([[True, False, True], [False, False, True]])


def as_layout(x: torch.Tensor, layout: str) -> torch.Tensor:
    return {"dense": x, "coo": x.to_sparse(), "csr": x.to_sparse_csr()}[layout]


@pytest.mark.parametrize("of_mask", ["dense", "coo", "csr"])
@pytest.mark.parametrize("of_input", ["coo", "csr"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
def test_a_reduction_has_the_layout_of_its_input(name, of_input, of_mask):
    x, mask = as_layout(X, of_input), as_layout(MASK, of_mask)
    result = getattr(masked, name)(x, 1, keepdim=True, mask=mask)
    assert result.layout is x.layout
    assert torch.equal(result.to_dense(), getattr(masked, name)(X, 1, keepdim=True, mask=MASK))


def test_mean_of_rows_that_are_compressed():
    result = masked.mean(X.to_sparse_csr(), 1, keepdim=True, mask=MASK.to_sparse_csr())
    assert result.layout is torch.sparse_csr
    assert torch.equal(result.to_dense(), torch.tensor([[2.0], [6.0]]))
    with pytest.raises(ValueError, match="expects explicit mask"):
        masked.mean(X.to_sparse_csr(), 1, keepdim=True)


@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
def test_input_mask(layout):
    x = as_layout(X, layout)
    for mask in (MASK, MASK.to_sparse(), MASK.int()):
        result = masked._input_mask(x, mask=mask)
        assert result.layout is x.layout and result.dtype is torch.bool
        assert torch.equal(result.to_dense() if layout != "dense" else result, MASK)
    with pytest.raises(IndexError, match="higher than of the input"):
        masked._input_mask(X[0], mask=MASK)


def test_output_mask():
    assert masked._output_mask(masked.sum, X, 0, mask=MASK).tolist() == [True, False, True]
    assert masked._output_mask(masked.norm, X, 2, 1, mask=MASK, keepdim=True).shape == (2, 1)
    assert torch.equal(masked._output_mask(masked.softmax, X, 0, mask=MASK), MASK)
    with pytest.raises(ValueError, match="expected masked operation"):
        masked._output_mask(torch.sin, X, mask=MASK)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_where(layout):
    x = X.clone()
    x[0, 0] = 0  # which the input does not store
    result = masked._where(as_layout(MASK, layout), as_layout(x, layout), torch.tensor(9.0))
    assert torch.equal(result.to_dense(), torch.where(MASK, x, 0.0))
    assert result._nnz() == 3


def test_reduction_identity():
    assert masked._reduction_identity("masked.amax", X).item() == float("-inf")
    assert masked._reduction_identity("prod", X.int()).item() == 1
    assert masked._reduction_identity("norm", X, float("-inf")).item() == float("inf")
    assert masked._reduction_identity("var", X) is None


def test_to_like_another_sparse_tensor():
    x, other = X.to_sparse_csr(), X.double().to_sparse_csr()
    assert x.to(other).dtype is torch.float64 and x.to(x) is x
