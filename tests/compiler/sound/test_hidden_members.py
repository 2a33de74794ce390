"""Attributes that come to hide a module's parameters, buffers and submodules are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import MODES, Scene, compare


class Net(nn.Module):
    """A module that reads its members in code of its own, and in the library's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mask", torch.ones(3))
        self.act, self.body = nn.ReLU(), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.act(self.body(x * self.weight + self.mask))


def _outside(net: Any) -> Callable[[Any], Any]:
    return lambda x: net.act(F.linear(x * net.weight + net.mask, net.body.weight, net.body.bias))


USES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "function that calls it": lambda net: lambda x: net(x),
    "function that reads it": _outside,
    "function that does both": lambda net: lambda x: net(x) + _outside(net)(x),
}
VALUES = {"weight": torch.ones(3) * 5, "mask": torch.ones(3) * 5, "act": nn.Tanh()}


def _set_class(net: Any, value: Any) -> None:
    type(net).weight = property(lambda self: value)


CHANGES: dict[str, Callable[[Any], Any]] = {
    **{f"{name} in the module": lambda net, n=name: net.__dict__.update({n: VALUES[n]})
       for name in VALUES},
    **{f"{name} in its class": lambda net, n=name: setattr(type(net), n, VALUES[n])
       for name in VALUES},
    "a property": lambda net: _set_class(net, VALUES["weight"]),
    "a weight in a layer": lambda net: net.body.__dict__.update(weight=torch.ones(3, 3)),
    "a weight in a layer's class": lambda net: setattr(type(net.body), "weight", torch.ones(3, 3)),
    "__getattr__": lambda net: setattr(
        type(net), "__getattr__", lambda self, name: torch.zeros(3) if name == "weight"
        else nn.Module.__getattr__(self, name)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("use", USES)
def test_members_that_are_hidden(use: str, change: str, mode: str) -> None:
    def make() -> Scene:
        kind = type("Own", (Net,), {})
        net = kind()
        net.body.__class__ = type("Layer", (nn.Linear,), {})
        step = USES[use](net)
        return Scene(step, lambda: CHANGES[change](net), lambda: (torch.ones(2, 3),))

    compare(make, mode, 3)


@pytest.mark.parametrize("place", ["module", "class"])
def test_hidden_members_of_an_argument(place: str) -> None:
    def make() -> Scene:
        net = type("Own", (Net,), {})()
        holder = net if place == "module" else type(net)

        def change() -> None:
            if holder is net:
                net.__dict__["mask"] = VALUES["mask"]
            else:
                holder.mask = VALUES["mask"]

        return Scene(lambda net, x: x * net.weight + net.mask, change,
                     lambda: (net, torch.ones(2, 3)))

    compare(make, "now", 3)
