"""Tensors that a step returns: which are the same object, and which lie on one memory."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

from ..step_comparison import compiled, runs, same


def _views(x):
    y = x * 2
    return y, y.t(), [y[1:], y], {"column": y[:, 1], "flat": y.view(-1)}


def _parts(x):
    return (x + 1).chunk(2)


def _bits(x):
    y = x.exp()
    return y.view(torch.int32), y


@pytest.mark.parametrize("step", [_views, _parts, _bits])
@pytest.mark.parametrize("options", [{}, {"backend": "evaluate"}])
def test_views_of_one_memory_stay_on_it(step, options):
    fast = torch.compile(step, mode="now", **options)
    for _ in range(5):
        x = torch.randn(4, 3)
        wanted, actual = step(x), fast(x)
        for result in (wanted, actual):
            result[0][1, 1] = 7
        same(actual, wanted)
        if step is _views:
            for result in (wanted, actual):
                assert result[2][1] is result[0]
                assert not result[1].is_contiguous()
    assert runs(fast) >= 2


def test_a_tensor_that_is_kept_and_returned_is_one():
    class Holder:
        last = first = None

    holder = Holder()

    def step(x):
        y = x * 2
        holder.last, holder.first = y, y[0]
        return y

    fast = compiled(step)
    for i in range(6):
        y = fast(torch.ones(3, 2))
        y.fill_(i)
        assert holder.last is y
        assert holder.first.tolist() == [i, i]
    assert runs(fast)


def test_a_number_and_its_tensor():
    net = nn.Linear(3, 1)

    def step(x):
        loss = net(x).mean()
        loss.backward()
        return loss, loss.item()

    fast = compiled(step)
    for _ in range(6):
        loss, number = fast(torch.randn(4, 3))
        assert loss.item() == number


def test_views_that_backward_goes_through():
    net = nn.Linear(3, 4)

    def step(x):
        y = net(x)
        return y, y.flatten(), y[0]

    fast = compiled(step)
    for _ in range(6):
        x, results = torch.randn(2, 3), []
        for run in (step, fast):
            net.zero_grad()
            y, flat, row = run(x)
            assert flat.data_ptr() == y.data_ptr() == row.data_ptr()
            (y.sum() + flat.square().sum() + row[1]).backward()
            results.append((y, flat, row, net.weight.grad.clone()))
        same(*results)
    assert runs(fast) >= 2


def test_views_that_leave_gaps_stay_eager():
    def step(x):
        y = x.repeat(3, 2).as_strided((2, 2), (9, 2))
        return y, y[0]

    fast = compiled(step)
    for _ in range(5):
        y, row = fast(torch.arange(6.0).view(2, 3))
        row.fill_(-1)
        assert y[0].tolist() == [-1, -1]


@pytest.mark.parametrize("part", [lambda y: y[0], lambda y: y[:, -1], lambda y: y.view(2, 2, 2)])
def test_parts_that_backward_goes_through(part):
    net = nn.Linear(3, 4)
    step = lambda x: part(net(x))  # noqa: E731
    fast = compiled(step)
    for _ in range(6):
        x, results = torch.randn(2, 3), []
        for run in (step, fast):
            net.zero_grad()
            y = run(x)
            y.square().sum().backward()
            results.append((y, net.weight.grad.clone()))
        same(*results)
    assert runs(fast) >= 2
