"""`make wild`: a command is limited by the processor's seconds, not by the clock's."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WILD = Path(__file__).resolve().parent / "wild"


@pytest.fixture(scope="module")
def libraries():
    sys.path.insert(0, str(WILD))
    try:
        spec = importlib.util.spec_from_file_location("wild_libraries", WILD / "libraries.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(WILD))
    return module


def run(libraries, program, seconds, folder):
    return libraries.start([sys.executable, "-c", program], folder, dict(os.environ), seconds)


def test_a_busy_command_ends_and_keeps_what_it_printed(libraries, tmp_path):
    program = "print('started', flush=True)\nwhile True: pass"
    assert run(libraries, program, 1, tmp_path) == ("started\n", -signal.SIGXCPU)


def test_waiting_costs_nothing(libraries, tmp_path):
    program = "import time; time.sleep(1.5); print('done')"
    assert run(libraries, program, 1, tmp_path) == ("done\n", 0)


def test_a_command_that_never_ends_is_ended_by_the_clock(libraries, tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "CLOCK", 1)
    assert run(libraries, "import time; time.sleep(60)", 1, tmp_path) == ("", -signal.SIGKILL)


@pytest.fixture
def samples(libraries, monkeypatch):
    monkeypatch.syspath_prepend(str(WILD))
    spec = importlib.util.spec_from_file_location("wild_samples", WILD / "pytorch_tests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOOK_S", 0.1)
    return module


def started(program):
    return subprocess.Popen([sys.executable, "-c", program])


def test_a_silent_run_that_computes_hangs(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "SILENT_S", 0.5)
    assert not samples.finished(started("while True: pass"), tmp_path / "out")


def test_a_silent_run_that_waits_does_not_hang(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "SILENT_S", 0.5)
    assert samples.finished(started("import time; time.sleep(1.5)"), tmp_path / "out")


def test_a_silent_run_that_waits_for_ever_hangs(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "WAITING_S", 0.5)
    assert not samples.finished(started("import time; time.sleep(60)"), tmp_path / "out")
