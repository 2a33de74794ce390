"""Steps that look tensors up in dictionaries, as custom optimizers look up their state, are proved.

Whatever becomes of the dictionary, its entries or its keys between calls is seen.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch


class Momentum(torch.optim.Optimizer):
    """An optimizer in the style of research code: its state is keyed by parameters."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"]
                momentum.mul_(0.9).add_(p.grad)
                p.add_(momentum, alpha=-group["lr"])


def _replace_entry(optimizer: Any, w: Any, b: Any) -> None:
    optimizer.state[w]["momentum"] = torch.ones_like(w)


def _replace_state(optimizer: Any, w: Any, b: Any) -> None:
    optimizer.state[w] = {"momentum": torch.ones_like(w)}


def _delete_entry(optimizer: Any, w: Any, b: Any) -> None:
    del optimizer.state[b]


def _replace_dictionary(optimizer: Any, w: Any, b: Any) -> None:
    optimizer.state = collections.defaultdict(dict, {w: {"momentum": -torch.ones_like(w)}})


def _load(optimizer: Any, w: Any, b: Any) -> None:
    other = Momentum([torch.zeros_like(w), torch.zeros_like(b)], 0.3)
    for p in other.param_groups[0]["params"]:
        other.state[p] = {"momentum": torch.full_like(p, 2)}
    optimizer.load_state_dict(other.state_dict())


def _freeze(optimizer: Any, w: Any, b: Any) -> None:
    b.requires_grad_(False)
    b.grad = None


CHANGES: dict[str, Callable[[Any, Any, Any], None]] = {
    "nothing": lambda *_: None,
    "an entry": _replace_entry,
    "a parameter's state": _replace_state,
    "a deleted state": _delete_entry,
    "all states": lambda optimizer, w, b: optimizer.state.clear(),
    "the dictionary": _replace_dictionary,
    "loaded states": _load,
    "a frozen parameter": _freeze,
}


def _run(change: Callable[[Any, Any, Any], None], way: str) -> list[Any]:
    torch.manual_seed(0)
    w, b = torch.randn(3, requires_grad=True), torch.randn(1, requires_grad=True)
    x, optimizer, ticks = torch.randn(6, 3), Momentum([w, b], 0.1), itertools.cycle("ab")

    def step() -> Any:
        if way == "followed":
            next(ticks)
        loss = (x @ w + b).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    call = step if way == "eager" else torch.compile(step, options={"mode": "now"})
    seen = []
    for i in range(16):
        if i == 10:
            if way == "proved":
                assert "proved harmless" in call.explain(), call.explain()
            change(optimizer, w, b)
        seen += [call().item(), w.tolist(), b.tolist(), len(optimizer.state)]
        seen += [optimizer.state[p]["momentum"].tolist() for p in (w, b) if p in optimizer.state]
    return seen


@pytest.mark.parametrize("way", ["proved", "followed"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_an_optimizers_state_is_seen(change: str, way: str) -> None:
    actual, expected = (_run(CHANGES[change], w) for w in (way, "eager"))
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_membership_is_guarded(kind: type) -> None:
    w = torch.ones(3)
    chosen = kind({w: 2.0})

    def step(x: Any) -> Any:
        return x * chosen[w] if w in chosen else x

    call = torch.compile(step, options={"mode": "now"})
    x = torch.arange(3.0)
    for _ in range(8):
        assert call(x).tolist() == [0, 2, 4]
    assert "proved harmless" in call.explain()
    chosen[w] = 3.0
    assert call(x).tolist() == [0, 3, 6]
    del chosen[w]
    assert call(x).tolist() == [0, 1, 2]
    chosen[torch.ones(3)] = 5.0
    assert call(x).tolist() == [0, 1, 2]


def test_entries_of_a_defaultdict_are_read_without_adding_any() -> None:
    log: Any = collections.defaultdict(list)
    log["loss"].append(-1.0)
    w = torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        loss = (x * w).sum()
        log["loss"].append(loss.item())
        return loss

    call = torch.compile(step, options={"mode": "now"})
    for i in range(10):
        call(torch.full((3,), float(i)))
    assert "proved harmless" in call.explain()
    assert log == {"loss": [-1.0, *(3.0 * i for i in range(10))]}
    log.clear()
    call(torch.ones(3))
    assert log == {"loss": [3.0]}
