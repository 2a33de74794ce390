"""What a program stores in Python objects after its run, and that an interrupt loses none of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flambeau.compiler.runtime.side_effects import make_performer
from flambeau.compiler.trace.host_numbers import Place
from flambeau.compiler.trace.trace import Effect


INTERRUPTS: list[str] = []


class State:
    """Interrupted while an attribute is set: before it is, or after."""


    def __setattr__(self, name: str, value: Any) -> None:
        when = INTERRUPTS.pop() if INTERRUPTS else ""
        if when == "before":
            raise KeyboardInterrupt
        object.__setattr__(self, name, value)
        if when == "after":
            raise KeyboardInterrupt


def test_one_effect_and_several_store_the_same() -> None:
    for several in (False, True):
        state, steps, history, table = State(), itertools.count(3), [1], {}
        effects = [Effect(Place(state, "n", True)), Effect(Place(steps, None)),
                   Effect(Place(history, None)), Effect(Place(table, "last"))]
        values = (5, 2, [7, 8], 9)
        if several:
            make_performer(effects)(values)
        else:
            for effect, value in zip(effects, values, strict=True):
                make_performer([effect])((value,))
        assert (state.n, next(steps), history, table) == (5, 5, [1, 7, 8], {"last": 9})


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_loses_no_attribute(when: str) -> None:
    state = State()
    state.n = 1
    INTERRUPTS.append(when)
    with pytest.raises(KeyboardInterrupt):
        make_performer([Effect(Place(state, "n", True))])((2,))
    assert state.n == 2
