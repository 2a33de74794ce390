"""Stub sets: on while somebody needs them, off while suspended, with functions that came since."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from flambeau.ops.interception import stub_set
from flambeau.ops.interception.stub_set import StubSet


def double(x: int) -> int:
    return 2 * x


def triple(x: int) -> int:
    return 3 * x


def _add(number: int, original, args: tuple, kwargs: dict) -> int:
    return original(*args, **kwargs) + number


@pytest.fixture
def targets() -> dict:
    return {double: (_add, 100)}


@pytest.fixture
def stubs(targets: dict) -> Iterator[StubSet]:
    result = StubSet(lambda: targets)
    yield result
    result.modes, result.permanent = 0, False
    result.update()
    stub_set.STUB_SETS.remove(result)


def test_stubs_are_on_while_a_mode_is(stubs: StubSet) -> None:
    stubs.enter()
    stubs.enter()
    stubs.leave()
    assert double(1) == 102
    stubs.leave()
    assert double(1) == 2


def test_suspensions_nest(stubs: StubSet) -> None:
    stubs.need_always()
    stubs.suspend()
    stubs.suspend()
    stubs.restore()
    assert double(1) == 2  # the outer suspension lasts
    stubs.restore()
    assert double(1) == 102
    stubs.restore()  # once more, after an interrupt
    assert double(1) == 102


def test_stubs_that_nobody_needs_any_more_stay_off(stubs: StubSet) -> None:
    stubs.enter()
    stubs.suspend()
    stubs.modes = 0
    stubs.restore()
    assert double(1) == 2


def test_another_thread_waits_until_all_stubs_are_on() -> None:
    began, result = threading.Event(), []

    def find_targets() -> dict:
        began.set()
        time.sleep(0.05)
        return {double: (_add, 100)}

    stubs = StubSet(find_targets)
    first = threading.Thread(target=stubs.need_always)
    first.start()
    try:
        assert began.wait(10)
        stubs.need_always()
        result.append(double(1))
        first.join()
    finally:
        stubs.permanent = False
        stubs.update()
        stub_set.STUB_SETS.remove(stubs)
    assert result == [102]


def test_an_interrupted_installation_is_finished_by_the_next_call() -> None:
    interrupts = [KeyboardInterrupt()]

    def find_targets() -> dict:
        if interrupts:
            raise interrupts.pop()
        return {double: (_add, 100)}

    stubs = StubSet(find_targets)
    try:
        with pytest.raises(KeyboardInterrupt):
            stubs.need_always()
        stubs.need_always()
        assert double(1) == 102
    finally:
        stubs.permanent = False
        stubs.update()
        stub_set.STUB_SETS.remove(stubs)


def test_functions_that_became_targets_or_others_are_renewed(
    stubs: StubSet, targets: dict,
) -> None:
    stubs.need_always()
    swap = stubs.swaps[double]
    targets[triple] = (_add, 1000)
    stubs.renew()
    assert (double(1), triple(1)) == (102, 1003)
    assert stubs.swaps[double] is swap
    stubs.suspend()
    del targets[double]
    targets[triple] = (_add, 10)
    stubs.renew()
    assert (double(1), triple(1)) == (2, 13)
