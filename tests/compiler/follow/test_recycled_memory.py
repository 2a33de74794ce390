"""Memory that one followed call made serves the next, unless somebody still holds it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.native.runtime.fast_call import data_address


def followed_step(keep: Callable[[Any, Any], Any], stored: list[Any]) -> Any:
    """A training step that stores what `keep` gives of its loss and its weight's grad."""
    weight = torch.ones(2, 3, requires_grad=True)

    def step(x):
        weight.grad = None
        hidden = (x @ weight.t()).relu()
        loss = (hidden * hidden).sum()
        loss.backward()
        stored.append(keep(loss, weight.grad))
        return loss

    return torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")


HOLDERS: dict[str, Callable[[Any, Any], Any]] = {
    "the tensors": lambda loss, grad: (loss, grad),
    "views": lambda loss, grad: (loss.view(1), grad[1:]),
    "arrays": lambda loss, grad: (loss.detach().numpy(), grad.numpy()),
    "a view of the array of a tensor that is gone": lambda loss, grad: (
        loss.detach().numpy().reshape(1), grad.numpy().T[1:]),
    "storages": lambda loss, grad: (loss.untyped_storage(), grad.untyped_storage()),
}


def as_numbers(item: Any) -> Any:
    if isinstance(item, (tuple, list)):
        return [as_numbers(part) for part in item]
    return item.tolist()


@pytest.mark.parametrize("keep", HOLDERS.values(), ids=HOLDERS)
def test_what_somebody_holds_stays_as_it_was(keep: Callable[[Any, Any], Any]) -> None:
    stored: list[Any] = []
    step = followed_step(keep, stored)
    wanted = []
    for i in range(10):
        step(torch.full((4, 3), float(i)))
        wanted.append(as_numbers(stored[-1]))
    assert as_numbers(stored) == wanted
    assert len({str(numbers) for numbers in wanted}) == 10


INNER: dict[str, Callable[[Any, Any], Any]] = {
    "an operator's result": lambda hidden, flat: hidden,
    "a view that the inline cache made": lambda hidden, flat: flat,
    "the array of such a view": lambda hidden, flat: torch.from_numpy(flat._array),
    "a new view": lambda hidden, flat: hidden[1:],
}


@pytest.mark.parametrize("keep", INNER.values(), ids=INNER)
@pytest.mark.parametrize("calls", [(8,), (8, 9, 11), range(6, 14)], ids=str)
def test_intermediate_results_that_somebody_holds_now_and_then(
    keep: Callable[[Any, Any], Any], calls: Any
) -> None:
    """Most calls find as many holders as the one before; in `calls` there is another."""
    weight = torch.ones(2, 3, requires_grad=True)
    stored: list[Any] = []
    number = iter(range(20))

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.grad = None
        hidden = (x @ weight.t()).relu()
        flat = hidden.view(-1)
        if next(number) in calls:
            stored.append((keep(hidden, flat), x))
        loss = (flat * flat).sum()
        loss.backward()
        return loss

    fast = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for i in range(20):
        fast(torch.full((4, 3), float(i)))
        for part, x in stored[-2:]:
            hidden = (x @ weight.t()).relu()
            assert part.tolist() == keep(hidden, hidden.view(-1)).tolist()
        if i % 5 == 4:
            del stored[:-1]


def test_what_nobody_holds_serves_the_next_call() -> None:
    addresses: list[Any] = []
    step = followed_step(lambda loss, grad: (
        data_address(loss._array), data_address(grad._array)), addresses)
    gc.collect()
    for i in range(12):
        step(torch.full((4, 3), float(i)))
    assert len(set(addresses[-4:])) == 1


def test_a_result_that_comes_back_as_an_argument_is_not_written_over() -> None:
    def step(state):
        state = state * 2
        other = state + 1
        return state, other

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    state, wanted = torch.ones(3), 1.0
    for _ in range(10):
        state, other = followed(state)
        wanted *= 2
        assert state.tolist() == [wanted] * 3
        assert other.tolist() == [wanted + 1] * 3


def test_paths_that_calls_left_give_their_memory_back() -> None:
    def step(x, ways):
        if next(ways) == 0:
            return x * 2
        return x + 1

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    ways = iter([0] * 8 + [1] * 80)
    for _ in range(88):
        followed(torch.ones(3), ways)
    first, second = sorted(followed._fallback.followed.root.segments, key=lambda s: s.last_call)
    assert all(array is None for array in first.recycled.arrays)
    assert any(array is not None for array in second.recycled.arrays)


def test_results_that_are_named_tuples_are_followed() -> None:
    """Several results of an operator, some of them windows of larger memory."""
    def step(a: torch.Tensor) -> torch.Tensor:
        values, places = (a * 2).max(1)
        print(end="")
        inverse = torch.linalg.inv_ex(a + 4 * torch.eye(3)).inverse
        return values.sum() + inverse.sum() + torch.topk(a, 2).values.sum() * places.sum()

    fast = torch.compile(step, options={"mode": "now", "follow": True})
    for seed in range(12):
        torch.manual_seed(seed)
        a = torch.rand(3, 3)
        assert torch.allclose(fast(a), step(a))
