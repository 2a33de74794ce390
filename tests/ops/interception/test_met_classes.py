"""Each object of a class that overrides or dispatches has the stubs that its calls need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import flambeau as torch
from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from flambeau.ops.interception import torch_dispatch, torch_function

SETS = (torch_function.ROUTES, torch_dispatch.STUBS)


class Overriding(torch.Tensor):
    """Answers every call with its function's name."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


class Dispatching(torch.Tensor):
    """Answers every operator with a zero."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.zeros(())


class Lazy(torch.nn.parameter.UninitializedParameter):
    """Becomes an object of an overriding class."""

    cls_to_become = Overriding


def create_lazy() -> torch.Tensor:
    result = Lazy()
    result.materialize((2,))
    return result


def take_stubs_off() -> None:
    for stubs in SETS:
        stubs.permanent = False
        stubs.update()


@pytest.fixture(autouse=True)
def _stubs_end() -> Iterator[None]:
    before = [stubs.permanent for stubs in SETS]
    yield
    for stubs, permanent in zip(SETS, before, strict=True):
        stubs.permanent = permanent
        stubs.update()


def create_fake() -> torch.Tensor:
    return FakeTensorMode().from_tensor(torch.ones(2))


CREATE: dict[str, tuple[Callable, Callable]] = {
    "a fake tensor": (create_fake, lambda y: isinstance(y, FakeTensor)),
    "a dispatching class": (
        lambda: torch.Tensor._make_subclass(Dispatching, torch.ones(2)), lambda y: y.shape == ()),
    "a wrapper": (
        lambda: torch.Tensor._make_wrapper_subclass(Dispatching, (2,)), lambda y: y.shape == ()),
    "an overriding class": (
        lambda: torch.ones(2).as_subclass(Overriding), lambda y: y == "mul"),
    "a materialized parameter": (create_lazy, lambda y: y == "mul"),
}


@pytest.mark.parametrize("name", CREATE)
def test_an_object_brings_the_stubs_back(name: str) -> None:
    create, is_answer = CREATE[name]
    assert is_answer(create() * 2)
    take_stubs_off()
    assert is_answer(create() * 2)  # its class is known by now


def test_library_classes_that_do_neither_are_looked_at_once(monkeypatch) -> None:
    asked: list[type] = []
    torch.nn.Parameter(torch.ones(2))
    torch.nn.Buffer(torch.ones(2))
    monkeypatch.setattr(torch_function, "overrides", asked.append)
    torch.nn.Parameter(torch.ones(2))
    torch.nn.Buffer(torch.ones(2))
    assert asked == []


@pytest.mark.parametrize("name", ["add", "sub", "div", "mul"])
def test_the_first_call_on_a_foreign_class_hears_of_the_public_function(name):
    take_stubs_off()
    seen = []

    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func is getattr(torch, name))
            return "answer"

    assert [getattr(torch, name)(torch.ones(2), Foreign()) for _ in range(2)] == ["answer"] * 2
    assert seen == [True, True]


def test_containers_of_failed_calls_may_hold_what_overrides():
    program = """
import flambeau as torch
for call in (lambda: torch.stack([[1, 2], (3,)]), lambda: torch.add([(1,)], 2)):
    try:
        call()
    except TypeError:
        pass
def f(x):
    return torch.full((x.size(0),), 1.0) + x.sum(1)
print(torch.fx.symbolic_trace(f).code.count("torch.full"))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                            check=False)
    assert result.stdout.strip() == "1", result.stderr
