"""The driver's states: one scene per transition of the table, and the refusal of all others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.compiler.driver.compiled_function import Compiled
from flambeau.compiler.driver.program_builder import ProgramBuilder
from flambeau.compiler.driver.specialization import Specialization
from flambeau.compiler.driver.specializations import Specializations
from flambeau.compiler.driver.states import (
    TRANSITIONS, Building, Eager, Event, Followed, ImpossibleTransition, Installed, New, Outdated,
    Recorded, State, check_transition, format_table,
)
from flambeau.compiler.trace.trace import Trace
from flambeau.compiler.validation.reference import Reference

STATES = (New, Recorded, Building, Installed, Outdated, Eager, Followed)
Transition = tuple[type[State], Event]


@pytest.fixture
def transitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Transition]:
    """The transitions of all specializations; NumPy evaluates the programs."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ProgramBuilder, "build", lambda self, graph, arena=None: Reference(graph))
    log: list[Transition] = []
    become = Specialization.become

    def logged(self: Specialization, event: Event, state: State) -> None:
        before = type(self.state)
        become(self, event, state)
        assert type(self.state) is TRANSITIONS[before, event]
        log.append((before, event))

    monkeypatch.setattr(Specialization, "become", logged)
    return log


def compile_step(function: Callable, **options: Any) -> Any:
    return torch.compile(function, options=options)


def finish_builds(step: Any) -> None:
    for build in step._specializations.list_builds():
        assert build.done.wait(10)


def call(step: Any, times: int, n: int = 3) -> None:
    for _ in range(times):
        step(torch.ones(n))


def test_a_first_call_warms_up(transitions: list[Transition]) -> None:
    call(compile_step(lambda x: x * 2), 1)
    assert transitions == []


def test_new_is_recorded(transitions: list[Transition]) -> None:
    call(compile_step(lambda x: x * 2), 2)
    assert transitions == [(New, Event.RECORDED)]


def test_recorded_is_recorded_and_submitted(transitions: list[Transition]) -> None:
    call(compile_step(lambda x: x * 2), 3)
    assert transitions[1:] == [(Recorded, Event.RECORDED), (Recorded, Event.SUBMITTED)]


def test_a_build_is_installed(transitions: list[Transition]) -> None:
    step = compile_step(lambda x: x * 2)
    call(step, 3)
    finish_builds(step)
    call(step, 2)
    assert transitions[3:] == [(Building, Event.INSTALLED)]
    assert step._programs[0].calls == 2


def test_a_build_that_nobody_finishes_leaves_calls_eager(
    transitions: list[Transition], monkeypatch: pytest.MonkeyPatch
) -> None:
    go, step = threading.Event(), compile_step(lambda x: x * 2)

    def wait(self: ProgramBuilder, graph: Any, arena: Any = None) -> Reference:
        assert go.wait(10)
        return Reference(graph)

    monkeypatch.setattr(ProgramBuilder, "build", wait)
    call(step, 6)
    assert transitions[3:] == []
    go.set()
    finish_builds(step)


def test_a_build_restarts_where_the_optimizer_has_other_state(
    transitions: list[Transition], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)

    def train(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    step = compile_step(train)
    call(step, 3)
    while not transitions or transitions[-1] != (Recorded, Event.SUBMITTED):
        call(step, 1)
        assert len(transitions) < 10
    finish_builds(step)
    optimizer.load_state_dict(optimizer.state_dict())
    call(step, 1)
    assert transitions[-1] == (Building, Event.RESTARTED)


def test_a_build_that_fails_stops(
    transitions: list[Transition], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ProgramBuilder, graph: Any, arena: Any = None) -> Any:
        raise ValueError("no code")

    monkeypatch.setattr(ProgramBuilder, "build", fail)
    step = compile_step(lambda x: x * 2)
    call(step, 3)
    finish_builds(step)
    with pytest.warns(UserWarning, match="no code"):
        call(step, 1)
    call(step, 2)
    assert transitions[3:] == [(Building, Event.STOPPED)]


def test_where_calls_wait_the_first_proved_call_gets_a_program(
    transitions: list[Transition]
) -> None:
    step = torch.compile(lambda x: x * 2, mode="now")
    call(step, 1)
    assert transitions == [(New, Event.RECORDED), (Recorded, Event.INSTALLED)]
    call(step, 1)
    assert len(transitions) == 2
    assert step._programs[0].calls == 1


def test_a_program_that_served_no_call_gets_no_successor_at_once(
    transitions: list[Transition]
) -> None:
    settings = {"scale": 1.0}
    step = torch.compile(lambda x: torch.full((3,), settings["scale"]) * x, mode="now")
    for _ in range(3):
        settings["scale"] += 1
        assert step(torch.ones(3)).tolist() == [settings["scale"]] * 3
    assert transitions[2:] == [(Installed, Event.INVALIDATED), (Outdated, Event.RECORDED),
                               (Recorded, Event.RECORDED)]


def test_a_first_call_that_is_not_proved_gets_no_program(transitions: list[Transition]) -> None:
    cache: list[torch.Tensor] = []

    def fill(x: torch.Tensor) -> torch.Tensor:
        if not cache:
            cache.append(torch.ones(3))
        return x * cache[0]

    step = torch.compile(fill, mode="now")
    call(step, 1)
    assert transitions == [(New, Event.RECORDED)]
    call(step, 2)
    assert transitions[-1] == (Recorded, Event.INSTALLED)


def test_failed_guards_outdate_a_program(transitions: list[Transition]) -> None:
    settings = {"scale": 2.0}
    step = torch.compile(lambda x: x * settings["scale"], mode="now")
    call(step, 2)
    settings["scale"] = 3.0
    assert step(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]
    assert transitions[2:4] == [(Installed, Event.INVALIDATED), (Outdated, Event.RECORDED)]


def test_what_is_neither_skipped_nor_followed_stops(transitions: list[Transition]) -> None:
    step = compile_step(lambda x: x * 2 if float(x.sum()) > 0 else x, follow=False)
    with pytest.warns(UserWarning, match="stays eager"):
        call(step, 5)
    assert transitions[-1] == (Recorded, Event.STOPPED)


def test_what_cannot_be_skipped_is_followed(transitions: list[Transition]) -> None:
    step = torch.compile(lambda x: x * 2 if float(x.sum()) > 0 else x, mode="now")
    call(step, 4)
    assert transitions[-1] == (Recorded, Event.FOLLOWED)
    assert step._fallback.followed is not None


def examples() -> dict[type[State], State]:
    """A state of each class, with empty parts."""
    trace, nothing = Trace(), Any
    return {type(state): state for state in (
        New(), Recorded(trace=trace, recordings=1),
        Building(pending=nothing, trace=trace, reachable=None),  # type: ignore[arg-type]
        Installed(program=nothing, trace=trace, reachable=None),  # type: ignore[arg-type]
        Outdated(trace=trace), Eager(reason="a reason"), Followed(),
    )}


@pytest.mark.parametrize("kind", STATES[:-1])
def test_following_ends_every_specialization(
    kind: type[State], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Specializations(lambda x: x, 8)
    specialization = table.find((torch.ones(2),), {})
    assert specialization is not None
    specialization.state = examples()[kind]
    table.follow_all()
    assert isinstance(specialization.state, Followed)
    assert table.list_builds() == []


@pytest.mark.parametrize(("kind", "event"), [*itertools.product(STATES, Event)])
def test_impossible_transitions_are_refused(kind: type[State], event: Event) -> None:
    """Each event in each state leads to the state of the table, and to no other."""
    before = examples()[kind]
    for after in examples().values():
        if TRANSITIONS.get((kind, event)) is type(after):
            check_transition(before, event, after)
            continue
        specialization = Specialization()
        specialization.state = before
        with pytest.raises(ImpossibleTransition, match=event.name):
            specialization.become(event, after)
        assert specialization.state is before


def test_states_that_must_stay_are_not_evicted() -> None:
    assert {kind for kind in STATES if not kind.is_evictable} == {Building, Eager}


def test_the_table_is_printed() -> None:
    lines = format_table().splitlines()
    assert len(lines) == len(TRANSITIONS)
    assert lines[0].split()[:1] == ["New"]
    assert isinstance(torch.compile(lambda x: x, mode="now"), Compiled)
