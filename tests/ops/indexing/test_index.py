"""Indexing: lists as tuples of indices, dtypes of written values, gradients behind writes."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

X = torch.arange(12.0).view(3, 4)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ([[0, 1], [1, 0]], [1, 4]),
        ([slice(0, 2), 0], [0, 4]),
        ([torch.tensor([0, 0]), torch.tensor([0, 1])], [0, 1]),
        ([None, 0], [[0, 1, 2, 3]]),
        ([..., 0], [0, 4, 8]),
        ([0, 1], [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ([True, False, True], [[0, 1, 2, 3], [8, 9, 10, 11]]),
        ([range(2), range(2)], [0, 5]),
    ],
)
def test_a_list_that_holds_indices_is_a_tuple_of_them(index, expected):
    assert X[index].tolist() == expected
    y = X.clone()
    y[index] = -1
    assert (y[index] == -1).all()
    assert (y == -1).sum() == torch.tensor(expected).numel()


def test_errors_of_indices():
    with pytest.raises(IndexError, match="only integers, slices"):
        X[1.0]
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        X[2**63]


def test_written_values_must_have_the_dtype():
    x = torch.zeros(3)
    for value, name in ((torch.ones(2, dtype=torch.complex64), "ComplexFloat"),
                        (torch.ones(2, dtype=torch.int32), "Int")):
        with pytest.raises(RuntimeError, match="got Float for the destination and " + name):
            x[[0, 1]] = value
    x[torch.tensor([True, False, False])] = torch.tensor(2)  # one number where a mask holds
    assert x.tolist() == [2, 0, 0]


def test_backward_twice_through_a_written_index_is_refused():
    b = torch.randn(3, requires_grad=True)
    c = torch.zeros(3)
    c[[1, 2]] = b[[1, 1]]
    c.backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="second time"):
        c.backward(torch.ones(3))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[:1].zero_(), lambda y: y[:1].fill_(0.0), lambda y: y.__setitem__(0, 0.0),
        lambda y: y[:1].copy_(torch.zeros(1)), lambda y: y.masked_fill_(
            torch.tensor([True, False, False]), 0.0),
    ],
)
def test_no_gradient_comes_from_what_was_overwritten(write):
    """Not even nan, which is what 0 * inf would give."""
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    write(y)
    (1 / y).sum().backward()
    assert x.grad.tolist() == [0, -1, -1]


def test_gradients_have_the_dtype_of_what_they_belong_to():
    a = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    (a * 1).backward(torch.ones(3))
    assert a.grad.dtype is torch.bfloat16
    assert not math.isnan(a.grad.sum().item())


def test_a_pack_hook_must_not_write():
    x = torch.ones(3, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t)
    with hooks, pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        torch.exp(x)


def test_a_row_may_be_filled_with_one_of_its_elements():
    x = torch.arange(6.0).view(2, 3)
    x[0] = x[0][1]
    x[1] = x[1, 2:3]
    assert x.tolist() == [[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[0, 1:] = x[0, :2]


def test_a_view_with_leading_axes_of_one_is_assigned(torch):
    source = torch.arange(18.0).view(2, 1, 3, 3)
    for begin in (0, torch.tensor(0)):
        target = torch.zeros(2, 1, 2, 2)
        target[0] = source[1:2, :, begin:2, begin:2]
        target[1] = source[1:2, :, begin:2, begin:1]
        assert target[0].tolist() == [[[9.0, 10.0], [12.0, 13.0]]]
        assert target[1].tolist() == [[[9.0, 9.0], [12.0, 12.0]]]
