"""Loggers: what they write, that a resumed run has every line once, that they always close."""

from __future__ import annotations

import copy
import csv
import json
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.train import Loop, Trainer, epoch, step
from flambeau.train.loggers import (
    CSVLogger, JSONLogger, Logger, MLflowLogger, TensorBoardLogger, WandbLogger,
)
from flambeau.train.loggers.csv import Table
from flambeau.train.state.formatting import (
    format_duration, list_scalars, read_learning_rates, shorten, stage_of,
)


def trainer(**options):
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return Trainer(net, optimizer, "mse", metrics=["mae"], compile=False, **options)


def data(n=12):
    x = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    return x, x.sum(1, keepdims=True)


def fit(run, epochs=3, **options):
    return run.fit(data(), data(4), epochs, batch_size=4, shuffle=False, **options)


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_csv(tmp_path):
    run = trainer(callbacks=[CSVLogger(tmp_path / "logs" / "run.csv", every=2)])
    history = fit(run)
    written = rows(tmp_path / "logs" / "run.csv")
    assert [row["epoch"] for row in written] == ["1", "2", "3"]
    assert [row["step"] for row in written] == ["3", "6", "9"]
    for row, logs in zip(written, history, strict=True):
        assert float(row["lr"]) == 0.1
        for name in ("loss", "mae", "valid_loss", "valid_mae"):
            assert float(row[name]) == logs[name]
    steps = rows(tmp_path / "logs" / "run.steps.csv")
    assert [row["step"] for row in steps] == ["2", "4", "6", "8"]
    assert all(float(row["loss"]) > 0 for row in steps)


def test_csv_columns_may_turn_up_later(tmp_path):
    table = Table(tmp_path / "t.csv")
    table.open([])
    table.add({"a": 1})
    table.add({"a": 2, "b": 3})
    table.add({"b": 4})
    table.close()
    assert rows(tmp_path / "t.csv") == [
        {"a": "1", "b": ""}, {"a": "2", "b": "3"}, {"a": "", "b": "4"},
    ]


def test_json_lines(tmp_path):
    run = Loop(lambda batch: batch, callbacks=[JSONLogger(tmp_path / "run.jsonl", every=2)])

    @run.on(epoch.end)
    def numbers(run):
        run.log(a=1.5, bad=float("nan"), vector=np.array([1.0, 2.0]), word="no number")

    run.run([1, 2, 3], epochs=2)
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["step", "epoch", "step", "step", "epoch"]
    row = {key: value for key, value in lines[1].items() if key != "time"}
    assert row == {"kind": "epoch", "epoch": 1, "step": 3, "a": 1.5, "bad": "nan",
                    "vector/0": 1.0, "vector/1": 2.0}


@pytest.mark.parametrize("stop_at", [2, 3, 4, 5])
def test_a_resumed_run_has_every_line_once(tmp_path, stop_at):
    """Saved at a step, killed some steps later, resumed: the files are those of a whole run."""

    def callbacks(folder):
        return [CSVLogger(folder / "run.csv", every=1), JSONLogger(folder / "run.jsonl", every=1)]

    fit(trainer(callbacks=callbacks(tmp_path / "whole")))

    class Killed(Exception):
        pass

    broken, saved = trainer(callbacks=callbacks(tmp_path / "parts")), {}

    @broken.on(step.end(once=stop_at))
    def save():
        saved.update(copy.deepcopy(broken.state_dict()))

    @broken.on(step.end(once=stop_at + 2))
    def kill():
        raise Killed

    with pytest.raises(Killed):
        fit(broken)
    resumed = trainer(callbacks=callbacks(tmp_path / "parts"))
    resumed.load_state_dict(saved)
    fit(resumed)
    for name in ("run.csv", "run.steps.csv"):
        assert rows(tmp_path / "parts" / name) == rows(tmp_path / "whole" / name)
    lines = [
        [{**json.loads(line), "time": 0} for line in (tmp_path / kind / "run.jsonl").open()]
        for kind in ("parts", "whole")
    ]
    assert lines[0] == lines[1]


def test_lines_cut_off_are_left_out(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"kind": "epoch", "epoch": 1}\n{"kind": "ep')
    logger = JSONLogger(tmp_path / "run.jsonl")
    logger.open(types.SimpleNamespace(state=types.SimpleNamespace(step=3), history=[{"epoch": 1}]))
    logger.close()
    assert (tmp_path / "run.jsonl").read_text() == '{"kind": "epoch", "epoch": 1}\n'


def fields(data: bytes) -> dict[int, bytes]:
    """The fields of a protocol buffer by number (lengths and numbers here take one byte)."""
    results, at = {}, 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        if kind == 2:
            size, at = data[at + 1], at + 1
        else:
            size = {0: 1, 1: 8, 5: 4}[kind]
        results[number] = data[at + 1 : at + 1 + size]
        at += 1 + size
    return results


def records(data: bytes) -> list[bytes]:
    """The records of an event file: each has its length and a checksum before it, one behind."""
    results, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        results.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    return results


def tags(folder: Path) -> list[tuple[str, float]]:
    """The plain scalars of event files: event > summary (5) > value (1) > tag (1), number (2)."""
    results = []
    for path in sorted(folder.glob("events*")):
        for record in records(path.read_bytes()):
            if len(record) > 120 or b"brain.Event" in record:  # a histogram, or the first record
                continue
            value = fields(fields(fields(record)[5])[1])
            if 2 in value:
                results.append((value[1].decode(), struct.unpack("<f", value[2])[0]))
    return results


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    board = TensorBoardLogger(tmp_path, every=3, histograms=True, hyperparameters={"lr": 0.1})
    history = fit(trainer(callbacks=[board]), epochs=2)
    train, valid = tags(tmp_path / "train"), tags(tmp_path / "valid")
    assert [tag for tag, _ in valid] == ["loss", "mae"] * 2
    expected = [logs[f"valid_{name}"] for logs in history for name in ("loss", "mae")]
    assert [value for _, value in valid] == pytest.approx(expected)
    assert [tag for tag, _ in train] == ["lr", "loss", "mae"] * 2
    assert [tag for tag, _ in tags(tmp_path / "steps")] == ["step/loss", "step/lr"] * 2
    assert len(list((tmp_path / "train" / "hyperparameters").glob("events*"))) == 1


def test_a_resumed_run_hides_what_tensorboard_would_draw_twice(tmp_path):
    pytest.importorskip("tensorboardX")
    first = trainer(callbacks=[TensorBoardLogger(tmp_path, every=1)])
    saved = {}
    first.on(step.end(once=5))(lambda run: saved.update(copy.deepcopy(run.state_dict())))
    fit(first)
    resumed = trainer(callbacks=[TensorBoardLogger(tmp_path, every=1)])
    resumed.load_state_dict(saved)
    fit(resumed)
    for stage, step_number in (("train", 2), ("valid", 2), ("steps", 6)):
        restarts = []
        for path in sorted((tmp_path / stage).glob("events*")):
            for record in map(fields, filter(lambda r: len(r) < 120, records(path.read_bytes()))):
                if 7 in record:  # SessionLog.START: what is at this step or behind it is gone
                    restarts.append(record[2][0])
        assert restarts == [step_number], stage


def test_loggers_close_when_the_run_fails(tmp_path):
    class Noted(Logger):
        def __init__(self):
            super().__init__()
            self.calls = []

        def open(self, run):
            self.calls.append("open")

        def failed(self, error):
            self.calls.append(repr(error))

        def close(self):
            self.calls.append("close")

    noted = Noted()
    run = Loop(lambda batch: 1 / 0, callbacks=[noted])
    with pytest.raises(ZeroDivisionError):
        run.run([1])
    assert noted.calls == ["open", "ZeroDivisionError('division by zero')", "close"]
    with pytest.raises(ValueError, match="every must be at least 1 step"):
        Logger(every=0)


class Service(types.ModuleType):
    """A stand-in for mlflow or wandb that notes what it is asked."""

    def __init__(self, name):
        super().__init__(name)
        self.calls = []
        self.run = None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def method(*arguments, **options):
            self.calls.append((name, arguments, options))

        return method


def test_services(monkeypatch):
    flow, bias = Service("mlflow"), Service("wandb")
    monkeypatch.setitem(sys.modules, "mlflow", flow)
    monkeypatch.setitem(sys.modules, "wandb", bias)
    callbacks = [MLflowLogger(experiment="e", parameters={"lr": 1}), WandbLogger(2, project="p")]
    history = fit(trainer(callbacks=callbacks), epochs=1)
    names = [name for name, _, _ in flow.calls]
    assert names == ["active_run", "set_experiment", "start_run", "log_params", "log_metrics",
                     "end_run"]
    _, (numbers,), options = flow.calls[4]
    assert numbers["valid_loss"] == history[0]["valid_loss"]
    assert options == {"step": 3}
    assert flow.calls[-1][2] == {"status": "FINISHED"}
    assert [name for name, _, _ in bias.calls] == ["init", "log", "log", "finish"]
    assert bias.calls[0][2] == {"project": "p"}
    assert bias.calls[1][2] == {"step": 2}

    broken = Loop(lambda batch: 1 / 0, callbacks=[MLflowLogger(), WandbLogger()])
    with pytest.raises(ZeroDivisionError):
        broken.run([1])
    assert flow.calls[-1][2] == {"status": "FAILED"}
    assert bias.calls[-1][2] == {"exit_code": 1}


@pytest.mark.parametrize(("make", "name"), [(MLflowLogger, "mlflow"), (WandbLogger, "wandb")])
def test_what_is_not_installed_says_so(monkeypatch, make, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"pip install {name}"):
        make()


def test_numbers():
    assert stage_of("val_loss") == ("valid", "loss")
    assert stage_of("valid_") == ("train", "valid_")
    assert list_scalars({"a": torch.tensor(2.0), "m": np.eye(3), "s": "x", "v": [1, 2]}) == {
        "a": 2.0, "v/0": 1.0, "v/1": 2.0,
    }
    assert shorten(-0.000012) == "-1.20e-5"
    assert shorten(float("nan")) == "nan"
    assert format_duration(3599.6) == "59:59"
    net = torch.nn.Linear(2, 2)
    groups = [{"params": [net.weight], "lr": 0.5}, {"params": [net.bias], "lr": 0.25}]
    run = types.SimpleNamespace(optimizers={"optimizer": torch.optim.SGD(groups)})
    assert read_learning_rates(run) == {"lr/0": 0.5, "lr/1": 0.25}
    assert read_learning_rates(types.SimpleNamespace()) == {}
