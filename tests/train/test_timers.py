"""Timers and the handlers' profile, on a clock that the tests move; the time limit."""

from __future__ import annotations

import datetime
import io

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Loop, Trainer, backward, epoch, forward, optim, run, step
from flambeau.train.callbacks import time_limit
from flambeau.train.reporting import timers
from flambeau.train.callbacks.time_limit import TimeLimit, parse_seconds
from flambeau.train.reporting.timers import HandlerProfile, Timers


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 10.0

        def __call__(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(timers.time, "perf_counter", clock)
    monkeypatch.setattr(time_limit.time, "monotonic", clock)
    return clock


def stepping(clock, seconds=1.0, **options):
    def body(batch):
        clock.now += seconds

    return Loop(body, **options)


def test_scopes_with_their_handlers(clock):
    measured = Timers(show=False)
    loop = stepping(clock, callbacks=[measured])

    @loop.on(step.end)
    def slow():
        clock.now += 0.5

    @loop.on(epoch.end)
    def slower():
        clock.now += 2.0

    loop.run(range(3), epochs=2)
    rows = measured.rows
    assert (rows["step"].calls, rows["step"].seconds, rows["step"].longest) == (6, 9.0, 1.5)
    assert (rows["epoch"].calls, rows["epoch"].seconds) == (2, 13.0)
    assert rows["train"].seconds == 9.0
    assert rows["fetch"].seconds == 0.0
    assert measured.total == 13.0
    lines = measured.table().splitlines()
    assert lines[0].split() == ["scope", "times", "total", "each", "longest", "share"]
    assert lines[3].split() == ["step", "6", "9.0", "s", "1.5", "s", "1.5", "s", "69.2", "%"]
    assert not loop.handlers.live["step"] > 1  # nothing of it stays attached


def test_parts_of_a_step(clock):
    measured = Timers(show=False, parts=True)
    net = torch.nn.Linear(2, 1)
    trainer = Trainer(net, "sgd", "mse", callbacks=[measured], compile=False)
    x = np.ones((8, 2), np.float32)
    trainer.fit((x, x[:, :1]), (x, x[:, :1]), 1, batch_size=4)
    for scope in (backward, optim):
        assert measured.rows[scope.name].calls == 2
    assert measured.rows[forward.name].calls == 4
    assert measured.rows["valid"].calls == 1


def test_the_table_is_shown_when_a_run_fails(clock):
    stream = io.StringIO()
    loop = Loop(lambda batch: 1 / 0, callbacks=[Timers(stream=stream)])
    with pytest.raises(ZeroDivisionError):
        loop.run([1])
    assert "step" in stream.getvalue()


def callbacks(clock):
    """One of each kind, which take their time."""

    class Callback:
        def on_epoch_end(self, epoch, logs):
            clock.now += 1.0

    def generator(run):
        clock.now += 0.25
        while True:
            yield epoch.end
            clock.now += 0.5

    def until_end(run):
        yield
        clock.now += 4.0

    return [Callback(), generator, until_end]


def test_handlers(clock):
    stream = io.StringIO()
    profile = HandlerProfile(stream=stream)
    loop = stepping(clock, callbacks=[*callbacks(clock), profile])

    @loop.on(step.end(every=2))
    def every_other():
        clock.now += 0.125

    @loop.on(run.start)
    def later(run):
        run.attach(epoch.start, at_start)

    def at_start():
        clock.now += 0.0625

    loop.run(range(4), epochs=2)
    seconds = {key: row.seconds for key, row in profile.rows.items() if row.seconds}
    assert seconds == {
        ("epoch.end", "Callback.on_epoch_end"): 2.0, ("run.start", "generator"): 0.25,
        ("yield", "generator"): 1.0, ("yield", "until_end"): 4.0,
        ("step.end", "every_other"): 0.5, ("epoch.start", "at_start"): 0.125,
    }
    lines = stream.getvalue().splitlines()
    assert lines[1].split()[:3] == ["yield", "until_end", "1"]
    before = profile.rows["epoch.end", "Callback.on_epoch_end"].calls
    loop.detach(profile)
    loop.run(range(4))
    assert profile.rows["epoch.end", "Callback.on_epoch_end"].calls == before  # unwrapped


def test_errors_of_handlers_come_through_the_profile(clock):
    loop = stepping(clock, callbacks=[HandlerProfile(show=False)])

    @loop.on(epoch.end)
    def bad():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        loop.run([1])


def test_time_limit(clock, capsys):
    loop = stepping(clock, callbacks=[TimeLimit(3.5)])
    ended = []
    loop.on(run.end)(lambda: ended.append(True))
    loop.run(range(3), epochs=5)
    assert loop.state.step == 4
    assert ended == [True]
    assert "time limit of 3.5 s reached: the run stops in epoch 2 after step 4" in (
        capsys.readouterr().err
    )


def test_limits_as_people_write_them():
    assert parse_seconds(datetime.timedelta(minutes=2)) == 120
    assert parse_seconds("90 s") == 90
    assert parse_seconds("1 day 2 hours") == 93600
    assert parse_seconds("10:30") == 630
    for bad in ("soon", "5", "1h later"):
        with pytest.raises(ValueError, match="1h30m"):
            parse_seconds(bad)
    with pytest.raises(ValueError, match="must be positive"):
        TimeLimit(0)


def test_a_handler_that_goes_while_it_is_measured():
    loop, calls = Loop(lambda batch: None), []
    handle = loop.attach(step.end, lambda run: calls.append(run.state.step))
    profile = HandlerProfile(show=False)
    loop.attach(step.end(once=2), lambda run: handle.detach(), band="outer")
    loop.run([1, 2, 3], callbacks=[profile])
    loop.run([1])
    assert calls == [1, 2]
