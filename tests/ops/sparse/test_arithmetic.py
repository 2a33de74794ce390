"""Sums and products of COO tensors of other sparse axes, and masked reductions to one value."""

from operator import add, mul, sub

import pytest

import flambeau


def describe(function):
    try:
        y = function()
    except RuntimeError as error:
        return str(error)
    return (tuple(y.shape), y.sparse_dim(), y.is_coalesced(), y._indices().tolist(),
            y._values().tolist())


def assert_same(function, *args):
    """What the function gives of each library is the same."""
    torch = pytest.importorskip("torch")
    assert describe(lambda: function(flambeau, *args)) == describe(lambda: function(torch, *args))


def coo(lib, *args):
    return lib.sparse_coo_tensor(*args, check_invariants=True)


def operands(lib):
    return {
        "rows": coo(lib, [[0, 1, 1]], lib.arange(1.0, 10).reshape(3, 3), (2, 3)),
        "wide": coo(lib, [[0, 1]], lib.tensor([[1.0], [2.0]]), (2, 1)),
        "points": lib.ones(2, 3).to_sparse(), "no points": lib.zeros(2, 3).to_sparse(),
        "no rows": lib.zeros(2, 3).to_sparse(1), "eye": lib.eye(2).to_sparse(),
        "two": coo(lib, lib.empty(0, 2, dtype=lib.int64), lib.tensor([1.0, 1.0]), ()),
        "one row": lib.ones(1, 3).to_sparse(), "empty": lib.ones(3, 0).to_sparse(1),
        "no elements": lib.zeros(3, 0, 2).to_sparse(2),
    }


PRODUCTS = [
    ("rows", (2, 2, 3)), ("rows", (3,)), ("rows", (2, 1)), ("rows", (1, 1, 1)), ("wide", (2, 3)),
    ("no rows", (2, 2, 3)), ("points", (2, 2, 3)), ("points", (0, 2, 3)),
    ("empty", (2, 3, 0)), ("empty", (0,)), ("no elements", (2, 3, 0, 2)), ("no elements", (0, 2)),
]


@pytest.mark.parity
@pytest.mark.parametrize(("name", "shape"), PRODUCTS)
def test_product_with_a_dense_tensor(name, shape):
    def factors(lib):
        count = lib.Size(shape).numel()
        return operands(lib)[name], lib.arange(float(count)).reshape(shape)

    assert_same(lambda lib: mul(*factors(lib)))
    assert_same(lambda lib: mul(*reversed(factors(lib))))


def test_sparse_axes_of_length_one_are_repeated():
    s = coo(flambeau, [[0, 0]], flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]), (1, 2))
    d = flambeau.arange(12.0).reshape(2, 3, 2)
    product = s * d
    assert product.sparse_dim() == 2
    assert product.to_dense().equal(s.to_dense() * d)
    interior = flambeau.ones(3, 1).to_sparse() * d
    assert interior.to_dense().equal(flambeau.ones(3, 1) * d)
    column = flambeau.tensor([[3.0], [4.0]]).to_sparse() * flambeau.arange(6.0).reshape(2, 3)
    assert column.is_coalesced()
    assert column._indices().tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    assert column._values().tolist() == [0, 3, 6, 12, 16, 20]


PAIRS = [(a, b) for a in ("rows", "points", "no points", "no rows")
         for b in ("rows", "points", "no points", "no rows")]


@pytest.mark.parity
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("function", [add, sub, lambda a, b: a.clone().add_(b)])
def test_sum_of_other_sparse_axes(first, second, function):
    assert_same(lambda lib: function(operands(lib)[first], operands(lib)[second]))


@pytest.mark.parity
@pytest.mark.parametrize(("first", "second"), [
    ("rows", "two"), ("two", "rows"), ("points", "two"), ("no points", "points"),
    ("points", "one row"), ("two", "two"),
    ("rows", "wide"), ("wide", "rows"),
])
def test_product_of_two_sparse_tensors(first, second):
    assert_same(lambda lib: operands(lib)[first] * operands(lib)[second])


def test_product_of_other_sparse_axes_is_refused():
    with pytest.raises(RuntimeError, match="number of sparse dimensions"):
        operands(flambeau)["rows"] * operands(flambeau)["points"]


@pytest.mark.parity
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("values", [[[0, 2], [3, 4]], [[-1, 1], [2, 5]]])
@pytest.mark.parametrize("mask", [[[1, 1], [1, 1]], [[1, 0], [0, 0]], [[0, 0], [0, 0]]])
def test_masked_reduction_over_all_axes(name, keepdim, dtype, values, mask):
    def reduce(lib):
        x = lib.tensor(values, dtype=getattr(lib, dtype)).to_sparse()
        mask_tensor = lib.tensor(mask, dtype=lib.bool)
        return getattr(lib.masked, name)(x, (), keepdim=keepdim, mask=mask_tensor)

    assert_same(reduce)
