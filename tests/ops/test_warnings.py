"""PyTorch computes inf and nan without a word: so must flambeau where warnings are errors."""

from __future__ import annotations

import warnings

import pytest

import flambeau as torch

INF = float("inf")


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
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
    x = torch.tensor([[INF, 0.0], [2.0, 3.0]])
    expected = x * x.t()
    x.mul_(x.t())
    assert torch.equal(x.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_backward():
    x = torch.zeros(3, requires_grad=True)
    (x.log() * x.sqrt()).sum().backward()
    assert x.grad is not None
    assert x.grad.isnan().all()
