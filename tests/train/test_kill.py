"""Resuming after SIGKILL at random points: every step's loss is that of an undisturbed run."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch

PROGRAM = Path(__file__).with_name("killed.py")
ROOT = PROGRAM.parents[2]
EPOCHS, STEPS = 20, 240  # of an undisturbed run


def start(folder, compiled, *kill):
    folder.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, PROGRAM, folder, str(int(compiled)), *map(str, kill)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    )


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.splitlines()[-1], err


def lines(folder):
    path = folder / "losses.txt"
    return path.read_text().count("\n") if path.exists() else 0


def kill(folder, compiled, after, delay):
    """Runs the program, killed `delay` seconds after it wrote `after` lines."""
    process = start(folder, compiled, after, delay)
    _, said = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, said


def losses(folder):
    """Each step's line, checked to be the same in every process that made the step."""
    results = {}
    whole = (folder / "losses.txt").read_text().splitlines()
    for line in whole:
        number, _, rest = line.partition(" ")
        assert results.setdefault(int(number), rest) == rest, f"step {number}"
    return results


def killed_again_and_again(tmp_path, kills, compiled, seed):
    draw = random.Random(seed)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    undisturbed = start(whole, compiled)
    for left in range(kills, 0, -1):
        done = max(losses(folder), default=0) if lines(folder) else 0
        after = draw.randint(1, max(1, (STEPS - 40 - done) // left))
        kill(folder, compiled, after, draw.random() * 0.004)
    report, said = finish(start(folder, compiled))
    expected, _ = finish(undisturbed)
    assert losses(folder) == losses(whole)
    assert sorted(losses(whole)) == list(range(1, STEPS + 1))
    assert report.rpartition(" ")[0] == expected.rpartition(" ")[0]  # history, persisted values
    assert (folder / "log.csv").read_text() == (whole / "log.csv").read_text()
    assert not list(folder.glob(".*.tmp"))
    samples_that_are_left(report, said)
    same_files(folder, whole)


def samples_that_are_left(report, said):
    """The last process loaded the samples behind where it went on, no others."""
    epoch, step = map(int, re.search(r"epoch (\d+), step (\d+)", said).groups())
    over = step - 12 * (epoch - 1)  # batches of the epoch that are done
    trained = 90 * (EPOCHS - epoch) + max(0, 90 - 8 * over)
    validated = 90 * (EPOCHS - epoch + 1)
    assert int(report.rpartition(" ")[2]) in (trained + validated, trained + validated - 90)


def same_files(folder, whole):
    for name in ("last.pt", "best.pt"):
        ours, theirs = torch.load(folder / name), torch.load(whole / name)
        assert ours["run"]["step"] == theirs["run"]["step"]
        for key, value in theirs["net"].items():
            assert torch.equal(ours["net"][key], value)


def test_three_kills(tmp_path):
    killed_again_and_again(tmp_path, 3, compiled=False, seed=1)


@pytest.mark.slow
def test_kills_of_a_compiled_training(tmp_path):
    killed_again_and_again(tmp_path, 3, compiled=True, seed=2)


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    killed_again_and_again(tmp_path, 20, compiled=False, seed=3)
