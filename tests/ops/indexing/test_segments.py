"""segment_reduce: values and gradients where segments are empty, equal, NaN or zero."""

import math

import pytest

import flambeau as torch

DATA = [1.0, 2.0, 0.0, 4.0, 5.0, 5.0, math.nan, 3.0]
LENGTHS = [1, 2, 0, 3, 2]
EXPECTED = {  # PyTorch's values and gradients
    "sum": ([1, 2, 0, 14, math.nan], [1] * 8),
    "max": ([1, 2, -math.inf, 5, math.nan], [1, 1, 0, 0, 0.5, 0.5, 1, 0]),
    "min": ([1, 0, math.inf, 4, math.nan], [1, 0, 1, 1, 0, 0, 1, 0]),
    "mean": ([1, 1, math.nan, 14 / 3, math.nan], [1, 0.5, 0.5, *[1 / 3] * 3, 0.5, 0.5]),
    "prod": ([1, 0, 1, 100, math.nan], [1, 0, 2, 25, 20, 20, 3, math.nan]),
}


@pytest.mark.parametrize("reduce", EXPECTED)
@pytest.mark.parametrize("by", ["lengths", "offsets"])
def test_against_pytorch(reduce, by):
    where = {"lengths": LENGTHS, "offsets": [0, 1, 3, 3, 6, 8]}[by]
    x = torch.tensor(DATA, requires_grad=True)
    y = torch.segment_reduce(x, reduce, **{by: torch.tensor(where)})
    y.sum().backward()
    values, gradients = (torch.tensor(v, dtype=torch.float32) for v in EXPECTED[reduce])
    torch.testing.assert_close(y.detach(), values, equal_nan=True)
    torch.testing.assert_close(x.grad, gradients, equal_nan=True)


def test_batches_of_segments():
    x = torch.arange(24.0, dtype=torch.float64).view(2, 6, 2).requires_grad_()
    lengths = torch.tensor([[1, 2, 3], [3, 0, 3]])

    def reduced(x):
        return torch.segment_reduce(x, "mean", lengths=lengths, axis=1, initial=0.0)

    assert reduced(x)[1, 0].tolist() == [14.0, 15.0]
    assert torch.autograd.gradcheck(reduced, x)


def test_segments_without_elements_are_on_the_graph():
    x = torch.ones(0, requires_grad=True)
    torch.segment_reduce(x, "sum", lengths=torch.tensor([0, 0])).sum().backward()
    assert x.grad.shape == (0,)


@pytest.mark.parametrize("reduce", ["max", "mean", "prod", "sum"])
def test_second_derivatives_are_refused(torch, reduce):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.segment_reduce(x * x, reduce, lengths=torch.tensor([1, 2]))
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_segment_reduce_backward is not"):
        g.sum().backward()


@pytest.mark.parametrize("reduce", EXPECTED)
def test_forward_mode_pushes_what_backward_pulls(reduce):
    x = torch.tensor([1.0, 2.0, 0.5, 4.0, 5.0, 3.0], dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([1, 2, 0, 3])

    def reduced(x):
        return torch.segment_reduce(x, reduce, lengths=lengths, initial=0.75)

    assert torch.autograd.gradcheck(reduced, x, check_forward_ad=True)
