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


REFUSED = [
    ((2, 3), (), None, "input value can be a scalar only when boundaries tensor dimension is 1"),
    ((), (2,), None, "boundaries tensor should have positive dimension"),
    ((2, 3), (2, 2), [[0, 1], [0, 1]], "boundary and sorter must have the same size"),
    ((3,), (2,), [0.0, 1.0, 2.0], "sorter must be a tensor of long dtype but got dtype Float"),
    ((3,), (2,), [0, 1, 3], "sorter index out of range"),
    ((3,), (2,), [-1, 1, 2], "sorter index out of range"),
]


@pytest.mark.parametrize(("rows", "values", "sorter", "text"), REFUSED)
def test_searchsorted_refuses_what_does_not_belong_together(torch, rows, values, sorter, text):
    order = None if sorter is None else torch.tensor(sorter)
    with pytest.raises(RuntimeError, match=text):
        torch.searchsorted(torch.ones(rows), torch.ones(values), sorter=order)
