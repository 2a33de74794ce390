"""NumPy's names of axes, which PyTorch's functions take besides their own."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["median", "nanmedian", "aminmax", "sum", "amax", "var", "all"])
def test_axis_and_keepdims(torch, name):
    x = torch.arange(6.0).reshape(2, 3)
    function = getattr(torch, name)
    result = function(x, axis=1, keepdims=True)
    first = result if torch.is_tensor(result) else result[0]
    assert first.shape == (2, 1)
    wanted = function(x, dim=1, keepdim=True)
    assert torch.equal(first, wanted if torch.is_tensor(wanted) else wanted[0])


def test_quantiles(torch):
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.quantile(x, 0.5, axis=1, keepdims=True).tolist() == [[1], [4]]
    assert x.nanquantile(0.5, axis=0).tolist() == [1.5, 2.5, 3.5]


def test_differences(torch):
    assert torch.diff(torch.tensor([[1, 4, 9]]), axis=1).tolist() == [[3, 5]]
    with pytest.raises(TypeError):
        torch.diff(torch.tensor([1, 4, 9]), axes=0)
