"""Errors and interrupts at any moment of a call: afterwards everything is as eager mode leaves it
between two operators, or the call has not begun, and later calls go on from there.
"""

from __future__ import annotations

import pytest

from flambeau.native.runtime.background_jit import KernelPolicy

from . import injected_errors
from .injected_errors import WAYS, Oracle, list_first_entries, problem

SAMPLE = 2  # entries of each call in the default run
EVENTS = {"entries": ("call", "c_call"), "returns": ("c_return",)}
KINDS = {"MemoryError": MemoryError, "KeyboardInterrupt": KeyboardInterrupt}


@pytest.fixture(autouse=True)
def _errors_in_finalizers_are_dropped(monkeypatch):
    """As in eager mode: Python drops what weakref callbacks raise."""
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: None)


@pytest.fixture(autouse=True)
def _eager_arithmetic_stays_the_same(monkeypatch):
    """No kernel of small arrays starts between the oracle's calls and those compared with it:
    batch norm magnifies the other rounding."""
    monkeypatch.setattr(KernelPolicy, "allowed", False)


def complain(way, call, kind, events, backend, sample=None):
    """What is wrong after errors at the first entry into each function, or at some of these."""
    oracle = Oracle(way, call)
    entries = list_first_entries(way, call, backend, events)
    if sample is not None:
        entries = entries[len(entries) // (2 * sample) :: -(-len(entries) // sample)]
    return [text for entry in entries
            if (text := problem(oracle, entry, kind, backend, events))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("call", [0, 1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_errors_in_some_functions(way, call, kind):
    assert complain(way, call, kind, EVENTS["entries"], "evaluate", SAMPLE) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
def test_no_memory_in_machine_code(way):
    assert complain(way, 4, MemoryError, ("c_call",), None, SAMPLE) == []


def test_the_oracle_sees_a_state_that_eager_has_not(monkeypatch):
    step = injected_errors.World.step

    def half(world, x):
        world.total.mul_(2)
        return step(world, x)

    oracle = Oracle("proved", 1)
    monkeypatch.setattr(injected_errors.World, "step", half)
    assert "no such state" in problem(oracle, 0, MemoryError, "evaluate")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["evaluate", None])
@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("call", [0, 1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_errors_in_every_function(way, call, kind, events, backend):
    sample = None if call == 4 else 100
    assert complain(way, call, kind, events, backend, sample) == []
