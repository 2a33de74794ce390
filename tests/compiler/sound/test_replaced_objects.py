"""Objects outside a step that the program replaces die at the next call, as no guard holds them."""

from __future__ import annotations

import gc
import types
import weakref

import pytest

import flambeau as torch
from flambeau import nn

CASES = {}


class Double(nn.Module):
    """A module without state."""

    def forward(self, x):
        return x * 2


class Store:
    """An object with attributes."""


def case(make):
    """Registers a case: `make()` returns (step, replace, the object to watch)."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


def attribute(make, use):
    """Registers cases whose step uses an attribute of an object."""

    def build():
        store = Store()

        def replace():
            store.value = make()

        replace()
        return (lambda x: use(store.value, x)), replace, (lambda: store.value)

    return build


CASES["a tensor"] = attribute(lambda: torch.ones(3), lambda v, x: x * v)
CASES["a leaf"] = attribute(lambda: torch.ones(3, requires_grad=True), lambda v, x: x * v)
CASES["a linear layer"] = attribute(lambda: nn.Linear(3, 3), lambda v, x: v(x))
CASES["a sequential"] = attribute(
    lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()), lambda v, x: v(x))
CASES["a module of a class of the program"] = attribute(Double, lambda v, x: v(x))
CASES["a function"] = attribute(lambda: (lambda k: lambda x: x * k)(2.0), lambda v, x: v(x))
CASES["a bound method"] = attribute(lambda: Double().forward, lambda v, x: v(x))


@case
def an_entry_of_a_list():
    entries = [torch.ones(3)]

    def replace():
        entries[0] = torch.ones(3)

    return (lambda x: x * entries[0]), replace, (lambda: entries[0])


@case
def an_entry_of_a_dict():
    entries = {"a": torch.ones(3)}

    def replace():
        entries["a"] = torch.ones(3)

    return (lambda x: x * entries["a"]), replace, (lambda: entries["a"])


@case
def a_closure_variable():
    value = torch.ones(3)

    def replace():
        nonlocal value
        value = torch.ones(3)

    return (lambda x: x * value), replace, (lambda: value)


_table = torch.ones(3)


@case
def a_global():
    def replace():
        global _table
        _table = torch.ones(3)

    return (lambda x: x * _table), replace, (lambda: _table)


@case
def a_parameter_of_a_module():
    net = nn.Linear(3, 3)

    def replace():
        net.weight = nn.Parameter(torch.ones(3, 3))

    return (lambda x: net(x)), replace, (lambda: net.weight)


def training(optimizer, watch, **options):
    """Registers cases of training steps whose network and optimizer are replaced."""

    def build():
        store = Store()

        def replace():
            store.net = nn.Linear(3, 3)
            store.optimizer = optimizer(store.net.parameters(), lr=0.1, **options)

        def step(x):
            store.optimizer.zero_grad()
            loss = store.net(x).square().sum()
            loss.backward()
            store.optimizer.step()
            return loss.detach()

        replace()
        return step, replace, lambda: watch(store)

    return build


CASES["a network that SGD trains"] = training(torch.optim.SGD, lambda s: s.net, momentum=0.9)
CASES["a weight that Adam trains"] = training(torch.optim.Adam, lambda s: s.net.weight)
CASES["a moment of Adam"] = training(
    torch.optim.Adam, lambda s: s.optimizer.state[s.net.weight]["exp_avg"])


@pytest.mark.parametrize("follow", (False, True))
@pytest.mark.parametrize("name", CASES)
def test_replaced_objects_die_at_the_next_call(name, follow):
    """Without garbage collection: as soon as the program's guards fail."""
    function, replace, watch = CASES[name]()
    step = torch.compile(function, options={"mode": "now", "follow": follow})
    x = torch.ones(3)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            for _ in range(10):
                step(x)
                if step.ready:
                    break
            else:
                pytest.fail(step.explain())
            step(x)
            alive = weakref.ref(watch())
            replace()
            step(x)
            assert alive() is None, _describe_referrers(alive())
    finally:
        gc.enable()


def _describe_referrers(value, depth=5):
    """List what holds an object, and what holds that, up to the program or recording behind it."""
    gc.unfreeze()  # frozen objects are no referrers
    seen, level, lines = {id(value)}, [value], []
    for distance in range(depth):
        holders = []
        for referrer in gc.get_referrers(*level):
            if id(referrer) in seen or referrer is level or isinstance(referrer, types.FrameType):
                continue
            seen.add(id(referrer))
            holders.append(referrer)
            keys = [key for key, x in referrer.items() if any(x is y for y in level)] \
                if isinstance(referrer, dict) else ""
            lines.append(f"{distance}: {type(referrer).__qualname__} {keys} {repr(referrer)[:100]}")
        level = holders[:20]
    return "\n".join(lines[:60])


def test_modules_of_another_structure_take_over_the_specialization():
    """The modules named by the step, whose flags are in its key, are those of now."""
    store = Store()
    step = torch.compile(lambda x: store.value(x), mode="now")
    x = torch.ones(3)
    for depth in (1, 3, 2):
        store.value = nn.Sequential(*[nn.Linear(3, 3) for _ in range(depth)])
        for _ in range(4):
            step(x)
        assert step.ready
        assert len(step._specializations._table) == 1
        assert step._specializations.list_roots() == [store.value]


def test_forgotten_programs_free_what_they_read():
    """Without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        value = torch.ones(3)
        entries = [value]
        step = torch.compile(lambda x: x * entries[0], mode="now")
        for _ in range(4):
            step(torch.ones(3))
        assert step.ready
        alive = weakref.ref(value)
        step.forget()
        del value
        entries.clear()
        assert alive() is None
    finally:
        gc.enable()
