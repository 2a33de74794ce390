"""Experiments: what the folder holds, from a run that ends well, fails, is started again."""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import shutil
import subprocess

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Loop, epoch
from flambeau.train.reporting.experiment import Experiment, as_plain_config
from flambeau.train.reporting.provenance import describe_code, describe_environment


def read(path):
    return json.loads(path.read_text())


def starts(folder):
    return [json.loads(line) for line in (folder / "starts.jsonl").open()]


def test_a_run_is_documented(tmp_path):
    experiment = Experiment(tmp_path / "run", {"lr": 0.1}, seed=3)
    loop = Loop(lambda batch: None, callbacks=[experiment, *experiment.loggers()])
    seen = []

    @loop.on(epoch.end)
    def numbers(run):
        run.log(loss=1 / run.state.epoch, bad=float("inf"))
        seen.append(read(experiment / "status.json"))

    loop.run([1, 2], epochs=2)
    assert read(experiment / "config.json") == {"lr": 0.1}
    assert seen[0]["status"] == "running"
    status = read(experiment / "status.json")
    assert (status["status"], status["epoch"], status["step"]) == ("finished", 2, 4)
    assert status["numbers"] == {"loss": 0.5, "bad": "inf"}
    (start,) = starts(tmp_path / "run")
    assert start["seed"] == 3
    assert "numpy" in read(experiment / start["environment"])["packages"]
    for name in ("log.csv", "log.jsonl", "curves.html"):
        assert (experiment / name).exists()
    assert not list((tmp_path / "run").glob("*.new"))


def test_seeds_make_the_same_numbers(tmp_path):
    def draw():
        return torch.rand(2).tolist(), random.random(), np.random.random()

    Experiment(tmp_path, seed=5)
    first = draw()
    Experiment(tmp_path, seed=5)
    assert draw() == first
    torch.manual_seed(11)
    assert Experiment(tmp_path).seed == 11


def test_starting_again(tmp_path):
    config = {"lr": 0.1, "net": {"width": 8}, "extra": 1}
    Experiment(tmp_path, config)
    Experiment(tmp_path, config)
    assert len(starts(tmp_path)) == 2
    assert len(list(tmp_path.glob("environment-*.json"))) == 1
    with pytest.raises(ValueError, match=r"net\.width is 8 there, 9 here, extra is missing here"):
        Experiment(tmp_path, {"lr": 0.1, "net": {"width": 9}})


def test_numbered_folders(tmp_path):
    names = [Experiment.new(tmp_path / "runs", "mnist").folder.name for _ in range(2)]
    assert names == ["001-mnist", "002-mnist"]
    assert Experiment.new(tmp_path / "runs").folder.name == "003"


def test_failure_is_noted(tmp_path):
    experiment = Experiment(tmp_path)
    loop = Loop(lambda batch: 1 / 0, callbacks=[experiment])
    with pytest.raises(ZeroDivisionError):
        loop.run([1])
    status = read(tmp_path / "status.json")
    assert status["status"] == "failed"
    assert "division by zero" in status["error"]
    loop.step(lambda run, batch: run.stop())
    loop.run([1, 2])
    assert read(tmp_path / "status.json")["status"] == "stopped"


def test_configs_of_all_kinds():
    @dataclasses.dataclass
    class Config:
        lr: float = 0.1
        sizes: tuple = (1, 2)

    assert as_plain_config(Config()) == {"lr": 0.1, "sizes": [1, 2]}
    assert as_plain_config(argparse.Namespace(a=1, b=None)) == {"a": 1, "b": None}
    odd = {"f": len, "t": torch.ones(2), "n": np.float32(0.5), "k": torch.nn.Linear, "s": {2, 1},
           "x": float("nan"), "none": None}
    assert as_plain_config(odd) == {"f": "len", "t": [1.0, 1.0], "n": 0.5, "k": "Linear",
                                 "s": [1, 2], "x": "nan", "none": None}
    json.dumps(as_plain_config({"object": object()}))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_code_version(tmp_path):
    def git(*words):
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *name, *words], check=True, capture_output=True)

    assert describe_code(tmp_path / "nowhere") == ({"commit": None}, b"")
    git("init")
    (tmp_path / "a.py").write_text("one\n")
    git("add", "a.py")
    git("commit", "-m", "first")
    about, difference = describe_code(tmp_path)
    assert len(about["commit"]) == 40
    assert about["changed"] is False
    assert difference == b""
    (tmp_path / "a.py").write_text("two\n")
    (tmp_path / "new.py").write_text("")
    about, difference = describe_code(tmp_path)
    assert about["changed"] is True
    assert about["untracked"] == ["new.py"]
    assert b"-one\n+two\n" in difference


def test_environment():
    actual = describe_environment()
    assert actual["processor"]
    assert actual["cores"] >= 1
    json.dumps(actual)
