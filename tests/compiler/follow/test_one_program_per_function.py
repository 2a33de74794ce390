"""A followed step that calls the same functions in each call is recorded once, and has one program.

A function that library code calls with constants of its own, or in place, is no reason for another.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

F = torch.nn.functional
MASK = torch.tensor([[True, False, True, False]] * 3)
LABELS, ROWS = torch.tensor([0, 3, 1]), torch.tensor([2, 0, 2])
TABLE = torch.arange(8.0).reshape(4, 2)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "masked_fill": lambda y: y.masked_fill(MASK, -1e9),
    "masked_fill with minus infinity": lambda y: y.masked_fill(MASK, float("-inf")).softmax(-1),
    "masked_fill_": lambda y: (y * 1).masked_fill_(MASK, 0.5),
    "label smoothing": lambda y: F.cross_entropy(y, LABELS, label_smoothing=0.1),
    "cosine_similarity": lambda y: F.cosine_similarity(y, y * 2 + 1),
    "normalize": lambda y: F.normalize(y),
    "std": lambda y: y.std(0),
    "norm": lambda y: y.norm(),
    "leaky_relu in place": lambda y: F.leaky_relu(y * 1, 0.2, inplace=True),
    "hardtanh in place": lambda y: F.hardtanh(y * 1, -0.5, 0.5, inplace=True),
    "dropout in place": lambda y: F.dropout(y * 1, 0.3, inplace=True),
    "a causal mask": lambda y: (y.T @ y).masked_fill(torch.ones(4, 4).tril() == 0, -1e9),
    "where with a number": lambda y: torch.where(MASK, y, 0.0),
    "gathered rows": lambda y: y[ROWS],
    "attention": lambda y: F.scaled_dot_product_attention(*[y[None]] * 3, is_causal=True),
    "noise": lambda y: y + torch.randn_like(y),
    "largest along an axis": lambda y: y.max(1)[0],
    "median along an axis": lambda y: y.median(1)[0],
    "running maxima": lambda y: y.cummax(0)[0],
    "topk": lambda y: y.topk(3)[0],
    "sort": lambda y: y.sort(-1, descending=True)[0],
    "elements at the largest": lambda y: y.gather(1, y.argmax(1, keepdim=True)),
    "rows of a table at the largest": lambda y: F.embedding(y.argmax(1), TABLE) * y[:, :2],
    "one-hot of the largest": lambda y: y * F.one_hot(y.argmax(1), 4),
    "loss of own labels": lambda y: F.cross_entropy(y, y.argmax(1)),
    "rows at own positions": lambda y: y[y.topk(2, dim=0)[1][:, 0]],
    "scatter_": lambda y: (y * 1).scatter_(1, LABELS[:, None], 0.5),
    "index_add_": lambda y: (y * 1).index_add_(0, ROWS, y * 2),
    "triu_": lambda y: (y * 1).triu_(),
    "exponential_": lambda y: y * torch.empty(3, 4).exponential_(),
    "assigned rows": lambda y: _assign(y * 1),
    "a buffer of rows": lambda y: _fill_buffer(y),
    "columns at an outside tensor's elements": lambda y: y[:, LABELS[0]] * y[:, LABELS[1]],
    "an outside tensor's number": lambda y: y * ROWS[0].item(),
    "an outside tensor's list": lambda y: y[ROWS.tolist()],
}


def _assign(y: Any) -> Any:
    y[0] = 0.5
    y[1:, 2].mul_(2)
    return y


def _fill_buffer(y: Any) -> Any:
    buffer = torch.zeros(3, 3, 4)
    for i in range(3):
        buffer[i] = y = y.tanh()
    return buffer


def _make_step(function: Callable[[Any], Any]) -> tuple[Callable[[], Any], Any]:
    torch.manual_seed(0)
    weight, x = torch.randn(4, 4, requires_grad=True), torch.randn(3, 4)
    ticks = itertools.cycle("a")

    def step() -> Any:
        next(ticks)
        y = function(x @ weight)
        y.square().sum().backward()
        return y

    return step, weight


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_with_this_function_has_one_program(name: str) -> None:
    step, weight = _make_step(FUNCTIONS[name])
    eager, twin = _make_step(FUNCTIONS[name])
    call = torch.compile(step, options={"mode": "now", "follow": True})
    results = []
    for function, leaf in ((call, weight), (eager, twin)):
        torch.manual_seed(1)
        for _ in range(10):
            leaf.grad = None
            results.append((function(), leaf.grad.clone()))
    for (y, grad), (wanted, wanted_grad) in zip(results[:10], results[10:], strict=True):
        torch.testing.assert_close(y, wanted)
        torch.testing.assert_close(grad, wanted_grad, equal_nan=True)
    followed = call._fallback.followed
    assert followed.built == 1, followed.notes
    assert followed.programs[0].calls >= 6


def test_a_constant_that_varies_is_another_path() -> None:
    fills = itertools.count(-3.0)

    def step(x: Any) -> Any:
        return (x * 2).masked_fill(MASK, next(fills)) + 1

    call = torch.compile(step, options={"mode": "now", "follow": True})
    for i in range(12):
        y = call(torch.ones(3, 4))
        assert y[0].tolist() == [i - 2.0, 3.0, i - 2.0, 3.0]


WRONG_INDICES: dict[str, Callable[[Any], Any]] = {
    "of a longer axis": lambda x: x[:, :3].gather(1, x.argmax(1, keepdim=True)),
    "written in place": lambda x: x.gather(1, x.argmax(1, keepdim=True).add_(1)),
    "computed from indices": lambda x: F.embedding(x.argmax(1) + 1, TABLE),
    "flat": lambda x: F.embedding(x.argmax(), TABLE[:3]),
    "classes": lambda x: F.one_hot(x.argmax(1), 3),
    "labels": lambda x: F.cross_entropy(x[:, :3], x.argmax(1)),
}


@pytest.mark.parametrize("name", WRONG_INDICES)
def test_an_index_that_may_be_wrong_is_checked_where_python_uses_it(name: str) -> None:
    seen: list[int] = []
    ticks = itertools.cycle("a")

    def step(x: Any) -> Any:
        next(ticks)  # not proved: the call is followed
        y = WRONG_INDICES[name](x * 2)
        seen.append(1)
        return y

    call = torch.compile(step, options={"mode": "now", "follow": True})
    legal, illegal = torch.eye(4)[[0, 1, 2]], torch.eye(4)[[3, 3, 3]]
    for _ in range(8):
        assert torch.equal(call(legal), WRONG_INDICES[name](legal * 2))
    assert any(program.calls for program in call._fallback.followed.programs)
    with pytest.raises((IndexError, RuntimeError)) as wanted:
        WRONG_INDICES[name](illegal * 2)
    with pytest.raises(type(wanted.value), match=re.escape(str(wanted.value))):
        call(illegal)
    assert len(seen) == 8


def test_numbers_read_from_outside_tensors_are_those_of_the_call() -> None:
    ticks, index, scale = itertools.cycle("a"), torch.tensor([0, 2]), torch.tensor(0.5)

    def step(x: Any) -> Any:
        next(ticks)
        y = (x * 2)[:, index[0]] * scale.item()
        scale.mul_(1.5)
        return y + float(scale), y[: int(index[1])]

    call = torch.compile(step, options={"mode": "now", "follow": True})
    for i in range(16):
        if i in (6, 11):
            index.copy_(index.flip(0))
        x, before = torch.randn(3, 4), scale.clone()
        actual = call(x)
        scale.copy_(before)
        for y, wanted in zip(actual, step(x), strict=True):
            torch.testing.assert_close(y, wanted)
