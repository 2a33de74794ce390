"""dtype= beside out=, hashes of numbers, and the warning of copies in searchsorted."""

import warnings

import pytest

NAMES = ["sum", "prod", "mean", "cumsum", "cumprod"]


@pytest.mark.parametrize("name", NAMES)
def test_an_output_of_another_dtype_than_the_requested_one_is_refused(torch, name):
    x, function = torch.ones(2, 3), getattr(torch, name)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got f"):
        function(x, 1, dtype=torch.float64, out=torch.empty(0))
    out = torch.empty(0, dtype=torch.float64)
    assert function(x, 1, dtype=torch.float64, out=out) is out
    assert function(x, 1, out=torch.empty(0, dtype=torch.float64)).dtype is torch.float64


def test_hashes_of_numbers_have_no_axis(torch):
    for keepdim in (False, True):
        assert torch.hash_tensor(torch.tensor(2.5), keepdim=keepdim).shape == ()


def test_searchsorted_warns_once_of_copies(torch):
    rows, values = torch.arange(6.0).reshape(2, 3), torch.ones(3, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = torch.searchsorted(rows, values.t().contiguous())
        assert not caught
        for _ in range(2):
            assert torch.searchsorted(rows, values.t()).equal(expected)
    texts = [str(w.message) for w in caught]
    assert len(texts) <= 1  # PyTorch's may have come before, in this process
    assert all("input value tensor is non-contiguous" in text for text in texts)
