"""Special methods that a step runs unseen: of classes, operators, truth, text, iteration, death."""

from __future__ import annotations

import abc
import collections
import collections.abc
import typing

import pytest

import flambeau as torch

from .scenario import compare
from .state_scenes import MOSTLY_SLOW, Scenes, namespace

SCENES = Scenes()
scene = SCENES.add


@scene
def an_attribute_of_a_metaclass():
    class Meta(type):
        @property
        def scale(cls):
            return cls.base

    class Config(metaclass=Meta):
        base = 2.0

    return lambda: Config.scale, lambda: setattr(Config, "base", 4.0)


@scene
def a_getattr_of_a_metaclass():
    table = {"scale": 2.0}

    class Meta(type):
        def __getattr__(cls, name):
            return table[name]

    class Config(metaclass=Meta):
        pass

    return lambda: Config.scale, lambda: table.update(scale=4.0)


@scene
def a_getitem_of_a_metaclass():
    table = {"scale": 2.0}

    class Meta(type):
        def __getitem__(cls, name):
            return table[name]

    class Config(metaclass=Meta):
        pass

    return lambda: Config["scale"], lambda: table.update(scale=4.0)


@scene
def a_class_getitem():
    table = {"scale": 2.0}

    class Config:
        def __class_getitem__(cls, name):
            return table[name]

    return lambda: Config["scale"], lambda: table.update(scale=4.0)


@scene
def an_instance_check_of_a_metaclass():
    known = [int]

    class Meta(type):
        def __instancecheck__(cls, x):
            return type(x) in known

    class Number(metaclass=Meta):
        pass

    return lambda: 2.0 if isinstance(3, Number) else 1.0, lambda: known.clear()


@scene
def an_abstract_class_that_registers():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    square = Square()
    return (lambda: 2.0 if isinstance(square, Shape) else 1.0, lambda: Shape.register(Square))


@scene
def a_subclass_check_that_registers():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    return (lambda: 2.0 if issubclass(Square, Shape) else 1.0, lambda: Shape.register(Square))


@scene
def a_runtime_protocol():
    @typing.runtime_checkable
    class Scaled(typing.Protocol):
        scale: float

    config = namespace()
    return (lambda: 2.0 if isinstance(config, Scaled) else 1.0,
            lambda: setattr(config, "scale", 1.0))


@scene
def a_collection_by_its_methods():
    class Bag:
        pass

    bag = Bag()
    return (lambda: 2.0 if isinstance(bag, collections.abc.Sized) else 1.0,
            lambda: setattr(Bag, "__len__", lambda self: 3))


@scene
def callable_or_not():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if callable(config) else 1.0,
            lambda: setattr(Config, "__call__", lambda self: 3))


@scene
def a_truth_that_comes():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if config else 1.0,
            lambda: setattr(Config, "__bool__", lambda self: False))


@scene
def a_length_that_comes():
    class Config:
        pass

    config = Config()
    return (lambda: 2.0 if config else 1.0,
            lambda: setattr(Config, "__len__", lambda self: 0))


@scene
def an_equality_that_comes():
    class Config:
        pass

    a, b = Config(), Config()
    return (lambda: 2.0 if a == b else 1.0,
            lambda: setattr(Config, "__eq__", lambda self, other: True))


@scene
def a_reflected_operator_that_comes():
    class Scale:
        def __add__(self, other):
            return 2.0

    class More(Scale):
        pass

    a, b = Scale(), More()
    return lambda: a + b, lambda: setattr(More, "__radd__", lambda self, other: 5.0)


@scene
def an_operator_that_is_patched():
    class Scale:
        def __mul__(self, other):
            return 2.0

    a = Scale()
    return lambda: a * 3, lambda: setattr(Scale, "__mul__", lambda self, other: 5.0)


@scene
def an_iteration_that_is_patched():
    class Bag:
        def __iter__(self):
            yield 2.0

    def other(self):
        yield 5.0

    bag = Bag()
    return lambda: sum(bag), lambda: setattr(Bag, "__iter__", other)


@scene
def a_containment_that_is_patched():
    class Bag:
        def __contains__(self, x):
            return False

    bag = Bag()
    return (lambda: 2.0 if 1 in bag else 1.0,
            lambda: setattr(Bag, "__contains__", lambda self, x: True))


@scene
def an_index_of_an_object():
    class At:
        where = 0

        def __index__(self):
            return self.where

    at, values = At(), [2.0, 3.0]
    return lambda: values[at], lambda: setattr(at, "where", 1)


@scene
def a_float_of_an_object():
    class Scale:
        value = 2.0

        def __float__(self):
            return self.value

    scale = Scale()
    return lambda: float(scale), lambda: setattr(scale, "value", 3.0)


@scene
def a_hash_of_an_object():
    class Key:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.value == other.value

    key = Key(1)
    table = {Key(1): 2.0, Key(2): 3.0}
    return lambda: table[key], lambda: setattr(key, "value", 2)


@scene
def a_format_of_an_object():
    class Scale:
        value = 2.0

        def __format__(self, spec):
            return str(self.value)

    scale = Scale()
    return lambda: float(f"{scale}"), lambda: setattr(scale, "value", 3.0)


@scene
def an_attribute_inside_a_format():
    class Scale:
        value = 2.0

        def __call__(self):
            return 1

    scale = Scale()
    return lambda: float(f"{scale.value}"), lambda: setattr(scale, "value", 3.0)


@scene
def an_attribute_of_a_function_inside_a_format():
    def scale():
        return 1

    scale.value = 2.0
    return lambda: float(f"{scale.value}"), lambda: setattr(scale, "value", 3.0)


@scene
def a_repr_of_an_object():
    class Scale:
        value = 2.0

        def __repr__(self):
            return str(self.value)

    scale = Scale()
    return lambda: float(repr(scale)), lambda: setattr(scale, "value", 3.0)


@pytest.mark.parametrize("base", [object, collections.namedtuple("Pair", "x y")])
def test_an_object_made_in_the_step_runs_its_del_on_every_call(base):
    deaths = []

    class Guard(base):
        pass

    def step(x):
        Guard(*(1, 2) if base is not object else ())
        return x * 2

    step = torch.compile(step, options={"mode": "now"})
    for call in range(8):
        if call == 4:
            Guard.__del__ = lambda self: deaths.append(1)
        step(torch.ones(3))
    assert len(deaths) == 4


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("wraps", ["finally", "with", "yield from"])
def test_a_dropped_generator_cleans_up_in_every_call(wraps, follow):
    closed = []

    class Scope:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            closed.append(1)

    scope = Scope()

    def guarded(x):
        try:
            while True:
                x = x * 2
                yield x
        finally:
            closed.append(1)

    def scoped(x):
        with scope:
            yield x * 2
            yield x * 4

    def delegated(x):
        yield from guarded(x)

    generator = {"finally": guarded, "with": scoped, "yield from": delegated}[wraps]

    def step(x):
        values = generator(x)
        return next(values) + next(values)

    step = torch.compile(step, options={"mode": "now", "follow": follow})
    for _ in range(8):
        assert step(torch.ones(3)).tolist() == [6.0] * 3
    assert len(closed) == 8


def test_a_dropped_generator_that_has_nothing_to_clean_up_is_proved():
    def values(x):
        while True:
            x = x * 2
            yield x

    def step(x):
        source = values(x)
        return next(source) + next(source)

    step = torch.compile(step, options={"mode": "now"})
    for _ in range(4):
        assert step(torch.ones(3)).tolist() == [6.0] * 3
    assert "Python is skipped" in step.explain()


@pytest.mark.parametrize(("mode", "change_at"), MOSTLY_SLOW)
@pytest.mark.parametrize("name", SCENES)
def test_what_special_methods_give(name, mode, change_at):
    compare(SCENES[name], mode, change_at)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [
    {"mode": "now", "follow": False}, {"mode": "now"}, {"mode": "default"}])
@pytest.mark.parametrize("reads", ["x * guard.scale", "x * 2 if guard is not None else x"])
def test_an_argument_that_nobody_else_holds_dies_after_its_call(reads, options):
    deaths = []

    class Guard:
        scale = 2.0

        def __del__(self):
            deaths.append(1)

    space = {}
    exec(f"def step(x, guard):\n    return {reads}", space)
    step = torch.compile(space["step"], options=options, backend="evaluate")
    for call in range(8):
        step(torch.ones(3), Guard())
        assert len(deaths) == call + 1
