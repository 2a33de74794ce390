"""PyTorch computes inf and nan without a word: so must flambeau where warnings are errors, or where
the program has told NumPy to raise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

INF = float("inf")


@pytest.fixture(autouse=True, params=["warn", "raise"])
def _warnings_are_errors(request):
    with warnings.catch_warnings(), np.errstate(all=request.param):
        warnings.simplefilter("error")
        yield


def test_operators_and_their_reflections():
    zero = torch.zeros(3)
    assert torch.log(zero).tolist() == [-INF] * 3
    assert (1 / zero).tolist() == [INF] * 3
    assert (zero / zero).isnan().all()
    assert torch.full((3,), INF).sub(torch.full((3,), INF)).isnan().all()
    assert torch.full((3,), 3e38).sum() == INF


def test_in_place_twins_write_once():
    x = torch.tensor([INF, 2.0, 3.0])
    x.mul_(torch.tensor([0.0, 2.0, 2.0]))
    assert x[0].isnan()
    assert x[1:].tolist() == [4.0, 6.0]
    x.div_(0)
    assert x[1:].tolist() == [INF, INF]


def test_in_place_twins_whose_argument_overlaps():
    whole = torch.tensor([[INF, 0.0, 2.0, 3.0], [0.0, INF, INF, 1.0]])
    x, y = whole[:, :2], whole[:, 1:3]  # with gaps, which are not refused
    expected = x * y
    x.mul_(y)
    assert torch.equal(x.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_backward():
    x = torch.zeros(3, requires_grad=True)
    (x.log() * x.sqrt()).sum().backward()
    assert x.grad is not None
    assert x.grad.isnan().all()


@pytest.mark.parametrize("name", ["call", "compiled"])
def test_bodies_of_several_steps(name):
    loss = torch.nn.functional.binary_cross_entropy
    low, high = torch.full((3,), -INF), torch.full((3,), 3e38)
    probabilities = torch.tensor([0.0, 1.0, 1.0])

    def step(low, high, p):
        return (high.prod(), (high * INF - low * -INF).mean(), high.cumprod(0), low.softmax(0),
                low.log_softmax(0), low.logsumexp(0), high.norm(), torch.isclose(low, low),
                torch.cdist(low[None], low[None]), torch.logit(p), (low - low).nan_to_num(),
                high.double().mul(1e300).float(), loss(p, 1 - p),
                high.logcumsumexp(0), torch.xlogy(p, p))

    function = step if name == "call" else torch.compile(step)
    for _ in range(4):
        y = function(low, high, probabilities)
    assert [x.flatten()[0].item() for x in (y[0], y[2], y[5], y[9], y[10], y[12])] \
        == [INF, pytest.approx(3e38), -INF, -INF, 0.0, 100.0]
    assert y[3].isnan().all()
    assert y[7].all()


def test_numbers_beside_tensors():
    zero, whole = torch.zeros(3), torch.tensor([1, 0, 2])
    assert (1 / zero).tolist() == [INF] * 3
    assert (zero / 0).isnan().all()
    assert (whole / 0).dtype is torch.float32
    assert (2 / whole).tolist() == [2.0, INF, 1.0]
    assert torch.pow(zero, -1).tolist() == [INF] * 3
    assert torch.full((3,), 3e38).mul(10.0).add(-INF).isnan().all()
    assert torch.full((3,), 1e-38).mul(1e-10).tolist() == [0.0] * 3
    assert torch.tensor([1e300]).item() == INF
    assert torch.tensor([3e38]).half().isinf().all()


def test_a_training_step():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.LayerNorm(4), nn.Linear(4, 2))
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop):
        optimizer = kind(net.parameters(), 1e-2)
        for scale in (1.0, 1e-30, 1e30):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(torch.ones(5, 3) * scale), torch.zeros(5).long())
            (loss * scale).backward()
            optimizer.step()
            for p in net.parameters():
                p.data.nan_to_num_(0.5, 0.5, 0.5).clamp_(-1, 1)
