"""Methods that the library calls on its own behalf (`_conv_forward`, `named_children`,
`check_forward_args`) are replaced on classes and objects, and put back, while a step is compiled.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.compiler.proof.state.class_state import ClassState

from .scenario import assert_same, freeze, wait_for_program

F = nn.functional


class Net(nn.Module):
    """Two layers that a step asks the library for."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)


class OwnNorm(nn.BatchNorm1d):
    """A class of the step's own without methods."""


class OwnOptimizer(optim.SGD):
    """Another one."""


def _run_children(x: Any, net: Any) -> Any:
    for module in net.children():
        x = module(x)
    return x


def _clear_gradients(x: Any, net: Any) -> Any:
    net.zero_grad()
    net.second(net.first(x)).sum().backward()
    return [p.grad.clone() for p in net.parameters()]


def _train(x: Any, net: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    net(x).square().mean().backward()
    optimizer.step()
    return net.weight.detach().clone()


# A step and what is replaced, made anew for each run; the log is what the replacement appends to.
Case = tuple[Callable[[Any], Any], tuple[Any, str, Any]]


def _children(log: list, owner: str) -> Case:
    net = Net()
    place = Net if owner == "class" else net
    return lambda x: _run_children(x, net), (
        place, "named_children", lambda *_: log.append("children") or iter([("", net.first)]))


def _parameters(log: list) -> Case:
    net = Net()
    return lambda x: _clear_gradients(x, net), (
        Net, "parameters", lambda self, recurse=True: iter(self.first._parameters.values()))


def _convolution(log: list, owner: str) -> Case:
    layer = nn.Conv1d(4, 2, 1)
    place = nn.Conv1d if owner == "class" else layer
    return lambda x: layer(x), (
        place, "_conv_forward", lambda *args: F.conv1d(args[-3], args[-2] * 2, args[-1]))


def _norm(log: list, kind: type) -> Case:
    layer = kind(3)
    return lambda x: layer(x), (kind, "_check_input_dim", lambda *_: log.append("check"))


def _recurrent(log: list) -> Case:
    layer = nn.LSTM(3, 4)
    return lambda x: layer(x)[0], (
        nn.LSTM, "check_forward_args", lambda *_: log.append("check"))


def _length(log: list) -> Case:
    layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])

    def step(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x + len(layers)

    return step, (nn.ModuleList, "__len__", lambda self: 7)


def _optimizer(log: list) -> Case:
    net = nn.Linear(3, 1)
    optimizer = OwnOptimizer(net.parameters(), lr=0.1)
    return lambda x: _train(x, net, optimizer), (
        OwnOptimizer, "zero_grad", lambda self, set_to_none=True: log.append("zero_grad"))


def _distribution(log: list) -> Case:
    normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    return lambda x: x.mean(0) + normal.sample((2,)), (
        torch.distributions.Normal, "sample", lambda self, shape=(): torch.full((2, 3), 9.0))


def _function(log: list, kind: str) -> Case:
    layer = nn.Sequential(nn.Linear(3, 3), nn.GELU())
    original = F.gelu
    fakes = {"function": lambda x, approximate="none": x * 3,
             "partial": functools.partial(original, approximate="tanh")}
    return lambda x: layer(x), (F, "gelu", fakes[kind])


CASES: dict[str, Callable[[list], Case]] = {
    "children of a class": lambda log: _children(log, "class"),
    "children of an object": lambda log: _children(log, "object"),
    "parameters": _parameters,
    "a convolution's class": lambda log: _convolution(log, "class"),
    "a convolution": lambda log: _convolution(log, "object"),
    "a library's norm": lambda log: _norm(log, nn.BatchNorm1d),
    "an own norm": lambda log: _norm(log, OwnNorm),
    "a recurrent layer": _recurrent,
    "a length": _length,
    "an optimizer": _optimizer,
    "a distribution": _distribution,
    "a function": lambda log: _function(log, "function"),
    "a partial": lambda log: _function(log, "partial"),
}


def _observe(name: str, options: dict[str, Any] | None, change: int) -> list[Any]:
    torch.manual_seed(0)
    log: list[str] = []
    step, (owner, attribute, replacement) = CASES[name](log)
    call = step if options is None else torch.compile(step, options=options)
    before, seen = vars(owner).get(attribute), []
    try:
        for i in range(12):
            if i == change:
                setattr(owner, attribute, replacement)
            if i == change + 4:
                _put_back(owner, attribute, before)
            seen.append([freeze(call(torch.randn(4, 3))), len(log)])
            if options == {} and i == 6:
                wait_for_program(call)
    finally:
        _put_back(owner, attribute, before)
    return seen


def _put_back(owner: Any, attribute: str, before: Any) -> None:
    if before is not None:
        setattr(owner, attribute, before)
    elif attribute in vars(owner):
        delattr(owner, attribute)


@pytest.mark.parametrize("options", [{"mode": "now"}, {}], ids=["now", "background"])
@pytest.mark.parametrize("change", [0, 4, 7])
@pytest.mark.parametrize("name", CASES)
def test_the_library_calls_what_replaces_its_methods(
    name: str, change: int, options: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _observe(name, None, change)
        assert_same(_observe(name, options, change), expected, name)


def test_a_class_that_only_counts_keeps_its_program() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: Any) -> Any:
            return x * 2

    net = Counting()
    call = torch.compile(net.forward, options={"mode": "now"})
    for i in range(6):
        Counting.calls += 1
        assert call(torch.ones(2)).tolist() == [2.0, 2.0], i
    assert "proved harmless" in call.explain(), call.explain()


def test_classes_are_compared_again_only_after_a_change() -> None:
    class Layer(nn.Linear):
        pass

    state = ClassState()
    state.add(Layer)
    assert state.is_same() and state.numbers is not None
    numbers = state.numbers
    assert state.is_same() and state.numbers is numbers
    Layer.unrelated = 1  # type: ignore[attr-defined]
    assert state.is_same() and state.numbers != numbers
    nn.Module.unrelated = 1  # type: ignore[attr-defined]
    try:
        assert state.is_same()
    finally:
        del nn.Module.unrelated
    Layer.extra_repr = lambda self: "changed"  # type: ignore[method-assign]
    assert not state.is_same()
    del Layer.extra_repr
    assert state.is_same()


def test_errors_about_arguments_name_the_operator() -> None:
    def step(x: Any) -> str:
        with pytest.raises(TypeError) as caught:
            torch.tanh(x, inplace=True)
        return str(caught.value)

    for options in ({"mode": "now"}, {"mode": "now", "follow": True}):
        call = torch.compile(step, options=options)
        assert {call(torch.ones(2)) for _ in range(5)} == {step(torch.ones(2))}
