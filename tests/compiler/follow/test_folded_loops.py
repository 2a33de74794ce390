"""Loops whose turns read a value: a followed call runs the programs of one turn for all."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def _follow(function: Callable[..., Any]) -> Any:
    return torch.compile(function, options={"mode": "now", "follow": True})


def _count_programs(step: Any) -> int:
    match = re.search(r"(\d+) programs?, run", step.explain())
    assert match is not None, step.explain()
    return int(match.group(1))


def _compare(step: Callable[..., Any], calls: list[tuple[Any, ...]], rel: float = 1e-5,
             absolute: float | None = None) -> Any:
    """Follow calls of a step that returns tensors and a log; return the followed step."""
    followed = _follow(step)
    for arguments in calls:
        results, log = followed(*arguments)
        expected, wanted = step(*arguments)
        assert log == pytest.approx(wanted, rel=rel, abs=absolute)
        for a, b in zip(results, expected, strict=True):
            assert torch.allclose(a, b, rtol=rel, atol=1e-8 if absolute is None else absolute)
    return followed


def make_sampler(seed: int) -> Callable[[int], list[int]]:
    """A recurrent network that writes a text of a given length, one symbol at a time."""
    torch.manual_seed(seed)
    table, cell, out = nn.Embedding(11, 5), nn.GRUCell(5, 5), nn.Linear(5, 11)

    def write(length: int) -> list[int]:
        text, h, symbol = [], torch.zeros(1, 5), torch.tensor([0])
        with torch.no_grad():
            for _ in range(length):
                h = cell(table(symbol), h)
                symbol = torch.multinomial(F.softmax(out(h), 1), 1)[0]
                text.append(int(symbol.item()))
        return text

    return write


def test_a_text_of_any_length_takes_the_programs_of_one_symbol() -> None:
    lengths = [5, 5, 5, 5, 9, 3, 20, 1, 0, 13]
    eager, followed = make_sampler(0), _follow(make_sampler(0))
    torch.manual_seed(1)
    expected = [eager(n) for n in lengths]
    torch.manual_seed(1)
    assert [followed(n) for n in lengths] == expected
    assert _count_programs(followed) <= 6


def make_training(seed: int) -> tuple[Callable[[int], list[float]], nn.Module]:
    """Steps on a small network, the loss of each read by Python."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    data = torch.randn(40, 3)

    def epoch(batches: int) -> list[float]:
        losses = []
        for k in range(batches):
            x = data[4 * k : 4 * k + 4]
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if losses[-1] > 1e6:  # keeps its Python
                break
        return losses

    return epoch, net


def test_an_epoch_takes_the_programs_of_one_batch() -> None:
    counts = [4, 4, 4, 4, 7, 2, 10, 1]
    eager, net = make_training(0)
    expected = [eager(n) for n in counts]
    epoch, same = make_training(0)
    followed = _follow(epoch)
    for n, losses in zip(counts, expected, strict=True):
        assert followed(n) == pytest.approx(losses, rel=1e-4)
    for a, b in zip(net.parameters(), same.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4)
    assert _count_programs(followed) <= 12  # the first batches set up Adam's state


def test_turns_that_keep_their_results() -> None:
    """Results of earlier turns live on while the same programs run again."""

    def step(x: Any, turns: int) -> Any:
        results, total = [], 0.0
        for _ in range(turns):
            x = (x * 1.5).tanh()
            results.append(x + 1)
            total += x.sum().item()
            if total > 1e6:  # keeps its Python
                break
        return results, total

    _compare(step, [(torch.randn(4), turns) for turns in [3, 3, 3, 3, 6, 2, 8, 8]])


def test_turns_that_write_what_others_read() -> None:
    """The same program serves a buffer that another turn's result aliases, and one apart."""

    def step(x: Any, choices: list[int]) -> Any:
        buffers = [x.clone(), x.clone()]
        view, log = buffers[0][1:], []
        for choice in choices:
            buffers[choice].mul_(2).add_(view.sum())
            log.append(buffers[choice].sum().item())
            if log[-1] > 1e6:  # keeps its Python
                break
        return [*buffers, view], log

    draws = random.Random(0)
    lengths = [3 if k < 6 else draws.randrange(6) for k in range(14)]
    _compare(step, [(torch.randn(3), [draws.randrange(2) for _ in range(n)]) for n in lengths])


def test_turns_of_two_kinds_in_any_order() -> None:
    def step(x: Any, kinds: list[bool]) -> Any:
        log = []
        for kind in kinds:
            x = x.exp().log() * 1.1 if kind else x.sin() + 0.1
            log.append(x.mean().item())
            if log[-1] > 1e6:  # keeps its Python
                break
        return [x], log

    draws = random.Random(0)
    lengths = [2 if k < 4 else draws.randrange(7) for k in range(16)]
    calls = [(torch.randn(4), [draws.random() < 0.5 for _ in range(n)]) for n in lengths]
    assert _count_programs(_compare(step, calls, rel=1e-4, absolute=1e-6)) <= 6


def test_a_copy_to_where_a_tensor_is_already_begins_no_recording() -> None:
    """`x.cpu()` computes nothing: calls whose last functions do so take no new path."""

    def step(x: Any) -> Any:
        total = (x * 2).sum().item()
        return total, (x.data.cpu().numpy() > 0).mean()

    followed = _follow(step)
    for _ in range(8):
        x = torch.randn(5)
        assert followed(x) == pytest.approx(step(x), rel=1e-5)
    driver = followed._fallback.followed
    calls = driver.calls
    for _ in range(4):
        driver.is_steady = True
        followed(torch.randn(5))
        assert driver.is_steady
    assert driver.calls == calls + 4


def test_legacy_constructors_copy_arrays_in_each_call() -> None:
    def step(x: Any, numbers: Any) -> Any:
        return x * torch.FloatTensor(numbers) + torch.FloatTensor(3).fill_(1.0), x.sum().item()

    followed = _follow(step)
    for k in range(8):
        x, numbers = torch.randn(3), [1.0, 2.0, float(k // 5)]
        result, total = followed(x, numbers)
        assert torch.equal(result, step(x, numbers)[0])
        assert total == pytest.approx(x.sum().item(), rel=1e-5)
