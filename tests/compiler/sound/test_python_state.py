"""Python state that a step reads, in every kind of place, and changes that only guards can see."""

from __future__ import annotations

import argparse
import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import Scene, compare

WHEN = (("now", 4), ("default", 3), ("default", 8))  # mode, and before which call
SCENES: dict[str, Callable[[], Scene]] = {}
FACTOR = 2.0


def scene(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """Registers what gives (factor, change): a function of no arguments, and what changes it."""

    def build() -> Scene:
        factor, change, *rest = make()
        step = rest[0] if rest else lambda x: x * factor() + 1
        return Scene(step, change)

    SCENES[make.__name__.replace("_", " ")] = build
    return make


def put(owner: Any, name: str, value: Any) -> Callable[[], Any]:
    """A change that sets an attribute, and gives what sets it back."""

    def change() -> Any:
        before = getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            setattr(owner, name, before)

        return undo

    return change


# ------------------------------------------------------------------------------- containers


@scene
def an_entry_of_a_dict():
    table = {"factor": 2.0}
    return lambda: table["factor"], lambda: table.update(factor=3.0)


@scene
def an_entry_of_a_nested_list():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    return lambda: rows[1][0], lambda: rows[1].__setitem__(0, 5.0)


@scene
def an_entry_of_300():
    values = [1.0] * 300
    return lambda: values[250], lambda: values.__setitem__(250, 4.0)


@scene
def a_sum_of_300():
    values = [0.01] * 300
    return lambda: sum(values), lambda: values.__setitem__(250, 4.0)


@scene
def a_member_of_a_set():
    chosen = {1, 2}
    return lambda: 2.0 if 2 in chosen else 1.0, lambda: chosen.discard(2)


@scene
def the_order_of_a_set():
    chosen = {"a"}
    return lambda: 2.0 if list(chosen) == ["a"] else 1.0, lambda: chosen.add("b")


@scene
def a_deque():
    window = collections.deque([1.0, 2.0])
    return lambda: window[0], lambda: window.append(3.0) or window.popleft()


@scene
def a_default_dict():
    table = collections.defaultdict(lambda: 2.0)
    return lambda: table["missing"], lambda: table.__setitem__("missing", 3.0)


@scene
def an_ordered_dict():
    table = collections.OrderedDict(a=1.0, b=2.0)

    def change():
        table.move_to_end("a")

    return lambda: next(iter(table.values())), change


@scene
def a_key_that_comes():
    table = {}
    return lambda: table.get("factor", 2.0), lambda: table.update(factor=5.0)


@scene
def the_length_of_a_list():
    values = [1, 2]
    return lambda: float(len(values)), lambda: values.append(3)


@scene
def pairs_of_a_list_of_lists():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    return lambda: sum(a * b for a, b in rows), lambda: rows[0].__setitem__(1, 7.0)


@scene
def enumerated_lists_of_lists():
    rows = [[1.0, 2.0], [3.0, 4.0]]

    def factor():
        total = 0.0
        for i, (a, b) in enumerate(rows):
            total += i * a + b
        return total

    return factor, lambda: rows[0].__setitem__(1, 7.0)


@scene
def lists_put_into_a_list():
    table = {"a": [1.0, 2.0], "b": [3.0, 4.0]}

    def factor():
        total = 0.0
        for a, b in [table["a"], table["b"]]:
            total += a * b
        return total

    return factor, lambda: table["a"].__setitem__(1, 7.0)


@scene
def lists_that_a_generator_yields():
    table = {"a": [1.0, 2.0]}

    def rows():
        yield table["a"]

    def factor():
        for a, b in rows():
            return a + b
        return 0.0

    return factor, lambda: table["a"].__setitem__(1, 7.0)


@scene
def a_list_from_a_callback():
    table = {"a": [1.0, 2.0]}

    def factor():
        total = 0.0
        for a, b in map(lambda key: table[key], ["a"]):  # noqa: C417
            total += a * b
        return total

    return factor, lambda: table["a"].__setitem__(1, 7.0)


@scene
def a_small_array():
    weights = np.array([1.0, 2.0])
    return lambda: float(weights[1]), lambda: weights.__setitem__(1, 4.0)


@scene
def a_large_array():
    weights = np.ones(1000)
    return lambda: float(weights[1]), lambda: weights.__setitem__(1, 4.0)


@scene
def a_slice():
    values = [1.0, 2.0, 3.0]
    return lambda: sum(values[1:]), lambda: values.__setitem__(2, 9.0)


@scene
def a_chain_of_lists():
    first, second = [1.0], [2.0]
    return lambda: sum(itertools.chain(first, second)), lambda: second.append(3.0)


# ---------------------------------------------------------------------------------- objects


@scene
def a_namespace():
    options = argparse.Namespace(factor=2.0)
    return lambda: options.factor, lambda: setattr(options, "factor", 3.0)


@scene
def a_simple_namespace():
    options = types.SimpleNamespace(factor=2.0)
    return lambda: options.factor, lambda: setattr(options, "factor", 3.0)


@scene
def a_dataclass():
    @dataclasses.dataclass
    class Options:
        factor: float = 2.0

    options = Options()
    return lambda: options.factor, lambda: setattr(options, "factor", 3.0)


@scene
def slots():
    class Options:
        __slots__ = ("factor",)

    options = Options()
    options.factor = 2.0
    return lambda: options.factor, lambda: setattr(options, "factor", 3.0)


@scene
def a_class_attribute():
    class Options:
        factor = 2.0

    return lambda: Options.factor, lambda: setattr(Options, "factor", 3.0)


@scene
def an_attribute_that_hides_the_classs():
    class Options:
        factor = 2.0

    options = Options()
    return lambda: options.factor, lambda: setattr(options, "factor", 3.0)


@scene
def an_attribute_of_a_base_class():
    class Base:
        factor = 2.0

    class Options(Base):
        pass

    options = Options()
    return lambda: options.factor, lambda: setattr(Options, "factor", 3.0)


@scene
def a_property():
    class Options:
        hidden = 2.0

        @property
        def factor(self):
            return self.hidden * 2

    options = Options()
    return lambda: options.factor, lambda: setattr(options, "hidden", 3.0)


@scene
def another_property():
    class Options:
        @property
        def factor(self):
            return 2.0

    options = Options()

    def change():
        Options.factor = property(lambda self: 3.0)

    return lambda: options.factor, change


@scene
def a_descriptor():
    class Field:
        def __get__(self, instance, owner):
            return instance.values["factor"]

    class Options:
        factor = Field()

        def __init__(self):
            self.values = {"factor": 2.0}

    options = Options()
    return lambda: options.factor, lambda: options.values.update(factor=3.0)


@scene
def getattr_of_a_class():
    class Options:
        def __init__(self):
            self.values = {"factor": 2.0}

        def __getattr__(self, name):
            return self.__dict__["values"][name]

    options = Options()
    return lambda: options.factor, lambda: options.values.update(factor=3.0)


@scene
def getattribute_of_a_class():
    class Options:
        def __getattribute__(self, name):
            return values[name] if name in values else object.__getattribute__(self, name)

    options, values = Options(), {"factor": 2.0}
    return lambda: options.factor, lambda: values.update(factor=3.0)


@scene
def getitem_of_a_class():
    class Options:
        def __init__(self):
            self.values = {"factor": 2.0}

        def __getitem__(self, name):
            return self.values[name]

    options = Options()
    return lambda: options["factor"], lambda: options.values.update(factor=3.0)


@scene
def a_subclass_of_dict():
    class Options(dict):
        def __getattr__(self, name):
            return self[name]

    options = Options(factor=2.0)
    return lambda: options.factor, lambda: options.update(factor=3.0)


@scene
def a_call_of_an_object():
    class Schedule:
        factor = 2.0

        def __call__(self):
            return self.factor

    schedule = Schedule()
    return lambda: schedule(), lambda: setattr(schedule, "factor", 3.0)


@scene
def a_truth_of_an_object():
    class Switch:
        on = True

        def __bool__(self):
            return self.on

    switch = Switch()
    return lambda: 2.0 if switch else 3.0, lambda: setattr(switch, "on", False)


@scene
def a_length_of_an_object():
    class Data:
        count = 2

        def __len__(self):
            return self.count

    data = Data()
    return lambda: float(len(data)), lambda: setattr(data, "count", 3)


@scene
def an_operator_of_an_object():
    class Money:
        def __init__(self, amount):
            self.amount = amount

        def __mul__(self, other):
            return self.amount * other

    money = Money(2.0)
    return lambda: money * 2, lambda: setattr(money, "amount", 3.0)


@scene
def a_comparison_of_objects():
    class Version:
        number = 1

        def __lt__(self, other):
            return self.number < other.number

    old, new = Version(), Version()
    return lambda: 2.0 if old < new else 3.0, lambda: setattr(new, "number", 2)


@scene
def an_enum():
    class Mode(enum.Enum):
        FAST, SLOW = 1.0, 2.0

    options = types.SimpleNamespace(mode=Mode.FAST)
    return lambda: options.mode.value, lambda: setattr(options, "mode", Mode.SLOW)


class Pair(NamedTuple):
    a: float
    b: float


@scene
def a_namedtuple():
    options = types.SimpleNamespace(pair=Pair(1.0, 2.0))
    return lambda: options.pair.b, lambda: setattr(options, "pair", Pair(1.0, 3.0))


@scene
def a_namedtuple_with_a_list():
    pair = Pair([1.0], 2.0)
    return lambda: pair.a[0], lambda: pair.a.__setitem__(0, 3.0)


@scene
def a_weak_reference():
    class Options:
        factor = 2.0

    options = Options()
    reference = weakref.ref(options)
    return lambda: reference().factor, lambda: setattr(options, "factor", 3.0)


@scene
def a_class_exchanged():
    class Two:
        def factor(self):
            return 2.0

    class Three:
        def factor(self):
            return 3.0

    x = Two()
    return lambda: x.factor(), lambda: setattr(x, "__class__", Three)


@scene
def a_dict_of_an_object():
    options = types.SimpleNamespace(factor=2.0)
    return lambda: vars(options)["factor"], lambda: vars(options).update(factor=3.0)


@scene
def an_attribute_by_name():
    options = types.SimpleNamespace(factor=2.0)
    name = "factor"
    return lambda: getattr(options, name), lambda: setattr(options, "factor", 3.0)


@scene
def an_attribute_that_comes():
    options = types.SimpleNamespace()
    return (lambda: 3.0 if hasattr(options, "on") else 2.0), lambda: setattr(options, "on", 1)


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
            lambda: order.update(a=3))  # fmt: skip


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
    lambda m, args: (args[0] * 2,)).remove)  # fmt: skip


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
          lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))  # fmt: skip
of_layers("a parameter put into a layer's dict",
          lambda net: net[0]._parameters.update(weight=nn.Parameter(torch.ones(3, 3))),
          lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()))  # fmt: skip
of_layers("a layer that a dict of modules loses", lambda net: net.pop("b") and None,
          lambda: nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()}))  # fmt: skip
of_layers("a layer that a list of modules gets", lambda net: net.append(nn.Tanh()) and None,
          lambda: nn.ModuleList([nn.Linear(3, 3)]))  # fmt: skip


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_state_that_a_step_reads(name: str, mode: str, change_at: int) -> None:
    compare(SCENES[name], mode, change_at)
