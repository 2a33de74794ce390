"""Which way a step runs whose Python cannot be skipped: the trial, its limits, and what is told."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau.compiler.follow import followed_function
from flambeau.compiler.follow.trial import Trial
from flambeau.native.target.compile_costs import TIMED_CALLS


def tried(followed: list[float], eager: list[float]) -> Trial:
    """A trial that saw calls of these seconds."""
    trial, times = Trial(True), {False: iter(followed), True: iter(eager)}
    while not trial.is_over:
        is_eager = trial.wants_eager
        trial.add(next(times[is_eager]), is_eager)
    return trial


def test_the_faster_way_is_kept() -> None:
    assert tried([1e-3] * TIMED_CALLS, [2e-3] * TIMED_CALLS).pays
    assert not tried([2e-3] * TIMED_CALLS, [1e-3] * TIMED_CALLS).pays
    trial = tried([2e-3] * TIMED_CALLS, [1e-3] * TIMED_CALLS)
    assert "takes 2 ms, an eager one 1 ms" in trial.describe_outcome()


def test_calls_that_something_disturbed_do_not_decide() -> None:
    assert tried([1e-3, 9, 1e-3, 9, 1e-3, 9], [2e-3] * TIMED_CALLS).pays


def test_long_calls_are_tried_twice() -> None:
    trial = tried([1.0, 1.0], [2.0, 2.0])
    assert trial.pays
    assert len(trial.followed) == len(trial.eager) == 2


def test_a_step_that_alternates_is_seen_in_both_states_by_both_ways() -> None:
    trial, parities = Trial(True), {False: set(), True: set()}
    for call in itertools.count():
        if trial.is_over:
            break
        parities[trial.wants_eager].add(call % 2)
        trial.add(1e-3, trial.wants_eager)
    assert parities == {False: {0, 1}, True: {0, 1}}


def counting() -> tuple:
    """A step that counts in Python, and the counts."""
    counts: list[int] = []

    def step(x):
        counts.append(len(counts))
        return (x * 2).relu().sum()

    return step, counts


@pytest.mark.filterwarnings("error:flambeau.compile")
def test_a_step_too_small_to_gain_is_eager_after_its_trial() -> None:
    step, counts = counting()
    compiled = torch.compile(step, mode="now")
    assert [compiled(torch.ones(4)).item() for _ in range(40)] == [8.0] * 40
    assert counts == list(range(40))
    text = compiled.explain()
    assert "stays eager: following its calls does not pay, as a followed call takes" in text
    assert "on every call, because list.append writes to a list from outside the step" in text


def test_where_it_pays_calls_are_followed(monkeypatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(followed_function.time, "perf_counter", lambda: float(next(clock)))
    step, counts = counting()
    compiled = torch.compile(step, mode="now")
    assert [compiled(torch.ones(4)).item() for _ in range(20)] == [8.0] * 20
    assert counts == list(range(20))
    assert "step is followed: its Python runs on every call" in compiled.explain()
    assert "1 program, run" in compiled.explain()


def test_a_step_with_a_program_for_each_call_goes_eager_with_one_warning() -> None:
    count = itertools.count(1)

    def step(x):
        return x + torch.ones(next(count), 2).sum(0)

    compiled = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(1, 160):
            assert compiled(torch.ones(2)).tolist() == [i + 1.0] * 2
    told = [str(w.message) for w in caught]
    assert len(told) == 1
    assert "most calls run other operators" in told[0]
    assert "its Python runs on every call, because" in told[0].replace("Its", "its")


def test_rare_paths_beyond_the_limit_leave_the_usual_one_followed() -> None:
    count = iter(range(1, 400))

    def step(x):
        i = next(count)
        return x + torch.ones(i if i % 4 == 0 else 2, 2).sum(0)

    compiled = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(1, 330):
            assert compiled(torch.ones(2)).tolist() == [(i if i % 4 == 0 else 2) + 1.0] * 2
    assert "step is followed" in compiled.explain()


def test_an_argument_that_is_another_at_each_call_is_followed() -> None:
    seen: list[int] = []

    def step(x, i):
        y = x * 2
        if i in (0, 10, 20, 30):
            seen.append(i)
        return y

    compiled = torch.compile(step, options={"mode": "now", "follow": True})
    for i in range(40):
        assert compiled(torch.ones(2), i).tolist() == [2.0, 2.0]
    assert seen == [0, 10, 20, 30]
    assert "numbers or objects among its arguments change" in compiled.explain()


def test_fullgraph_raises_where_python_cannot_be_skipped() -> None:
    step, _ = counting()
    compiled = torch.compile(step, mode="now", fullgraph=True)
    with pytest.raises(RuntimeError, match="list.append writes to a list from outside the step"):
        for _ in range(4):
            compiled(torch.ones(4))


def test_fullgraph_follows_in_pytorch_s_modes() -> None:
    step, seen = counting()
    compiled = torch.compile(step, fullgraph=True, dynamic=False)
    for _ in range(6):
        assert compiled(torch.ones(4)).tolist() == step(torch.ones(4)).tolist()
    assert len(seen) == 12


def test_a_trial_ends_where_a_known_segment_never_matches_again() -> None:
    """Each call begins to compare it; that alone is no reason to wait."""
    labels = torch.randint(0, 2, (60,))

    def step(scores: Any) -> Any:
        order = (scores * 1).argsort()
        ranks = torch.empty(60)
        ranks[order] = torch.arange(1.0, 61.0)
        positive = labels.sum()
        return (ranks[labels == 1].sum() - positive * 2) / (positive + 1)

    call = torch.compile(step, options={"mode": "now"})
    for _ in range(40):
        scores = torch.randn(60)
        torch.testing.assert_close(call(scores), step(scores))
    trial = call._fallback.followed.trial
    assert trial.is_over
    assert trial.eager and trial.followed
