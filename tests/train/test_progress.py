"""Progress: the lines that stay, the bar that goes, and how seldom it looks at the clock."""

from __future__ import annotations

import io
import re
import sys
import types

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Loop, Trainer, epoch
from flambeau.train.reporting import progress
from flambeau.train.reporting.progress_bars import LogLines, NotebookBar, TerminalBar, choose_bar
from flambeau.train.reporting.progress import Progress


class Clock:
    """A clock that steps move, so that nothing here depends on the machine."""

    def __init__(self, monkeypatch):
        self.now, self.looks = 100.0, 0
        monkeypatch.setattr(progress.time, "perf_counter", self)

    def __call__(self):
        self.looks += 1
        return self.now


def looped(clock, a_step, bar, epochs=1, steps=1000):
    def step(batch):
        clock.now += a_step

    loop = Loop(step, callbacks=[bar])
    loop.on(epoch.end)(lambda run: run.log(loss=0.5))
    loop.run(range(steps), epochs=epochs)


def test_a_log_has_a_line_an_epoch(monkeypatch):
    stream = io.StringIO()
    looped(Clock(monkeypatch), 0.001, Progress("log", stream=stream), epochs=2)
    assert stream.getvalue() == "epoch 1/2  1.0 s  loss 0.5000\nepoch 2/2  1.0 s  loss 0.5000\n"


def test_a_log_of_a_long_epoch_has_a_line_a_minute(monkeypatch):
    stream = io.StringIO()
    looped(Clock(monkeypatch), 1.0, Progress("log", stream=stream), steps=150)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"epoch 1/1  6\d/150  1 it/s  ETA 1:\d\d", lines[0])
    assert lines[-1].startswith("epoch 1/1  2:30  loss")


def test_the_terminal_shows_a_bar_and_leaves_a_line(monkeypatch):
    stream = io.StringIO()
    looped(Clock(monkeypatch), 0.01, Progress("terminal", stream=stream), steps=100)
    shown = stream.getvalue()
    assert re.search(r"epoch 1/1  \|#+ *\| \d+/100, 100 it/s  ETA \d", shown)
    assert shown.rstrip().endswith("epoch 1/1  1.0 s  loss 0.5000")


def test_fast_steps_are_hardly_looked_at(monkeypatch):
    clock = Clock(monkeypatch)
    looped(clock, 1e-5, Progress("terminal", stream=io.StringIO()), steps=100_000)
    assert clock.looks < 100  # a second of steps: ten drawings, a few looks between them


def test_dear_drawing_is_done_seldom(monkeypatch):
    clock = Clock(monkeypatch)

    class Dear(TerminalBar):
        drawn = 0

        def update(self, done, words):
            Dear.drawn += 1
            clock.now += 0.05

    monkeypatch.setattr(progress, "choose_bar", lambda kind, stream: Dear(io.StringIO()))
    looped(clock, 0.01, Progress(), steps=2000)  # 20 s of steps
    assert Dear.drawn <= 6  # at most a hundredth: 0.05 s each in 20 s


def test_training_shows_running_metrics_and_validation():
    stream = io.StringIO()
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    bar = Progress("terminal", stream=stream)
    trainer = Trainer(net, "sgd", "mse", metrics=["mae"], callbacks=[bar], compile=False)
    x = np.ones((8, 3), np.float32)
    monitored = []

    @trainer.on("step.end")
    def look():
        monitored.append(progress.read_running_numbers(trainer))

    trainer.fit((x, x[:, :1]), (x, x[:, :1]), 1, batch_size=4)
    assert set(monitored[0]) == {"loss", "mae"}
    words = stream.getvalue()
    assert words.count("valid_mae") == 1
    assert words.rstrip().count("\n") == 0
    assert words.index("mae") < words.index("valid_loss")


def test_the_display_ends_when_the_run_fails():
    bar = Progress("log", stream=io.StringIO())
    with pytest.raises(ZeroDivisionError):
        Loop(lambda batch: 1 / 0, callbacks=[bar]).run([1])
    assert bar._bar is None


def test_what_fits(monkeypatch):
    stream = io.StringIO()
    assert type(choose_bar(None, stream)) is LogLines
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert type(choose_bar(None, stream)) is TerminalBar
    monkeypatch.setenv("TERM", "dumb")
    assert type(choose_bar(None, stream)) is LogLines
    with pytest.raises(ValueError, match="must be one of log"):
        choose_bar("fancy", stream)


def test_a_notebook_gets_a_bar_of_its_own(monkeypatch):
    class ZMQInteractiveShell:
        pass

    module = types.ModuleType("IPython")
    module.get_ipython = ZMQInteractiveShell
    monkeypatch.setitem(sys.modules, "IPython", module)
    bar = choose_bar(None, io.StringIO())
    assert type(bar) is NotebookBar
    bar.start("epoch 1", 10)
    bar.update(5, "loss 1")
    bar.finish()
    bar.line("done")
    bar.close()


def fit(**options):
    net = torch.nn.Linear(3, 1)
    x = torch.ones(8, 3)
    return Trainer(net, "sgd", "mse", compile=False).fit((x, x[:, :1]), epochs=2, **options)


def test_fit_shows_progress_unless_it_is_told_not_to(capsys):
    fit()
    assert capsys.readouterr().err.count("epoch") == 2
    fit(progress=False)
    assert capsys.readouterr().err == ""


def test_fit_shows_progress_once(capsys):
    stream = io.StringIO()
    fit(callbacks=[Progress("log", stream=stream)])
    assert stream.getvalue().count("epoch") == 2
    assert capsys.readouterr().err == ""
