"""Learning curves: what is in which panel, where lines and names are, files written whole."""

from __future__ import annotations

import json
import math
import re
import sys
from html import unescape
from xml.etree import ElementTree

import pytest

import flambeau as torch
from flambeau.train import Loop, Trainer, epoch
from flambeau.train.callbacks.lr_finder import LearningRateSweep
from flambeau.train.metrics import MetricGroup
from flambeau.train.reporting import learning_curves
from flambeau.train.reporting.plot_panel import Panel, log_ticks, choose_ticks
from flambeau.train.reporting.learning_curves import Picture, PlotCurves, build_panels, plot
from flambeau.train.state.history import History
from flambeau.train.reporting.svg import HEIGHT, TOP, count_columns

NAMESPACE = "{http://www.w3.org/2000/svg}"


def history(n=10):
    return [
        {"epoch": i, "accuracy": 1 - 1 / i, "loss": 1 / i, "valid_loss": abs(i - 6) + 0.5,
         "valid_accuracy": 0.9, "note": "words"}
        for i in range(1, n + 1)
    ]


def elements(picture, kind):
    root = ElementTree.fromstring(picture.svg())
    return list(root.iter(NAMESPACE + kind))


def test_train_and_valid_share_a_panel():
    panels = build_panels([*history(), {"epoch": 11, "test_loss": 0.25}])
    assert [(p.title, list(p.lines)) for p in panels] == [
        ("loss", ["train", "valid", "test"]), ("accuracy", ["train", "valid"]),
    ]
    assert panels[0].lines["train"][1] == (2.0, 0.5)
    assert panels[0].best == {"valid": (6.0, 0.5)}
    assert panels[1].best == {"valid": (1.0, 0.9)}


def test_lines_are_where_the_numbers_are():
    picture = Picture([Panel("m", {"train": [(1, 0.0), (2, 10.0), (3, 5.0)]})])
    (line,) = elements(picture, "polyline")
    (x1, top_y, x2, y2, x3, y3) = map(float, re.findall(r"[\d.]+", line.get("points")))
    assert x2 - x1 == pytest.approx(x3 - x2)
    assert top_y - y2 == pytest.approx(2 * (top_y - y3), abs=0.2)
    grid = {t.text: float(t.get("y")) - 4 for t in elements(picture, "text")
            if t.get("text-anchor") == "end"}
    assert grid["10"] == pytest.approx(y2, abs=0.2)  # the tick of 10 is level with the point
    assert grid["0"] == pytest.approx(top_y, abs=0.2)


def test_axes_lines_and_best_point_are_named():
    words = [text.text for text in elements(plot(history()), "text")]
    for name in ("loss", "accuracy", "epoch", "train 0.1000", "valid 4.5", "best 0.5000"):
        assert name in words, name


def test_names_do_not_overlap():
    lines = {f"line{i}": [(1.0, 0.0), (2.0, 1.0 + i / 1000)] for i in range(5)}
    names = [text for text in elements(Picture([Panel("m", lines)]), "text")
             if (text.text or "").startswith("line")]
    heights = sorted(float(text.get("y")) for text in names)
    assert all(b - a >= 14.9 for a, b in zip(heights, heights[1:], strict=False))
    assert heights[0] > TOP  # they move down, not up into the title
    assert heights[-1] < HEIGHT


def test_nan_is_a_gap():
    line = [(1.0, 1.0), (2.0, 2.0), (3.0, math.nan), (4.0, math.inf), (5.0, 1.0), (6.0, 2.0)]
    panel = Panel("m", {"train": line})
    assert panel.pieces("train") == [line[:2], line[4:]]
    picture = Picture([panel])
    assert len(elements(picture, "polyline")) == 2
    assert len(elements(picture, "circle")) == 4
    assert plot([{"epoch": 1, "loss": math.nan}]).svg()


def test_wide_ranges_are_logarithmic():
    (panel,) = build_panels([{"epoch": i, "loss": 10.0**-i} for i in range(5)])
    assert panel.log_y
    assert [text for _, text in panel.place_y_ticks()] == ["1e-4", "0.001", "0.01", "0.1", "1"]
    assert panel.place(1, -1) is None


def test_ticks():
    assert [text for _, text in choose_ticks(0.03, 0.97, 5, False)] == ["0.2", "0.4", "0.6", "0.8"]
    assert [text for _, text in choose_ticks(1, 3, 6, True)] == ["1", "2", "3"]
    assert [text for _, text in choose_ticks(1, 100, 6, True)] == ["20", "40", "60", "80", "100"]
    assert [text for _, text in log_ticks(-0.1, 1.1)] == ["1", "2", "5", "10"]
    assert [count_columns(n) for n in (1, 2, 3, 4, 5)] == [1, 2, 3, 2, 3]


def test_names_are_escaped():
    picture = Picture([Panel("a<b", {"x&y": [(1.0, 1.0)]})], "<title>")
    assert "a<b" in [text.text for text in elements(picture, "text")]
    assert "<title><title>" not in picture.html()


def test_files(tmp_path):
    picture = plot(history(), tmp_path / "deep" / "curves.html")
    page = (tmp_path / "deep" / "curves.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # needs no network
    assert "<td>loss</td><td>valid</td><td>4.5</td><td>0.5000</td><td>6</td>" in page
    picture.save(tmp_path / "curves.svg")
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(ValueError, match=r"\.html, \.svg or \.png"):
        picture.save(tmp_path / "curves.doc")
    with pytest.raises(ValueError, match="no epoch"):
        plot([])


def test_png_without_matplotlib_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot(history()).save(tmp_path / "curves.png")


def test_png(tmp_path):
    pytest.importorskip("matplotlib")
    plot([*history(), {"epoch": 11, "loss": 1e-5}], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("every", [1, 2])
def test_the_callback_keeps_a_picture(tmp_path, every, monkeypatch):
    monkeypatch.setattr(PlotCurves, "share", math.inf)  # however long it takes
    pages = []
    loop = Loop(lambda batch: None, callbacks=[PlotCurves(tmp_path, every)])
    loop.on(epoch.end)(lambda run: run.log(loss=1 / run.state.epoch))
    loop.on(epoch.start)(lambda run: pages.append((tmp_path / "curves.html").exists()))
    loop.run([1], epochs=3)
    assert list(loop.plot(tmp_path / "again.svg").panels[0].lines) == ["train"]
    assert (tmp_path / "again.svg").exists()
    assert pages == [False, every == 1, True]
    page = (tmp_path / "curves.html").read_text()
    assert len(re.findall("<circle cx='", page)) == 4  # three epochs, and the ring of the best
    with pytest.raises(ValueError, match="every"):
        PlotCurves(tmp_path, 0)


def test_drawing_does_not_hold_up_the_run(tmp_path, monkeypatch):
    now, drawn = [0.0], []
    monkeypatch.setattr(learning_curves.time, "perf_counter", lambda: now[0])

    def save(self, path):
        drawn.append(path.name)
        now[0] += 1.0

    monkeypatch.setattr(Picture, "save", save)
    monkeypatch.setattr(learning_curves.importlib.util, "find_spec", lambda name: None)

    def a_second(run, batch):
        now[0] += 1.0
        run.log(loss=1.0)

    loop = Loop(a_second, callbacks=[PlotCurves(tmp_path)])
    loop.run([1] * 10, epochs=12)  # two minutes
    assert len(drawn) == 4  # the first epoch, each fifty seconds, the end


def test_a_run_that_fails_is_drawn(tmp_path):
    def fail(run, batch):
        run.log(loss=1.0)
        assert run.state.epoch < 3

    loop = Loop(fail, callbacks=[PlotCurves(tmp_path, every=100)])
    with pytest.raises(AssertionError):
        loop.run([1], epochs=5)
    assert (tmp_path / "curves.html").read_text().count("<title>train") == 2


def test_a_page_has_margins_a_title_and_the_values_under_the_mouse():
    history = [{"epoch": i, "loss": 1 / i, "valid_loss": 1.5 / i} for i in range(1, 81)]
    html = plot(history).html()
    assert "<title>Learning curves, 80 epochs</title>" in html
    assert "padding: 24px 32px" in html
    points = json.loads(unescape(re.search("data-points='(.*?)'", html)[1]))
    assert len(points) == 80
    assert points[1][1] == "epoch 2"
    assert [(label, value) for label, _, _, value in points[1][2]] == [
        ("train", "0.5"), ("valid", "0.75")
    ]


def test_what_a_notebook_shows():
    history = History({"epoch": i, "loss": 1 / i} for i in (1, 2, 3))
    assert "<table>" in history._repr_html_()
    assert "pointermove" in plot(history)._repr_html_()
    sweep = LearningRateSweep([1e-3, 1e-2], [1.0, 0.5], [1.0, 0.7])
    assert "learning rate" in sweep._repr_html_()
    assert repr(sweep) == "2 rates from 0.0010 to 0.0100; none suggested: the loss does not fall"
    group = MetricGroup(["accuracy"])
    assert "<th>accuracy</th><td>nan</td>" in group._repr_html_()
    group.update(torch.eye(2), torch.tensor([0, 0]))
    assert "<th>accuracy</th><td>0.5</td>" in group._repr_html_()
    assert repr(group) == "MetricGroup(accuracy: 0.5)"
    assert "0.5" in group["accuracy"]._repr_html_()
    trainer = Trainer(torch.nn.Linear(2, 1), "sgd", "mse", compile=False)
    assert "<details><summary>layers" in trainer._repr_html_()
    trainer.fit(torch.ones(4, 2), torch.ones(4, 1), 2, progress=False)
    assert "Learning curves, 2 epochs" in trainer._repr_html_()


def test_names_have_one_size_and_a_marked_point_is_called_what_it_is() -> None:
    lines = {"a": [(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)], "a much longer name": [(1.0, 2.0)]}
    panel = Panel("loss", lines, best={"a": (2.0, 1.0)}, mark="steepest")
    picture = Picture([panel])
    names = [line for line in picture.svg().split("<text") if "font-weight='600'" in line]
    assert sum("font-size='10'" in line for line in names) == 2
    assert "steepest 1" in picture.svg()
    assert "<th>steepest</th>" in picture.html()
    assert "best" not in picture.html().split("<body")[-1].split("<script")[0]
