"""Events: filters, joining, and misspelt names."""

from __future__ import annotations

import pytest

from flambeau.train import Event, Events, Loop, epoch, run, step
from flambeau.train import train as train_scope


def numbers(event, count=10):
    """Which numbers of an event its filter lets through."""
    loop, seen = Loop(lambda batch: None), []
    loop.attach(event, lambda n: seen.append(n))
    loop.run([0] * count)
    return seen


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, list(range(1, 11))),
        ({"every": 3}, [3, 6, 9]),
        ({"every": 1}, list(range(1, 11))),
        ({"once": 4}, [4]),
        ({"once": [2, 7]}, [2, 7]),
        ({"before": 3}, [1, 2]),
        ({"after": 8}, [9, 10]),
        ({"every": 3, "after": 4}, [7, 10]),
        ({"every": 2, "after": 2, "before": 8}, [4, 6]),
    ],
)
def test_filters(counts, expected):
    assert numbers(step.end(**counts)) == expected


def test_predicate():
    assert numbers(step.end(lambda run, n: n % 5 == 0)) == [5, 10]
    assert numbers(step.end(lambda run, n: run.state.step > 7, every=2)) == [8, 10]
    assert numbers(step.end(every=2)(every=3)) == [6]


def test_joined():
    loop, seen = Loop(lambda batch: None), []
    loop.attach(
        run.start | epoch.end(every=2) | run.end, lambda run: seen.append(run.state.epoch)
    )
    loop.run([0], epochs=4)
    assert seen == [0, 2, 4, 4]
    assert repr(epoch.end(every=2) | run.end) == "epoch.end(every=2) | run.end"


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"every": 0}, ValueError),
        ({"every": -1}, ValueError),
        ({"once": 0}, ValueError),
        ({"every": 1.5}, TypeError),
        ({"before": "3"}, TypeError),
        ({"predicate": 3}, TypeError),
    ],
)
def test_bad_filters(counts, kind):
    with pytest.raises(kind):
        epoch.end(**counts)


def test_filters_that_nothing_passes():
    for counts in ({"before": 3, "after": 5}, {"before": 1}, {"before": 4, "after": 3},
                   {"once": 3, "after": 3}, {"once": [8, 9], "before": 8},
                   {"every": 4, "before": 4}):
        with pytest.raises(ValueError, match="no event passes"):
            step.end(**counts)
    assert step.end(before=5, after=3) and step.end(once=4, after=3, before=5)


def test_misspelt():
    with pytest.raises(AttributeError, match=r"no event 'ends'.*Did you mean 'end'"):
        epoch.ends  # noqa: B018
    with pytest.raises(AttributeError, match="'EPOCH_COMPLETED'"):
        Events.EPOCH_COMPLETE  # noqa: B018
    loop = Loop(lambda batch: None)
    with pytest.raises(ValueError, match=r"no event 'epoch\.finish'.*epoch\.end"):
        loop.on("epoch.finish")(print)
    with pytest.raises(ValueError, match="EPOCH_COMPLETED"):
        loop.on("EPOCHS_COMPLETED")(print)
    with pytest.raises(ValueError, match="Did you mean 'EPOCH_COMPLETED'"):
        loop.on("epoch_completed")(print)
    with pytest.raises(TypeError, match="expected an event"):
        loop.on(3)(print)
    with pytest.raises(TypeError, match="name an event"):
        loop.on(epoch)(lambda: None)


def test_ignite_names():
    assert Events.EPOCH_COMPLETED is epoch.end
    assert Events.ITERATION_STARTED is step.start
    assert Events.DATALOADER_STOP_ITERATION is train_scope.end
    loop, seen = Loop(lambda run, batch: batch), []
    loop.attach(
        Events.ITERATION_COMPLETED(every=2),
        lambda engine: seen.append((engine.state.iteration, engine.state.output)),
    )
    loop.attach("EPOCH_COMPLETED", lambda: seen.append("epoch"))
    loop.run([5, 6, 7, 8])
    assert seen == [(2, 6), (4, 8), "epoch"]


def test_events_of_ones_own():
    late, seen = Event("late"), []

    def body(run, batch):
        if batch == 2:
            run.fire(late)

    loop = Loop(body)
    loop.attach(late(every=2), lambda run, n=0: seen.append(run.state.step))
    loop.run([2, 1, 2, 2, 2])
    assert seen == [3, 5]


def test_the_filter_may_have_ignites_name():
    event = epoch.end(event_filter=lambda run, n: n % 2 == 1, after=1)
    assert [n for n in range(1, 8) if event.predicate(None, n)] == [3, 5, 7]
    with pytest.raises(TypeError, match="filter must be a function"):
        epoch.end(event_filter=3)
