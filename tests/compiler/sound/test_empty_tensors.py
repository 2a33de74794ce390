"""Writes in place to tensors without elements, and tensors turned in place: as in eager mode."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import flambeau as torch

WRITES = {
    "slice": lambda v: v.__setitem__(slice(1, None), -2), "fill": lambda v: v[1:].fill_(3),
    "add": lambda v: v.add_(1), "ellipsis": lambda v: v.__setitem__(Ellipsis, 5),
    "mask": lambda v: v.__setitem__(v > 0, 5), "zero": lambda v: v.zero_(),
    "copy": lambda v: v.copy_(torch.ones(v.shape)), "clamp": lambda v: v.clamp_(0, 1),
    "index fill": lambda v: v.index_fill_(0, torch.tensor([0]), 2.0),
    "no index": lambda v: v.index_fill_(0, torch.tensor([], dtype=torch.int64), 2.0),
    "index": lambda v: v.__setitem__(torch.tensor([0]), 5.0),
    "index add": lambda v: v.index_add_(0, torch.tensor([0]), v[:1].clone()),
    "select": lambda v: v.select(0, 0).fill_(2), "wrong shape": lambda v: v.add_(torch.ones(7)),
}
TURNS = {
    "unsqueeze": lambda v: v.unsqueeze_(0), "written": lambda v: v.unsqueeze_(0).add_(1),
    "squeeze": lambda v: v.squeeze_(0), "t": lambda v: v.t_(),
    "transpose": lambda v: v.transpose_(0, 1).mul_(3), "swapaxes": lambda v: v.swapaxes_(0, 1),
}


def outcome(function: Any, shape: tuple[int, ...], requires_grad: bool) -> Any:
    x = torch.ones(shape, requires_grad=requires_grad)
    try:
        y = function(x)
        if y.requires_grad:
            y.sum().backward()
    except Exception as error:
        return type(error), str(error)
    grad = None if x.grad is None else (x.grad.shape, x.grad.tolist())
    return y.tolist(), y.shape, y.stride(), y._version, x._version, x.shape, grad


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_empty_tensors(name: str, follow: bool) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        v = x.exp2()
        WRITES[name](v)
        return v

    for shape in [(3, 0), (0,)]:
        for requires_grad in (False, True):
            compiled = torch.compile(step, options={"mode": "now", "follow": follow})
            expected = outcome(step, shape, requires_grad)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a step that always raises stays eager
                assert all(outcome(compiled, shape, requires_grad) == expected for _ in range(4))


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("name", TURNS)
def test_tensors_turned_in_place(name: str, follow: bool) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        v = x.exp2()
        TURNS[name](v)
        return v

    for shape in [(2, 3), (1, 3), (0, 3)]:
        compiled = torch.compile(step, options={"mode": "now", "follow": follow})
        expected = outcome(step, shape, False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a program computes it
            assert all(outcome(compiled, shape, False) == expected for _ in range(4))
