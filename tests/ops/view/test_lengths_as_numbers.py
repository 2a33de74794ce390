"""Methods that take one list of numbers take the numbers themselves, too."""

import pytest

import flambeau as torch


@pytest.mark.parametrize(("call", "shape"), [
    (lambda x: x.squeeze(0, 2), (2, 4)),
    (lambda x: x.squeeze(-2, 0), (2, 4)),
    (lambda x: x.clone().squeeze_(0, 2), (2, 4)),
    (lambda x: x.squeeze(0, 1), (2, 1, 4)),
    (lambda x: x.count_nonzero(0, 1), (1, 4)),
    (lambda x: x.broadcast_to(3, 2, 1, 4), (3, 2, 1, 4)),
    (lambda x: x.broadcast_to((3, 2, 1, 4)), (3, 2, 1, 4)),
    (lambda x: torch.broadcast_to(x, size=(3, 2, 1, 4)), (3, 2, 1, 4)),
])
def test_a_method_takes_several_axes_or_lengths(call, shape):
    assert call(torch.ones(1, 2, 1, 4)).shape == shape


def test_the_axes_are_checked():
    x = torch.ones(1, 2, 1)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        x.squeeze(0, 0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.squeeze(0, 9)


def test_a_gradient_passes_through_several_axes():
    x = torch.ones(1, 2, 1, requires_grad=True)
    x.squeeze(0, 2).sum().backward()
    assert x.grad.shape == (1, 2, 1)
