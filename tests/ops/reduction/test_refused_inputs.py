"""Reductions of inputs that have no order, no freedom or no such axis."""

from __future__ import annotations

import warnings

import pytest

ORDERED = {
    "max_all": lambda torch, x: torch.max(x), "min_all": lambda torch, x: torch.min(x),
    "max_values_cpu": lambda torch, x: torch.amax(x, 0),
    "min_values_cpu": lambda torch, x: torch.amin(x, 0),
    "aminmax_cpu": lambda torch, x: torch.aminmax(x, dim=0),
    "cummax_cpu": lambda torch, x: torch.cummax(x, 0),
    "median_cpu": lambda torch, x: torch.median(x),
    "median_out": lambda torch, x: torch.nanmedian(x, 0),
    "mode_cpu": lambda torch, x: torch.mode(x), "unique": lambda torch, x: torch.unique(x),
    "unique_dim": lambda torch, x: torch.unique_consecutive(x[None], dim=0),
}


@pytest.mark.parametrize("kernel", ORDERED)
def test_complex_numbers_have_no_order(torch, kernel):
    x = torch.tensor([1 + 1j, 2 - 1j])
    with pytest.raises(NotImplementedError,
                       match=f"\"{kernel}\" not implemented for 'ComplexFloat'"):
        ORDERED[kernel](torch, x)


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
def test_single_values_have_no_variance(torch, name):
    compute = getattr(torch, name)
    for x, options in ((torch.ones(1), {}), (torch.ones(3), {"correction": 3}),
                       (torch.ones(0), {}), (torch.ones(2, 1), {"dim": 1})):
        with pytest.warns(UserWarning, match=rf"{name}\(\): degrees of freedom is <= 0"):
            compute(x, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compute(torch.ones(1), correction=0)
        compute(torch.ones(2, 3), 0)


def test_an_axis_of_unique_must_be_named(torch):
    with pytest.raises(TypeError, match=r"_unique2\(\): argument 'sorted' must be bool, not int"):
        torch.unique(torch.ones(2, 2), 0)
    with pytest.raises(TypeError, match="'return_inverse' must be bool, not int"):
        torch.unique_consecutive(torch.ones(2, 2), 1)


def test_products_of_numbers_check_the_axis(torch):
    assert torch.prod(torch.tensor(2.0), -1).item() == 2
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.prod(torch.tensor(2.0), 5)


@pytest.mark.parametrize("values", [[1.0, 0.3], [True, False], [[1.0, -0.3]], []])
def test_only_integers_are_counted(torch, values):
    with pytest.raises(NotImplementedError, match='"bincount_cpu" not implemented for'):
        torch.bincount(torch.tensor(values))


def test_edges_of_another_dtype_are_refused_before_their_shape(torch):
    with pytest.raises(RuntimeError, match="bins tensors should have the same dtype"):
        torch.histogram(torch.tensor(1.0), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize(("name", "message"), [
    ("mode", "expected scalar type 'Long' but got 'Char' for indices output"),
    ("median", "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
               "torch.CharTensor instead"),
])
def test_indices_are_written_to_int64(torch, name, message):
    out = torch.ones(1, dtype=torch.uint8), torch.ones(1, dtype=torch.int8)
    with pytest.raises(RuntimeError, match=message):
        getattr(torch, name)(torch.ones(3, dtype=torch.uint8), 0, True, out=out)
