"""Idioms between a step and the state that it reads: iteration, unpacking, calls, conversions."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import json
import math
import operator
import statistics
import types
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .scenario import compare
from .state_scenes import Scenes

WHEN = (("now", 4), ("default", 8))  # mode, and before which call
SCENES = Scenes()
scene = SCENES.add


def namespace(**values: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**values)


# ------------------------------------------------------------------- iteration and unpacking


@scene
def a_negative_index():
    values = [1.0, 2.0]
    return lambda: values[-1], lambda: values.append(7.0)


@scene
def a_sum_over_lengths():
    tensors = [torch.ones(2), torch.ones(3)]
    return (lambda: float(sum(t.numel() for t in tensors)),
            lambda: tensors.append(torch.ones(4)))


@scene
def a_dict_comprehension():
    flags, values = {"a": True, "b": False}, {"a": 1.0, "b": 2.0}
    return (lambda: sum({k: v for k, v in values.items() if flags[k]}.values()),
            lambda: flags.update(b=True))


@scene
def any_of_some_flags():
    flags = [False, False]
    return lambda: 2.0 if any(f for f in flags) else 1.0, lambda: flags.__setitem__(1, True)


@scene
def the_greatest_value():
    table = {"a": 1.0}
    return lambda: max(table.values()), lambda: table.update(b=4.0)


@scene
def zipped_lists():
    a, b = [1.0, 2.0], [3.0, 4.0]
    return (lambda: sum(x * y for x, y in zip(a, b, strict=True)),
            lambda: b.__setitem__(0, 9.0))


@scene
def a_tuple_of_a_list_unpacked():
    parts = ([1.0, 3.0], 2.0)

    def factor():
        (a, b), c = parts
        return a + b + c

    return factor, lambda: parts[0].__setitem__(0, 4.0)


@scene
def a_starred_unpacking():
    rows = [[1.0, 2.0], [3.0]]

    def factor():
        first, *others = rows
        return first[0] + others[0][0]

    return factor, lambda: rows[1].__setitem__(0, 9.0)


@scene
def sorted_items():
    table = {"b": 1.0, "a": 2.0}
    return lambda: sorted(table.items())[0][1], lambda: table.update(a=5.0)


@scene
def sorted_objects():
    points = [namespace(rank=1, value=2.0), namespace(rank=2, value=3.0)]
    return (lambda: sorted(points, key=lambda p: p.rank)[0].value,
            lambda: setattr(points[0], "rank", 9))


@scene
def the_key_of_a_maximum():
    ranks, values = {"a": 1, "b": 2}, {"a": 2.0, "b": 3.0}
    return lambda: values[max(ranks, key=ranks.get)], lambda: ranks.update(a=9)


@scene
def a_filter():
    options, values = namespace(least=1.5), [1.0, 2.0, 3.0]
    return (lambda: sum(filter(lambda v: v > options.least, values)),
            lambda: setattr(options, "least", 2.5))


@scene
def attributes_by_map():
    points = [namespace(value=1.0)]
    return (lambda: sum(map(lambda p: p.value, points)),  # noqa: C417
            lambda: setattr(points[0], "value", 4.0))


@scene
def a_fold():
    values = [1.0, 2.0]
    return lambda: functools.reduce(operator.add, values), lambda: values.append(3.0)


@scene
def a_product():
    values = [1.0, 2.0]
    return lambda: math.prod(values), lambda: values.append(3.0)


@scene
def a_mean():
    values = [1.0, 2.0]
    return lambda: statistics.fmean(values), lambda: values.append(3.0)


@scene
def an_object_with_getitem():
    class Values:
        def __init__(self):
            self.values = [1.0, 2.0]

        def __getitem__(self, i):
            return self.values[i]

        def __len__(self):
            return len(self.values)

    values = Values()
    return (lambda: sum(values[i] for i in range(len(values))),
            lambda: values.values.append(5.0))


@scene
def an_object_with_iter():
    class Values:
        def __init__(self):
            self.values = [1.0, 2.0]

        def __iter__(self):
            return iter(self.values)

    values = Values()
    return lambda: sum(v for v in values), lambda: values.values.append(5.0)


@scene
def a_delegating_generator():
    table = {"value": 2.0}

    def inner():
        yield table["value"]

    def outer():
        yield from inner()

    return lambda: sum(outer()), lambda: table.update(value=4.0)


@scene
def a_while_loop():
    options = namespace(count=2)

    def factor():
        i = 0
        while i < options.count:
            i += 1
        return float(i)

    return factor, lambda: setattr(options, "count", 4)


# --------------------------------------------------------------------- comparing and choosing


@scene
def lists_that_are_equal():
    a, b = [[1], 2], [[3], 2]
    return lambda: 2.0 if a == b else 1.0, lambda: b[0].__setitem__(0, 1)


@scene
def objects_that_are_equal():
    class Version:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return self.number == other.number

        __hash__ = None

    a, b = Version(1), Version(2)
    return lambda: 2.0 if a == b else 1.0, lambda: setattr(b, "number", 1)


@scene
def a_list_or_another():
    values = []
    return lambda: float(len(values or [1, 2])), lambda: values.append(1)


@scene
def nothing_or_something():
    options = namespace(value=None)
    return lambda: 2.0 if options.value is None else 1.0, lambda: setattr(options, "value", 1)


@scene
def a_match():
    options = namespace(value=1)

    def factor():
        match options.value:
            case 1:
                return 2.0
            case _:
                return 3.0

    return factor, lambda: setattr(options, "value", 2)


@scene
def an_assertion():
    options = namespace(count=2)

    def factor():
        assert options.count < 3, "too large"
        return 2.0

    return factor, lambda: setattr(options, "count", 4)


@scene
def a_cache_in_a_dict():
    cache, base = {}, [2.0]

    def value(n):
        if n not in cache:
            cache[n] = base[0] * n
        return cache[n]

    def change():
        cache.clear()
        base[0] = 5.0

    return lambda: value(2), change


# ------------------------------------------------------------------------ calls and conversions


@scene
def a_call_with_a_star():
    values = [1.0, 2.0]

    def add(a, b):
        return a + b

    return lambda: add(*values), lambda: values.__setitem__(0, 9.0)


@scene
def a_call_with_two_stars():
    values = {"a": 1.0, "b": 2.0}

    def add(a, b):
        return a + b

    return lambda: add(**values), lambda: values.update(a=9.0)


@scene
def a_default_that_is_a_dict():
    table = {"value": 2.0}

    def factor(options=table):
        return options["value"]

    return lambda: factor(), lambda: table.update(value=4.0)


@scene
def a_function_of_a_function():
    table = {"value": 2.0}

    def outer():
        def inner():
            return table["value"]

        return inner

    return lambda: outer()(), lambda: table.update(value=4.0)


@scene
def a_constructor_that_reads():
    options = namespace(value=2.0)

    class Reader:
        def __init__(self):
            self.value = options.value

    return lambda: Reader().value, lambda: setattr(options, "value", 4.0)


@scene
def an_attribute_getter():
    options, get = namespace(value=2.0), operator.attrgetter("value")
    return lambda: get(options), lambda: setattr(options, "value", 3.0)


@scene
def text_of_an_object():
    class Label:
        number = 2

        def __str__(self):
            return str(self.number)

    label = Label()
    return lambda: float(str(label)), lambda: setattr(label, "number", 3)


@scene
def a_number_of_an_object():
    class Amount:
        value = 2.0

        def __float__(self):
            return self.value

    amount = Amount()
    return lambda: float(amount), lambda: setattr(amount, "value", 3.0)


@scene
def a_formatted_number():
    options = namespace(value=2)
    return lambda: float(f"{options.value}"), lambda: setattr(options, "value", 3)


@scene
def text_that_is_parsed():
    options = namespace(text='{"value": 2}')
    return (lambda: float(json.loads(options.text)["value"]),
            lambda: setattr(options, "text", '{"value": 3}'))


@dataclasses.dataclass
class Options:
    value: float = 2.0
    values: list = dataclasses.field(default_factory=lambda: [1.0])


@scene
def a_replaced_dataclass():
    options = Options()
    return (lambda: dataclasses.replace(options, values=[2.0]).value,
            lambda: setattr(options, "value", 5.0))


@scene
def a_copy():
    options = Options()
    return lambda: copy.deepcopy(options).values[0], lambda: options.values.__setitem__(0, 3.0)


@scene
def a_view_of_a_dict():
    table = {"value": 2.0}
    view = types.MappingProxyType(table)
    return lambda: view["value"], lambda: table.update(value=3.0)


@scene
def a_chain_of_dicts():
    first, second = {}, {"value": 2.0}
    chain = collections.ChainMap(first, second)
    return lambda: chain["value"], lambda: first.update(value=3.0)


@scene
def a_numpy_scalar():
    values = [np.float32(2.0)]
    return lambda: float(values[0]), lambda: values.__setitem__(0, np.float32(3.0))


@scene
def bytes_in_place():
    data = bytearray(b"\x01\x02")
    return lambda: float(data[1]), lambda: data.__setitem__(1, 5)


# --------------------------------------------------------------------- tensors and optimizers


@scene
def a_tensor_in_a_list():
    tensors = [torch.ones(3)]
    return None, lambda: tensors.__setitem__(0, torch.full((3,), 2.0)), lambda x: x * tensors[0]


@scene
def the_data_of_a_tensor():
    tensor = torch.ones(3)

    def change():
        tensor.data = torch.full((3,), 5.0)

    return None, change, lambda x: x * tensor


@scene
def a_flag_of_a_tensor():
    tensor = torch.ones(3)
    return None, lambda: tensor.requires_grad_() is None, lambda x: x * tensor


@scene
def a_function_in_a_table():
    table = {"activation": F.relu}
    return None, lambda: table.update(activation=F.gelu), lambda x: table["activation"](x)


@scene
def the_rate_of_dropout():
    dropout = nn.Dropout(0.5)
    return None, lambda: setattr(dropout, "p", 0.0), lambda x: dropout(x)


@scene
def the_momentum_of_batch_norm():
    norm = nn.BatchNorm1d(3)
    return (None, lambda: setattr(norm, "momentum", 0.9),
            lambda x: (norm(x).detach(), norm.running_mean.clone()))


@scene
def a_learning_rate_that_is_read():
    optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
    groups = optimizer.param_groups
    return None, lambda: groups[0].update(lr=0.7), lambda x: x * groups[0]["lr"]


def descent(optimizer: Any, weight: torch.Tensor) -> Any:
    """A step of whatever optimizer `optimizer()` gives."""

    def step(x):
        optimizer().zero_grad()
        (x * weight).sum().backward()
        optimizer().step()
        return weight.detach().clone()

    return step


@scene
def weight_decay():
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    change = functools.partial(optimizer.param_groups[0].update, weight_decay=0.5)
    return None, change, descent(lambda: optimizer, weight)


@scene
def another_optimizer():
    weight = torch.ones(3, requires_grad=True)
    trainer = namespace(optimizer=torch.optim.SGD([weight], lr=0.1))
    other = torch.optim.Adam([weight], lr=0.5)
    return (None, lambda: setattr(trainer, "optimizer", other),
            descent(lambda: trainer.optimizer, weight))


@scene
def whether_gradients_are_recorded():
    options, weight = namespace(on=True), torch.ones(3, requires_grad=True)

    def step(x):
        with torch.set_grad_enabled(options.on):
            return x * weight

    return None, lambda: setattr(options, "on", False), step


@scene
def whether_autocast_is_on():
    torch.manual_seed(0)
    options, layer = namespace(on=False), nn.Linear(3, 3)

    def step(x):
        with torch.autocast("cpu", enabled=options.on):
            return layer(x).detach().float()

    return None, lambda: setattr(options, "on", True), step


@pytest.mark.parametrize(("mode", "change_at"), WHEN)
@pytest.mark.parametrize("name", SCENES)
def test_state_behind_an_idiom(name: str, mode: str, change_at: int) -> None:
    compare(SCENES[name], mode, change_at)
