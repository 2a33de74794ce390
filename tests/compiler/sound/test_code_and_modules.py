"""Functions, settings of the process and modules that a step uses, and changes of them."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene, compare
from .state_scenes import WHEN, Scenes, put

SCENES = Scenes()
scene = SCENES.add
FACTOR = 2.0


# -------------------------------------------------------------------------------- functions


@scene
def a_closure():
    value = 2.0

    def change():
        nonlocal value
        value = 3.0

    return lambda: value, change


@scene
def a_global():
    return lambda: FACTOR, put(sys.modules[__name__], "FACTOR", 3.0)


@scene
def a_default_argument():
    def factor(value=2.0):
        return value

    return lambda: factor(), lambda: setattr(factor, "__defaults__", (3.0,))


@scene
def a_keyword_default():
    def factor(*, value=2.0):
        return value

    return lambda: factor(), lambda: factor.__kwdefaults__.update(value=3.0)


@scene
def a_mutable_default():
    def factor(values=[2.0]):  # noqa: B006
        return values[0]

    return lambda: factor(), lambda: factor.__defaults__[0].__setitem__(0, 3.0)


@scene
def code_exchanged():
    def factor():
        return 2.0

    def other():
        return 3.0

    return lambda: factor(), lambda: setattr(factor, "__code__", other.__code__)


@scene
def a_method_patched():
    class Options:
        def factor(self):
            return 2.0

    options = Options()
    return lambda: options.factor(), lambda: setattr(Options, "factor", lambda self: 3.0)


@scene
def code_of_a_method_exchanged():
    class Options:
        def factor(self):
            return 2.0

    def other(self):
        return 3.0

    options = Options()
    return lambda: options.factor(), lambda: setattr(Options.factor, "__code__", other.__code__)


@scene
def a_method_put_on_the_object():
    class Options:
        def factor(self):
            return 2.0

    options = Options()
    return lambda: options.factor(), lambda: setattr(options, "factor", lambda: 3.0)


@scene
def a_static_method():
    class Options:
        @staticmethod
        def factor():
            return 2.0

    return lambda: Options.factor(), lambda: setattr(Options, "factor", staticmethod(lambda: 3.0))


@scene
def a_class_method():
    class Options:
        value = 2.0

        @classmethod
        def factor(cls):
            return cls.value

    return lambda: Options.factor(), lambda: setattr(Options, "value", 3.0)


@scene
def a_super_method():
    class Base:
        def factor(self):
            return 2.0

    class Options(Base):
        def factor(self):
            return super().factor() + 1

    options = Options()
    return lambda: options.factor(), lambda: setattr(Base, "factor", lambda self: 3.0)


@scene
def a_partial():
    options = {"value": 2.0}
    factor = functools.partial(lambda table: table["value"], options)
    return factor, lambda: options.update(value=3.0)


@scene
def a_partial_with_keywords():
    factor = functools.partial(lambda value: value, value=2.0)
    return factor, lambda: factor.keywords.update(value=3.0)


@scene
def a_cached_function():
    table = {"value": 2.0}

    @functools.lru_cache
    def factor():
        return table["value"]

    def change():
        table["value"] = 3.0
        factor.cache_clear()

    return lambda: factor(), change


@scene
def a_wrapped_function():
    table = {"value": 2.0}

    def shouted(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)

        return inner

    @shouted
    def factor(*, key="value"):
        return table[key]

    return lambda: factor(), lambda: table.update(value=3.0)


@scene
def a_context_manager():
    table = {"value": 2.0}

    @contextlib.contextmanager
    def scaled():
        yield table["value"]

    def factor():
        with scaled() as value:
            return value

    return factor, lambda: table.update(value=3.0)


@scene
def an_exception_that_is_suppressed():
    table = {}

    def factor():
        try:
            return table["value"]
        except KeyError:
            return 2.0

    return factor, lambda: table.update(value=3.0)


@scene
def a_lambda_in_a_list():
    functions = [lambda: 2.0]
    return lambda: functions[0](), lambda: functions.__setitem__(0, lambda: 3.0)


@scene
def a_key_of_sorted():
    order = {"a": 1, "b": 2}
    names = {"a": 2.0, "b": 3.0}
    return (lambda: names[sorted(names, key=lambda name: order[name])[0]],
            lambda: order.update(a=3))


@scene
def a_constant_of_math():
    import math

    return lambda: math.pi, put(math, "pi", 3.0)


@scene
def a_function_of_the_library():
    return None, put(F, "relu", lambda x: x * 7), lambda x: F.relu(x)


@scene
def a_function_that_the_library_calls():
    torch.manual_seed(0)
    net = nn.Linear(3, 3)
    return None, put(F, "linear", lambda x, weight, bias: x * 7), lambda x: net(x)


@scene
def a_public_function_that_the_library_calls():
    return None, put(torch, "relu", lambda x: x * 7), lambda x: torch.relu(x)


@scene
def a_builtin():
    import builtins

    return lambda: abs(-2.0), put(builtins, "abs", lambda x: 7.0)


# ------------------------------------------------------------------------- process and thread


@scene
def the_environment():
    os.environ["FLAMBEAU_TEST_FACTOR"] = "2"

    def change():
        os.environ["FLAMBEAU_TEST_FACTOR"] = "3"

    return lambda: float(os.environ["FLAMBEAU_TEST_FACTOR"]), change


@scene
def a_context_variable():
    variable = contextvars.ContextVar("factor", default=2.0)
    return lambda: variable.get(), lambda: variable.set(3.0)


@scene
def thread_locals():
    local = threading.local()
    local.factor = 2.0
    return lambda: local.factor, lambda: setattr(local, "factor", 3.0)


# ---------------------------------------------------------------------------------- modules


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.table = 2.0, {"bias": 1.0}
        self.inner = nn.Identity()

    def forward(self, x):
        return self.inner(x) * self.scale + self.table["bias"]


def of_module(name: str, change: Callable[[Scaled], Any]) -> None:
    def build() -> Scene:
        torch.manual_seed(0)
        net = Scaled()
        return Scene(lambda x: net(x), lambda: change(net))

    SCENES[f"a module's {name}"] = build


of_module("attribute", lambda net: setattr(net, "scale", 3.0))
of_module("attribute in its dict", lambda net: net.__dict__.update(scale=3.0))
of_module("table", lambda net: net.table.update(bias=3.0))
of_module("submodule", lambda net: setattr(net, "inner", nn.Tanh()))
of_module("submodule in its dict", lambda net: net._modules.update(inner=nn.Tanh()))
of_module("forward", lambda net: setattr(net, "forward", lambda x: x * 5))
of_module("class", lambda net: setattr(net, "__class__", nn.Identity))
of_module("hook", lambda net: net.register_forward_hook(lambda m, args, out: out * 2).remove)
of_module("submodule's hook", lambda net: net.inner.register_forward_pre_hook(
    lambda m, args: (args[0] * 2,)).remove)


def of_class_forward() -> Scene:
    class Net(nn.Module):
        def forward(self, x):
            return x * 2

    net = Net()
    return Scene(lambda x: net(x), lambda: setattr(Net, "forward", lambda self, x: x * 3))


SCENES["a module's class's forward"] = of_class_forward


def of_frozen_parameters() -> Scene:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    def step(x):
        return x + sum((p.sum() for p in net.parameters() if p.requires_grad), torch.zeros(()))

    return Scene(step, lambda: net[1].requires_grad_(False) and None)


SCENES["which parameters are frozen"] = of_frozen_parameters


def of_layers(name: str, change: Callable[[Any], Any], layers: Callable[[], Any]) -> None:
    def build() -> Scene:
        torch.manual_seed(0)
        net = layers()

        def step(x):
            if isinstance(net, nn.Sequential):
                return net(x).detach()
            for key in net:
                x = (net[key] if isinstance(net, nn.ModuleDict) else key)(x)
            return x.detach()

        return Scene(step, lambda: change(net))

    SCENES[name] = build


of_layers("a layer put into a sequence's dict", lambda net: net._modules.update({"1": nn.Tanh()}),
          lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
of_layers("a parameter put into a layer's dict",
          lambda net: net[0]._parameters.update(weight=nn.Parameter(torch.ones(3, 3))),
          lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
of_layers("a layer that a dict of modules loses", lambda net: net.pop("b") and None,
          lambda: nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()}))
of_layers("a layer that a list of modules gets", lambda net: net.append(nn.Tanh()) and None,
          lambda: nn.ModuleList([nn.Linear(3, 3)]))


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_state_that_a_step_reads(name: str, mode: str, change_at: int) -> None:
    compare(SCENES[name], mode, change_at)
