"""Resizing COO tensors that store values: what is kept, and what PyTorch refuses."""

import pytest

import flambeau

CASES = [
    ((2, 2, 3), 1, 2), ((4, 2, 3), 1, 2), ((2, 2, 4), 1, 2), ((3, 3, 3), 1, 2), ((2, 2, 2), 1, 2),
    ((1, 2, 3), 1, 2), ((2, 2, 3, 4), 1, 3), ((1, 2, 2, 3), 2, 2),
]


def resize(lib, method, size, sparse_dim, dense_dim):
    x = lib.sparse_coo_tensor([[1]], lib.arange(6.0).reshape(1, 2, 3), (2, 2, 3))
    try:
        if method == "resize_as_":
            x.resize_as_(lib.zeros(size).to_sparse(sparse_dim))
        else:
            getattr(x, method)(size, sparse_dim, dense_dim)
    except RuntimeError as error:
        return str(error)
    values = x._values().flatten()[:6].tolist()  # PyTorch leaves new ones uninitialized
    return tuple(x.shape), x.sparse_dim(), x.dense_dim(), x._indices().tolist(), values


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("method", ["sparse_resize_", "resize_as_"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_resize_of_stored_values(method, case):
    torch = pytest.importorskip("torch")
    assert resize(flambeau, method, *case) == resize(torch, method, *case)


def test_values_keep_their_order_in_memory():
    x = flambeau.sparse_coo_tensor([[1]], flambeau.arange(6.0).reshape(1, 2, 3), (2, 2, 3))
    x.sparse_resize_((2, 2, 4), 1, 2)
    assert x._values().tolist() == [[[0, 1, 2, 3], [4, 5, 0, 0]]]
    with pytest.raises(RuntimeError, match=r"shrinking the size of dense .*\[2, 4\] to \[2, 3\]"):
        x.sparse_resize_((2, 2, 3), 1, 2)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_two_values_are_coalesced(count):
    torch = pytest.importorskip("torch")
    x, y = (lib.sparse_coo_tensor(lib.zeros(1, count).long(), lib.ones(count, 2), (3, 2))
            for lib in (flambeau, torch))
    assert x.is_coalesced() is y.is_coalesced() is (count < 2)
