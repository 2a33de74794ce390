"""State that a step reads from containers and objects, and changes that only guards see."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import enum
import itertools
import types
import weakref
from typing import NamedTuple

import numpy as np
import pytest


from .scenario import compare
from .state_scenes import WHEN, Scenes

SCENES = Scenes()
scene = SCENES.add


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


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_state_that_a_step_reads(name: str, mode: str, change_at: int) -> None:
    compare(SCENES[name], mode, change_at)
