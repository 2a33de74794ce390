"""What a trainer shows of itself: a line, a summary of its net, and files that it goes on from."""

from __future__ import annotations

import re
from pathlib import Path

import flambeau as torch
from flambeau import nn
from flambeau.train import Trainer

X = torch.ones(8, 3, 6, 6)
Y = torch.zeros(8, dtype=torch.int64)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2))


def trainer() -> Trainer:
    return Trainer(network(), "sgd", "cross_entropy", compile=False)


def table_rows(html: str) -> list[list[str]]:
    """The cells of the tables of a page, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in rows]


def test_repr_names_the_parts() -> None:
    run = trainer()
    assert repr(run) == "Trainer(Sequential, 250 parameters, SGD, cross_entropy)"
    run.fit((X, Y), epochs=2, progress=False)
    assert repr(run).endswith("epoch 2, step 2)")
    loss = f"{run.history[1]['loss']:.4f}"
    assert table_rows(run._repr_html_()) == [
        ["layer", "output shape", "parameters", "multiply-adds"],
        ["0 (Conv2d)", "(8, 4, 4, 4)", "112", "13,824"],
        ["1 (BatchNorm2d)", "(8, 4, 4, 4)", "8", ""],
        ["2 (Flatten)", "(8, 64)", "0", ""],
        ["3 (Linear)", "(8, 2)", "130", "1,024"],
        ["metric", "data", "last", "best", "at epoch"],
        ["loss", "train", loss, loss, "2"],
    ]


def test_summary_has_shapes_and_work_of_every_layer() -> None:
    run = trainer()
    run.net[0].weight.requires_grad = False
    before = {name: value.clone() for name, value in run.net.state_dict().items()}
    summary = run.summary(X)
    shapes = [layer.shape for layer in summary.layers]
    assert shapes == ["(8, 4, 4, 4)", "(8, 4, 4, 4)", "(8, 64)", "(8, 2)"]
    assert [layer.parameters for layer in summary.layers] == [112, 8, 0, 130]
    assert summary.layers[0].multiply_adds == 8 * 4 * 4 * 4 * 27
    assert summary.layers[3].multiply_adds == 8 * 64 * 2
    assert (summary.parameters, summary.trainable) == (250, 142)
    assert "250 parameters, 108 of them frozen" in repr(summary)
    assert "<td>1 (BatchNorm2d)</td>" in summary._repr_html_()
    assert all(value.equal(before[name]) for name, value in run.net.state_dict().items())
    assert run.net.training


def test_summary_without_a_batch_has_parameters_and_takes_the_last_batch_if_there_is_one() -> None:
    run = trainer()
    assert [layer.shape for layer in run.summary().layers] == [""] * 4
    run.fit((X, Y), progress=False)
    assert run.summary().layers[0].shape == "(8, 4, 4, 4)"


def test_save_and_load_go_on(tmp_path: Path) -> None:
    whole = trainer()
    rows = whole.fit((X, Y), epochs=4, progress=False)
    first = trainer()
    first.fit((X, Y), epochs=2, progress=False)
    first.save(tmp_path / "folder" / "run.pt")
    second = trainer()
    second.load(tmp_path / "folder" / "run.pt")
    assert second.fit((X, Y), epochs=4, progress=False) == rows
