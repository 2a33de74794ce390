"""Handlers: order, signatures, attaching and detaching, errors, stopping."""

from __future__ import annotations

import functools

import pytest

from flambeau.train import (
    CONTROL, IO, METRICS, OUTER, USER, Loop, Scope, backward, epoch, run, step, stopped,
)
from flambeau.train import fetch as fetch_scope
from flambeau.train import train as train_scope


def nothing(batch):
    pass


def recorder(seen, what):
    return lambda: seen.append(what)


def test_scopes_nest():
    loop, seen = Loop(lambda batch: seen.append(batch)), []
    for scope in (run, epoch, train_scope, fetch_scope, step):
        loop.attach(scope.start, recorder(seen, f"+{scope.name}"))
        loop.attach(scope.end, recorder(seen, f"-{scope.name}"))
    loop.run(["a", "b"])
    assert " ".join(seen) == (
        "+run +epoch +train +fetch -fetch +step a -step +fetch -fetch +step b -step "
        "+fetch -fetch -train -epoch -run"
    )


def test_bands():
    loop, seen = Loop(nothing), []
    for band in (USER, METRICS, IO, "outer", CONTROL):
        for event in (epoch.start, epoch.end):
            loop.attach(event, recorder(seen, f"{event.name[6:]} {str(band).lower()}"), band)
    loop.run([0])
    start = [f"start {int(band)}" for band in (OUTER, IO, CONTROL, USER, METRICS)]
    end = [f"end {int(band)}" for band in (METRICS, USER, CONTROL, IO, OUTER)]
    assert [word.replace("outer", "0") for word in seen] == start + end
    with pytest.raises(ValueError, match="'metrics'"):
        loop.attach(epoch.end, nothing, "metric")


def test_same_band_in_the_order_of_attaching():
    loop, seen = Loop(nothing), []
    for word in "abc":
        loop.attach(epoch.start | epoch.end, recorder(seen, word))
    loop.run([0])
    assert "".join(seen) == "abcabc"


def test_signatures():
    loop, seen = Loop(nothing), []

    class Method:
        def take(self, run):
            seen.append(run is loop)

    loop.on(step.end)(lambda: seen.append("()"))
    loop.on(step.end)(lambda run: seen.append(run is loop))
    loop.on(step.end)(lambda n, logs: seen.append((n, logs)))
    loop.on(step.end)(lambda logs: seen.append(logs))
    loop.on(step.end)(lambda epoch, logs=None: seen.append((epoch, logs)))
    loop.on(step.end)(lambda batch_number: seen.append(batch_number))
    loop.on(step.end)(lambda run, extra=3: seen.append(extra))
    loop.on(step.end)(lambda *args: seen.append(len(args)))
    loop.on(step.end)(Method().take)
    loop.on(step.end)(functools.partial(lambda x, run: seen.append(x), 7))
    loop.run([0])
    assert seen == ["()", True, (1, {}), {}, (1, {}), 1, 3, 1, True, 7]
    with pytest.raises(TypeError, match=r"takes \(\), \(run\) or \(n, logs\)"):
        loop.on(step.end)(lambda a, b, c: None)
    with pytest.raises(TypeError, match="is a class"):
        loop.on(step.end)(Method)


def test_detach():
    loop, seen = Loop(nothing), []
    handle = loop.attach(step.end | epoch.end, recorder(seen, "x"))
    loop.run([0])
    handle.detach()
    handle.detach()
    loop.run([0])
    assert len(seen) == 2
    with loop.attach(step.end, recorder(seen, "y")) as handle:
        assert handle.attached
        loop.run([0])
    loop.run([0])
    assert seen == ["x", "x", "y"]

    @loop.on(step.end)
    def counted():
        seen.append("z")

    loop.detach(counted)
    loop.run([0])
    assert "z" not in seen
    assert not any(loop.handlers.live.values())
    assert not loop.handlers.plans
    with pytest.raises(ValueError, match="not attached"):
        loop.detach(counted)


def test_attach_and_detach_while_firing():
    loop, seen = Loop(nothing), []
    handles = {}

    @loop.on(step.end(once=1))
    def first(run):
        handles["second"].detach()
        run.attach(step.end, recorder(seen, "third"))

    handles["second"] = loop.attach(step.end, recorder(seen, "second"))
    loop.run([0, 0])
    assert seen == ["third"]  # the second was gone at once, the third is there from the next on


def test_lists_that_are_gone_through_while_others_are_made():
    loop, seen = Loop(nothing), []
    handles = {}

    @loop.on(step.end)
    def first(run):
        if run.state.step == 2:
            for name in "bc":
                run.attach(step.end, lambda run, name=name: seen.append(name))
            handles["a"].detach()
            handles["n"].detach()

    for name in "an":
        handles[name] = loop.attach(step.end, lambda run, name=name: seen.append(name))
    loop.run([0] * 3)
    assert seen == ["a", "n", "b", "c"]


def test_attached_within_the_step_it_waits_for():
    seen = []

    def body(run, batch):
        if batch == 1:
            run.attach(step.end, lambda n: seen.append(n))

    Loop(body).run([1, 2])
    assert seen == [1, 2]


def test_errors():
    seen = []

    def body(batch):
        raise ZeroDivisionError("batch")

    loop = Loop(body)
    for scope in (run, epoch, train_scope, step):
        loop.attach(
            scope.error, lambda run, name=scope.name: seen.append((name, str(run.state.error)))
        )
        loop.attach(scope.end, recorder(seen, f"end of {scope.name}"))
    with pytest.raises(ZeroDivisionError, match="batch"):
        loop.run([0])
    assert seen == [(name, "batch") for name in ("step", "train", "epoch", "run")]
    assert not loop.handlers.frames


def test_what_a_handler_raises_is_not_swallowed():
    loop, seen = Loop(nothing), []

    @loop.on(step.end)
    def fails():
        raise KeyError("handler")

    loop.attach(step.error | run.error, recorder(seen, "error"))
    loop.attach(run.end, recorder(seen, "end"))
    with pytest.raises(KeyError, match="handler"):
        loop.run([0])
    assert seen == ["error", "error"]

    @loop.on(run.error)
    def fails_too():
        raise OSError("while handling")

    with pytest.raises(OSError, match="while handling") as caught:
        loop.run([0])
    assert isinstance(caught.value.__context__, KeyError)
    assert not loop.handlers.frames


def test_interrupt_runs_error_handlers():
    def body(batch):
        raise KeyboardInterrupt

    loop, seen = Loop(body), []
    loop.attach(run.error, recorder(seen, "closed"))
    with pytest.raises(KeyboardInterrupt):
        loop.run([0])
    assert seen == ["closed"]


def test_stop():
    loop, seen = Loop(lambda batch: seen.append(batch)), []
    loop.attach(step.end(once=2), lambda run: run.stop())
    for scope in (step, train_scope, epoch, run):
        loop.attach(scope.end, recorder(seen, scope.name))
    loop.attach(stopped, recorder(seen, "stopped"))
    loop.run([1, 2, 3], epochs=3)
    assert seen == [1, "step", 2, "stopped", "step", "train", "epoch", "run"]
    assert loop.stopping


@pytest.mark.parametrize(("scope", "steps"), [(epoch, 4), (train_scope, 4), (run, 2)])
def test_stop_what(scope, steps):
    loop = Loop(nothing)
    loop.attach(step.end, lambda run: run.state.batch == 2 and run.stop(scope))
    loop.run([1, 2, 3], epochs=2)
    assert loop.state.step == steps
    with pytest.raises(ValueError, match="stop ends run, epoch or train"):
        loop.stop(step)


def test_scopes_of_ones_own():
    warm_up, seen = Scope("warm_up"), []

    def body(run, batch):
        with run.scope(warm_up):
            seen.append(batch)
            if batch == 9:
                raise ValueError("nine")

    loop = Loop(body)
    loop.attach(warm_up.start(every=2), lambda n: seen.append(f"start {n}"))
    loop.attach(warm_up.error, lambda: seen.append("error"))
    with pytest.raises(ValueError, match="nine"):
        loop.run([1, 2, 9])
    assert seen == [1, "start 2", 2, 9, "error"]


def test_without_handlers_nothing_is_fired(monkeypatch):
    """What makes an event without handlers cost next to nothing."""
    loop = Loop(nothing)
    fired = []
    monkeypatch.setattr(loop.handlers, "fire", lambda event, n: fired.append(event))
    loop.run([0] * 3)
    assert fired == [run.start, run.end]  # the run is open to whoever joins it
    fired.clear()
    with loop.scope(backward):
        pass
    assert not fired
