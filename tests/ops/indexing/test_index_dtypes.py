"""Which dtypes index, and gradients of reduced scatters that leave out the input."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("call", "error"), [
    (lambda torch, x, i: x[i.to(torch.int8)], IndexError),
    (lambda torch, x, i: x.index_put((i.to(torch.int16),), x[:1]), IndexError),
    (lambda torch, x, i: x.index_fill(0, i.int(), 1.0), IndexError),
    (lambda torch, x, i: x.index_copy(0, i.int(), torch.ones(1)), RuntimeError),
    (lambda torch, x, i: x.put(i.int(), torch.ones(1)), RuntimeError),
    (lambda torch, x, i: x.take(i.int()), RuntimeError),
    (lambda torch, x, i: x.put(i, torch.ones(2)), IndexError),
])
def test_refused_index(torch, call, error):
    with pytest.raises(error):
        call(torch, torch.zeros(3), torch.tensor([1]))


def test_small_integers_select_as_scalars(torch):
    assert torch.arange(4)[torch.tensor(2, dtype=torch.int8)].item() == 2


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_input_that_equals_the_extreme_takes_a_share(torch, reduce):
    x = torch.zeros(1, requires_grad=True)
    src = torch.zeros(2, requires_grad=True)
    y = x.scatter_reduce(0, torch.tensor([0, 0]), src, reduce, include_self=False)
    a, b = torch.autograd.grad(y.sum(), (x, src))
    assert a.tolist() == [0.0]
    torch.testing.assert_close(b, torch.full((2,), 1 / 3))
