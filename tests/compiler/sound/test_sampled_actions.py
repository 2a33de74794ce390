"""Steps that draw indices from weights they compute: policies, sampled tokens."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.distributions import Categorical


def _make_rollout() -> Any:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    dynamics, optimizer = torch.randn(4, 4), torch.optim.SGD(policy.parameters(), lr=0.01)

    def step() -> Any:
        state, scores, returns = torch.ones(8, 4), [], 0
        for _ in range(4):
            actions = Categorical(logits=policy(state))
            action = actions.sample()
            scores.append(actions.log_prob(action))
            state = torch.tanh(state @ dynamics + (action.float()[:, None] - 1) * 0.1)
            returns = returns - state.abs().sum(1)
        loss = -(torch.stack(scores) * returns.detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, action

    return step


@pytest.mark.parametrize("way", ["proved", "followed"])
def test_a_rollout_takes_the_actions_of_the_eager_step(way: str) -> None:
    step, ticks = _make_rollout(), itertools.cycle("ab")

    def followed() -> Any:
        next(ticks)
        return step()

    torch.manual_seed(1)
    expected = [step() for _ in range(14)]
    step = _make_rollout()
    call = torch.compile(step if way == "proved" else followed, options={"mode": "now"})
    torch.manual_seed(1)
    for loss, action in expected:
        actual_loss, actual_action = call()
        assert actual_action.tolist() == action.tolist()
        assert actual_loss.item() == pytest.approx(loss.item(), rel=1e-4)
    if way == "proved":
        assert "proved harmless" in call.explain(), call.explain()


@pytest.mark.parametrize("weights, text", [
    ([0.0, 0.0], "sum of probabilities <= 0"), ([1.0, -1.0], "element < 0"),
    ([1.0, float("nan")], "`nan`"), ([float("inf"), 1.0], "`inf`"),
])
def test_weights_that_cannot_be_drawn_from_raise_as_eagerly(weights: Any, text: str) -> None:
    def step(x: Any) -> Any:
        return torch.multinomial(x * 2, 1)

    call = torch.compile(step, options={"mode": "now"})
    for _ in range(8):
        assert call(torch.tensor([0.0, 1.0])).tolist() == [1]
    for function in (step, call):
        with pytest.raises(RuntimeError, match=text):
            function(torch.tensor(weights))
    assert call(torch.tensor([1.0, 0.0])).tolist() == [0]


def test_transposed_weights_draw_in_the_order_of_their_memory() -> None:
    weights = torch.rand(5, 9)
    torch.manual_seed(3)
    first = torch.multinomial(weights.t(), 1)
    torch.manual_seed(3)
    q = torch.empty(5, 9).exponential_().t()
    assert first.tolist() == (weights.t() / q).argmax(1, True).tolist()
