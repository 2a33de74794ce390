"""torch.sparse.mm with reduce=: "min" and "max" mean "amin" and "amax", as torch_geometric calls
them."""

import pytest


@pytest.mark.parametrize("name, other", [("min", "amin"), ("max", "amax")])
def test_short_names_of_extremes(torch, name, other):
    a = torch.tensor([[1.0, 0.0, -2.0], [0.0, 3.0, 0.0]]).to_sparse_csr()
    b = torch.arange(6.0).reshape(3, 2)
    result = torch.sparse.mm(a, b, name)
    assert result.equal(torch.sparse.mm(a, b, other))
    assert result.tolist() == {"min": [[-8.0, -10.0], [6.0, 9.0]],
                               "max": [[0.0, 1.0], [6.0, 9.0]]}[name]
