"""Steps that detach a tensor of the call before, which still has its history, as trainers of
recurrent networks do, and what may happen to that tensor between two calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import nn

from .carried_scenes import SCENES, scene
from .scenario import Scene


def detach(h: Any) -> Any:
    """A state without its history."""
    return tuple(detach(part) for part in h) if isinstance(h, tuple) else h.detach()


class Language:
    """A recurrent network, its state, and a step that goes on from the last state."""

    def __init__(self) -> None:
        self.rnn = nn.LSTM(3, 4)
        self.optimizer = torch.optim.SGD(self.rnn.parameters(), lr=0.05)
        self.h: Any = (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
        self.log: list[Any] = []

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        y, self.h = self.rnn(x, detach(self.h))
        loss = y.square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def scene(self, change: Callable[[], Any] = lambda: None, look: Any = None) -> Scene:
        """A scene whose log holds what `look` returns before each call."""
        def arguments() -> tuple:
            self.log.append(self.h[0].detach().clone())
            if look is not None:
                self.log.append(look())
            return (torch.randn(5, 2, 3),)

        return Scene(self.step, change, arguments, [*self.rnn.parameters()], self.log)


@scene
def a_state_that_is_detached_later() -> Scene:
    return Language().scene()


def _add(name: str, make: Callable[[Any], Any]) -> None:
    """Adds a scene that replaces the state."""
    def build() -> Scene:
        language = Language()

        def change() -> None:
            language.h = tuple(make(part) for part in language.h)

        return language.scene(change)

    SCENES[f"a state replaced by {name}"] = build


_add("one without a history", lambda h: h.detach())
_add("a leaf", lambda h: h.detach().requires_grad_())
_add("one with a graph", lambda h: torch.ones(1, requires_grad=True) * h.detach())
_add("a view", lambda h: (h.detach().repeat(2, 1, 1) * torch.ones(1, requires_grad=True))[:1])
_add("one in other memory order", lambda h: h.detach().transpose(1, 2).contiguous().transpose(1, 2))
_add("a parameter", lambda h: nn.Parameter(h.detach()))


@scene
def a_state_that_is_asked() -> Scene:
    language = Language()

    def look() -> Any:
        h = language.h[1]
        return [h.requires_grad, h.is_leaf, h.grad_fn is None, h._version]

    return language.scene(look=look)


@scene
def a_state_that_goes_backward_in_vain() -> Scene:
    language = Language()

    def look() -> Any:
        try:
            language.h[0].sum().backward()
        except RuntimeError as error:
            return str(error)[:60]
        return "nothing raised"

    def change() -> None:
        language.log.append(look())

    return language.scene(change)


@scene
def a_state_written_in_place() -> Scene:
    language = Language()

    def change() -> None:
        with torch.no_grad():
            language.h[0].zero_()

    return language.scene(change)


@scene
def a_state_with_a_hook() -> Scene:
    language = Language()

    def change() -> None:
        language.h[0].register_hook(lambda g: language.log.append(g))

    return language.scene(change)


@scene
def a_state_whose_graph_is_retained() -> Scene:
    cell, holder = nn.RNNCell(3, 4), {"h": torch.zeros(2, 4)}

    def step(x: Any) -> Any:
        cell.zero_grad()
        holder["h"] = cell(x, holder["h"])
        holder["h"].sum().backward(retain_graph=True)
        return holder["h"].detach()

    return Scene(step, lambda: None, lambda: (torch.randn(2, 3),), [*cell.parameters()])


def _measure(mode: Callable[[], Any]) -> Scene:
    """A step that measures the state of the call before, which still has its graph, in a mode."""
    cell, holder = nn.RNNCell(3, 4), {"h": torch.zeros(2, 4)}

    def step(x: Any) -> Any:
        with mode():
            norm = holder["h"].norm()
        holder["h"] = cell(x, holder["h"].detach())
        cell.zero_grad()
        holder["h"].sum().backward()
        return norm

    return Scene(step, lambda: None, lambda: (torch.randn(2, 3),), [*cell.parameters()])


@scene
def a_state_measured_with_its_graph() -> Scene:
    return _measure(torch.enable_grad)


@scene
def a_state_measured_without_gradients() -> Scene:
    return _measure(torch.no_grad)


@scene
def gradients_of_the_detached_state() -> Scene:
    cell, holder = nn.RNNCell(3, 4), {"h": torch.zeros(2, 4)}

    def step(x: Any) -> Any:
        before = holder["h"].detach().requires_grad_()
        holder["h"] = cell(x, before)
        cell.zero_grad()
        holder["h"].square().sum().backward()
        return before.grad

    return Scene(step, lambda: None, lambda: (torch.randn(2, 3),), [*cell.parameters()])


@scene
def a_state_trained_at_times() -> Scene:
    language, calls = Language(), [0]
    inner = language.step

    def step(x: Any) -> Any:
        calls[0] += 1
        if calls[0] % 3:
            return inner(x)
        with torch.no_grad():
            y, language.h = language.rnn(x, language.h)
        return y.sum()

    usual = language.scene()
    return Scene(step, usual.change, usual.arguments, usual.state, usual.log)
