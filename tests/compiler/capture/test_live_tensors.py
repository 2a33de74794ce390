"""Which tensors a recorded call meets."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.compiler.capture.live_tensors import find_live_tensors


class Kind(torch.Tensor):
    """A class of the user's."""


def is_met(tensor: torch.Tensor) -> bool:
    return any(other is tensor for other in find_live_tensors())


def test_tensors_and_their_subclasses_are_met() -> None:
    assert is_met(torch.ones(2))
    assert is_met(torch.ones(2).as_subclass(Kind))


def test_a_tensor_under_construction_is_not() -> None:
    bare = object.__new__(torch.Tensor)
    assert not is_met(bare)


def test_an_interrupted_construction_keeps_no_call_from_being_recorded() -> None:
    unfinished = object.__new__(torch.Tensor)
    unfinished._array = torch.ones(2)._array
    unfinished._requires_grad = unfinished._tracked = False  # an interrupt struck here
    assert not is_met(unfinished)
    compiled = torch.compile(lambda x: x * 2, options={"mode": "now"})
    assert [compiled(torch.ones(2)).tolist() for _ in range(4)] == [[2, 2]] * 4


@pytest.fixture
def _thawed_afterwards():
    """Ends the test's freezes, and leaves frozen what was."""
    before = gc.get_freeze_count()
    yield
    gc.unfreeze()
    gc.collect()  # frozen garbage would hold tensors that later tests expect to die
    if before:
        gc.freeze()


@pytest.mark.usefixtures("_thawed_afterwards")
def test_frozen_tensors_are_met_while_they_live() -> None:
    """`gc.freeze()` hides objects from the collector; thawed ones are met once."""
    early, late = torch.ones(2), torch.ones(2)
    gc.freeze()
    assert is_met(early)
    assert is_met(torch.ones(2))
    gc.freeze()
    assert is_met(late) and is_met(early)
    gc.unfreeze()
    assert sum(other is early for other in find_live_tensors()) == 1
    gc.freeze()
    frozen = id(late)
    del late
    assert all(id(other) != frozen for other in find_live_tensors())


@pytest.mark.usefixtures("_thawed_afterwards")
def test_a_step_on_frozen_tensors_is_proved() -> None:
    weight = torch.ones(3)
    step = torch.compile(lambda x: (x * weight).sum(), options={"mode": "now"})
    gc.freeze()
    for scale in (1, 1, 1, 1, 2):
        weight.fill_(scale)
        assert step(torch.ones(3)) == 3 * scale
    assert "proved" in str(step.explain())


@pytest.mark.usefixtures("_thawed_afterwards")
def test_frozen_tensors_may_be_swapped() -> None:
    """The library's weak references to frozen tensors are not the program's."""
    a, b = torch.ones(2), torch.zeros(3)
    gc.freeze()
    assert is_met(a) and is_met(b)
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0, 0]
    assert is_met(a) and is_met(b)
    reference = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        torch.utils.swap_tensors(a, b)
    assert reference() is a
