"""Functions compiled in a class bind as plain ones do: copies, slots, classes, pickles."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref
from typing import Any

import pytest

import flambeau as torch

MODES = {"now": {"mode": "now"}, "default": {}, "followed": {"mode": "now", "follow": True}}
CALLS = 6


@pytest.fixture(params=MODES)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MODES[request.param]


class Scaler:
    """Of a module, so that it can be pickled; its method is compiled by the tests."""

    def __init__(self, scale: float) -> None:
        self.scale, self.calls = scale, 0

    def run(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.scale


@pytest.fixture
def scaler(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Scaler:
    monkeypatch.setattr(Scaler, "run", torch.compile(Scaler.run, options=options))
    scaler = Scaler(2.0)
    for _ in range(CALLS):
        assert scaler.run(torch.ones(1)).item() == 2
    return scaler


@pytest.mark.parametrize("duplicate", [
    copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
])
def test_a_copy_runs_its_own_method(scaler: Scaler, duplicate: Any) -> None:
    other = duplicate(scaler)
    other.scale = 5.0
    for i in range(CALLS):
        assert other.run(torch.ones(1)).item() == 5
        assert scaler.run(torch.ones(1)).item() == 2
        assert (other.calls, scaler.calls) == (CALLS + i + 1, CALLS + i + 1)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copied_method_is_that_of_a_copied_object(scaler: Scaler, duplicate: Any) -> None:
    owner, method = duplicate((scaler, scaler.run))
    assert method.__self__ is owner is not scaler
    owner.scale = 3.0
    assert method(torch.ones(1)).item() == 3
    assert (owner.calls, scaler.calls) == (CALLS + 1, CALLS)


def test_a_method_knows_its_object_and_its_function_s_attributes(scaler: Scaler) -> None:
    assert scaler.run.__self__ is scaler
    assert scaler.run.__func__ is vars(Scaler)["run"]
    assert scaler.run.__name__ == "run"

    def tagged(x: torch.Tensor) -> torch.Tensor:
        return x

    tagged.tag = "a"
    compiled = torch.compile(tagged)
    assert compiled.tag == "a" and not hasattr(compiled, "other")
    assert not hasattr(compiled, "__self__")


def test_objects_are_released(scaler: Scaler) -> None:
    reference = weakref.ref(scaler)
    other = Scaler(4.0)
    other.run(torch.ones(1))
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None and reference() is scaler


def test_objects_with_slots(options: dict[str, Any]) -> None:
    class Slotted:
        __slots__ = ("scale",)

        @functools.partial(torch.compile, options=options)
        def run(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    first, second = Slotted(), Slotted()
    first.scale, second.scale = torch.ones(1), torch.full((1,), 3.0)
    for i in range(CALLS):
        assert (first.run(torch.ones(1)).item(), second.run(torch.ones(1)).item()) == (1, 3 + i)
        second.scale = second.scale + 1


def test_methods_of_classes(options: dict[str, Any]) -> None:
    class Base:
        scale = 2.0
        own = classmethod(torch.compile(lambda cls, x: x * cls.scale, options=options))
        free = staticmethod(torch.compile(lambda x: x * Base.scale, options=options))

    class Derived(Base):
        scale = 3.0

    x = torch.ones(1)
    for _ in range(CALLS):
        assert [Base.own(x).item(), Derived.own(x).item(), Derived().own(x).item()] == [2, 3, 3]
        assert [Base.free(x).item(), Derived.free(x).item(), Derived().free(x).item()] == [2, 2, 2]
    assert not any(name.startswith("_flambeau") for name in (*vars(Base), *vars(Derived)))


def test_what_does_not_bind_stays_unbound(options: dict[str, Any]) -> None:
    class Holder:
        double = torch.compile(functools.partial(torch.mul, 2), options=options)

    for _ in range(CALLS):
        assert Holder().double(torch.ones(1)).item() == 2
