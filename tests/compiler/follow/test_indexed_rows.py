"""Rows chosen by an index tensor, as embeddings and cluster centers are, in followed steps."""

from __future__ import annotations

import itertools
from typing import Any

import flambeau as torch


def test_a_gathered_row_with_a_gradient_is_no_new_path() -> None:
    torch.manual_seed(0)
    centers = torch.randn(5, 3, requires_grad=True)
    x, chosen, ticks = torch.randn(16, 3), torch.randint(0, 5, (16,)), itertools.cycle("ab")

    def step() -> Any:
        next(ticks)
        loss = (x - centers[chosen]).square().sum()
        loss.backward()
        return loss

    call = torch.compile(step, options={"mode": "now", "follow": True})
    for _ in range(20):
        centers.grad = None
        call()
    followed = call._fallback.followed
    assert len(followed.programs) == 1 and followed.programs[0].calls >= 10
    wanted = torch.zeros(5, 3).index_add_(0, chosen, 2 * (centers.detach()[chosen] - x))
    torch.testing.assert_close(centers.grad, wanted)


def test_an_index_that_was_written_to_is_refused_by_the_derivative() -> None:
    centers, chosen = torch.ones(5, 3, requires_grad=True), torch.arange(4)
    calls = itertools.count()

    def step() -> str:
        y = centers[chosen].square().sum()
        if next(calls) % 10 == 9:
            chosen.add_(0)
        try:
            y.backward()
        except RuntimeError as error:
            return str(error)[:50]
        return ""

    call = torch.compile(step, options={"mode": "now", "follow": True})
    texts = [call() for _ in range(20)]
    assert [i for i, text in enumerate(texts) if text] == [9, 19]
    assert texts[9].startswith("one of the variables needed for gradient")
