"""Objects among the arguments: a program compares what it read of them, and keeps none alive."""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref

import pytest

import flambeau as torch

from .scenario import CALLS, Scene, compare, wait_for_program


class Batch:
    """An object of the step's own class."""

    def __init__(self, **parts):
        self.__dict__.update(parts)

    def scaled(self, x):
        return x * self.scale


class Slots:
    """An object without a `__dict__`."""

    __slots__ = ("__weakref__", "scale")

    def __init__(self, scale):
        self.scale = scale


@dataclasses.dataclass
class Config:
    """A dataclass that holds another object."""

    inner: Batch
    flag: bool = True


def read(x, b):
    return x * b.scale


def read_nothing(x, b):
    return x * 2


def decide(x, b):
    return x * 2 if b.scale > 1 else x * 3


def read_inner(x, b):
    return b.inner.scaled(x) if b is not None and isinstance(b, Config) and b.flag else x


def read_tensor(x, b):
    return x + b.weights[0]


def write(x, b):
    b.total = (x * b.scale).sum()
    return b.total * 2


def call(x, b):
    return b(x)


def plain(scale):
    return Batch(scale=scale)


CASES = {
    "an attribute": (read, plain), "a slot": (read, Slots), "nothing": (read_nothing, plain),
    "a decision": (decide, plain),
    "an inner object": (read_inner, lambda scale: Config(Batch(scale=scale))),
    "a tensor in a list": (read_tensor, lambda scale: Batch(weights=[torch.full((3,), scale)])),
    "a write": (write, plain),
    "a function": (call, lambda scale: lambda x: x * scale),
}


@pytest.mark.parametrize("mode", ("now", "default"))
@pytest.mark.parametrize("case", CASES)
def test_an_argument_dies_with_its_call(case, mode):
    """No recording, program or build outlives its call with an argument, and the value read of
    each counts."""
    function, make = CASES[case]
    step = torch.compile(function, options={"mode": mode, "follow": True})
    x = torch.ones(3)
    gc.collect()
    gc.disable()
    try:
        for i in range(CALLS):
            scale = 2.0 if i < 8 else 0.5
            argument = make(scale)
            expected, result = function(x, argument), step(x, argument)
            assert torch.equal(result, expected), i
            alive = weakref.ref(argument)
            del argument, result
            if mode == "default" and i == 5:
                wait_for_program(step)
            assert alive() is None, f"call {i}"
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", ("now", "default"))
@pytest.mark.parametrize("grad", (False, True))
def test_tensors_die_with_their_call(mode, grad):
    """Neither argument tensors nor results are held by recordings and builds."""
    step = torch.compile(lambda x, y: (x * y).sin(), mode=mode)
    gc.collect()
    gc.disable()
    try:
        for i in range(6):
            x, y = torch.ones(3, requires_grad=grad), torch.ones(3)
            result = step(x, y)
            alive = [weakref.ref(t) for t in (x, y, result)]
            del x, y, result
            assert [t() for t in alive] == [None, None, None], i
    finally:
        gc.enable()


def test_a_program_serves_all_objects_of_a_class():
    """What was read is guarded, not the object."""
    step = torch.compile(read, mode="now")
    for _ in range(5):
        step(torch.ones(3), plain(2.0))
    assert [program.calls for program in step._programs] == [4]


def aliasing(make_step, arguments):
    """A scene whose arguments alias from some call on."""
    def make():
        state = types.SimpleNamespace(shared=plain(2.0), aliased=False)
        return Scene(make_step(state), lambda: setattr(state, "aliased", True),
                     lambda: arguments(state))

    return make


def write_first(state):
    def step(x, a, b):
        a.scale = 3.0
        return x * b.scale  # of another object, until the arguments alias

    return step


def write_shared(state):
    def step(x, a):
        state.shared.scale = 5.0
        return x * a.scale

    return step


def compare_identity(state):
    return lambda x, a: x * 2 if a is state.shared else x * 3


def look_up(state):
    return lambda x, a: x * {state.shared: 2.0}.get(a, 3.0)


def count(state):
    def step(x, a):
        a.scale += 1
        return x * 2

    return step


def same_or_other(state):
    state.shared.scale = 2.0
    return torch.ones(3), state.shared if state.aliased else plain(2.0)


def twice_or_other(state):
    state.shared.scale = 2.0
    return torch.ones(3), state.shared, state.shared if state.aliased else plain(2.0)


@pytest.mark.parametrize("change_at", (1, 3, 8))
@pytest.mark.parametrize("mode", ("now", "default"))
@pytest.mark.parametrize(("step", "arguments"), [
    (write_first, twice_or_other), (write_shared, same_or_other),
    (compare_identity, same_or_other), (look_up, same_or_other), (count, same_or_other)])
def test_objects_that_alias(step, arguments, mode, change_at):
    """An object may be another argument's, or one from outside, from some call on."""
    compare(aliasing(step, arguments), mode, change_at)
