"""Generator callbacks: stages, the end of their scope, errors thrown in, persisted locals."""

from __future__ import annotations

import contextlib
import math

import pytest

from flambeau.train import CONTROL, METRICS, Loop, callback, epoch, run, step
from flambeau.train import train as train_scope


def nothing(batch):
    pass


def test_one_function_three_stages():
    loop, seen = Loop(lambda batch: batch), []

    @loop.on(run)
    def rise(run):
        while True:
            yield epoch.start
            yield step.end
            first = run.state.output
            yield train_scope.end
            seen.append(run.state.output - first)

    loop.run([1, 5, 7], epochs=3)
    assert seen == [6, 6, 6]


def test_until_the_end_of_its_scope():
    loop, seen = Loop(lambda batch: seen.append(batch)), []

    @loop.on(epoch(every=2))
    def around(run):
        seen.append("in")
        yield
        seen.append("out")

    loop.run("ab", epochs=4)
    assert seen == [*"ab", "in", *"ab", "out", *"ab", "in", *"ab", "out"]


def test_yield_gives_the_event():
    loop, seen = Loop(nothing), []

    @loop.on(run)
    def watch(run):
        while True:
            seen.append((yield step.end(every=2) | epoch.end))

    loop.run([0] * 3, epochs=2)
    assert seen == [step.end, epoch.end, step.end, step.end, epoch.end]


def test_closed_when_its_scope_ends_while_it_waits():
    loop, seen = Loop(nothing), []

    @loop.on(epoch)
    def waits(run):
        try:
            yield step.end(once=100)
        finally:
            seen.append("closed")

    loop.run([0], epochs=2)
    assert seen == ["closed", "closed"]
    assert not loop.handlers.frames
    loop.detach(waits)
    assert not any(loop.handlers.live.values())


def test_bands_and_last_in_first_out():
    loop, seen = Loop(nothing), []

    def make(name, band, where=epoch):
        @callback(where, band=band)
        def around(run):
            seen.append(f"+{name}")
            yield
            seen.append(f"-{name}")

        return around

    loop.use(make("a", "user"))
    loop.use(make("b", "user"))
    loop.use(make("m", METRICS))
    loop.use(make("c", CONTROL))
    loop.attach(epoch.end, lambda: seen.append("user"))
    loop.attach(epoch.end, lambda: seen.append("io"), "io")
    loop.run([0])
    assert seen == ["+c", "+a", "+b", "+m", "-m", "user", "-b", "-a", "-c", "io"]


def test_error_is_thrown_in():
    def body(batch):
        if batch == 3:
            raise ZeroDivisionError("three")

    loop, seen = Loop(body), []

    @contextlib.contextmanager
    def resource():
        seen.append("open")
        try:
            yield
        finally:
            seen.append("close")

    @loop.on(run)
    def holds(run):
        with resource():
            while True:
                yield step.end

    @loop.on(epoch)
    def looks(run):
        try:
            yield
        except ZeroDivisionError as error:
            seen.append(f"saw {error}")

    with pytest.raises(ZeroDivisionError):  # looks caught it, and yet it goes on
        loop.run([1, 2, 3])
    assert seen == ["open", "saw three", "close"]
    loop.detach(holds)
    loop.detach(looks)
    assert not any(loop.handlers.live.values())


def test_error_of_its_own():
    loop, seen = Loop(nothing), []

    @loop.on(run)
    def fails(run):
        yield step.end(once=2)
        raise KeyError("mine")

    @loop.on(run)
    def cleans(run):
        try:
            yield
        finally:
            seen.append("clean")

    with pytest.raises(KeyError, match="mine"):
        loop.run([1, 2, 3])
    assert seen == ["clean"]
    assert loop.state.step == 2


def test_what_it_may_yield():
    loop = Loop(nothing)

    @loop.on(run)
    def wrong(run):
        yield 3

    with pytest.raises(TypeError, match=r"yielded 3: a callback yields an event"):
        loop.run([0])
    loop.detach(wrong)

    @loop.on(run)
    def stubborn(run):
        with contextlib.suppress(TypeError):
            yield 4

    with pytest.raises(TypeError, match="yielded 4"):
        loop.run([0])
    with pytest.raises(TypeError, match="attach it to a scope"):
        loop.on(step.end)(wrong)


def test_detached_while_it_waits():
    loop, seen = Loop(nothing), []

    def watch(run):
        try:
            while True:
                yield step.end
                seen.append(run.state.step)
        finally:
            seen.append("closed")

    handle = loop.use(watch)
    loop.attach(step.end(once=2), handle.detach, CONTROL)
    loop.run([0] * 4)
    assert seen == [1, 2, "closed"]


def test_detaches_itself():
    loop, seen = Loop(nothing), []

    def watch(run):
        while True:
            yield step.end
            seen.append(run.state.step)
            handle.detach()

    handle = loop.use(watch)
    loop.run([0] * 4)
    assert seen == [1]


@pytest.mark.parametrize("when", [run.start, step.end(once=2)])
def test_joins_a_run_that_is_under_way(when):
    loop, seen = Loop(nothing), []

    def late(run):
        try:
            yield epoch.end
            seen.append(run.state.step)
            yield
            seen.append("end")
        finally:
            seen.append("closed")

    @callback(epoch(every=2))
    def second(run):
        seen.append("second epoch")
        yield

    loop.attach(when, lambda run: (run.use(late), run.use(second)))
    loop.run([0] * 3, epochs=2)
    assert seen == [3, "second epoch", "end", "closed"]


def test_signatures_and_objects():
    loop, seen = Loop(nothing), []

    class Watch:
        scope = epoch

        def __call__(self, run):
            seen.append("in")
            yield
            seen.append("out")

    def bare():
        yield epoch.end
        seen.append("bare")

    loop.use(Watch())
    loop.use(bare)
    loop.run([0])
    assert seen == ["in", "bare", "out"]


def best_of(name="best"):
    @callback(run, band=CONTROL, name=name)
    def best(run):
        record = run.persist(value=math.inf, count=0)
        while True:
            yield step.end
            record.count += 1
            record.value = min(record.value, run.state.output)

    return best


def test_persisted_locals():
    data = [5, 3, 8, 6]
    loop = Loop(lambda batch: batch, callbacks=[best_of()])
    loop.attach(step.end(once=2), lambda run: run.stop(), "outer")
    loop.run(data)
    saved = loop.state_dict()
    assert saved["persistence"]["values"] == {"best": {"value": 3, "count": 2}}

    resumed = Loop(lambda batch: batch, callbacks=[best_of()])
    resumed.load_state_dict(saved)
    resumed.run(data)
    assert resumed.state.step == 4
    assert resumed.persistence.values["best"] == {"value": 3, "count": 4}
    resumed.run(data)  # a new run, not the old one going on
    assert resumed.persistence.values["best"]["count"] == 4


def test_one_name_one_callback():
    loop = Loop(nothing, callbacks=[best_of()])
    with pytest.raises(ValueError, match=r"two callbacks persist under the name 'best'"):
        loop.use(best_of())
    with loop.use(best_of("other")):
        pass
    loop.use(best_of("other"))

    class Stateful:
        name = "best"

        def on_epoch_end(self, run): ...
        def state_dict(self): ...
        def load_state_dict(self, state): ...

    with pytest.raises(ValueError, match="two callbacks persist"):
        loop.use(Stateful())
    assert len(loop.handlers.handles) == 2


def test_names_that_are_only_known_when_it_runs():
    loop = Loop(nothing)

    def make():
        def counts(run):
            run.persist("same", n=0)
            yield

        return counts

    loop.use(make())
    loop.run([0])
    loop.run([0])
    loop.use(make())
    with pytest.raises(ValueError, match="two callbacks persist under the name 'same'"):
        loop.run([0])
