"""Learning curves: each metric in a panel, train and valid together; as HTML, SVG and PNG.

HTML and SVG are written here and need nothing; PNG and `figure()` need matplotlib.
"""

from __future__ import annotations

import importlib.util
import math
import os
import time
from pathlib import Path
from typing import Any

from ..events.order import Band
from ..state.formatting import STAGES, list_scalars, shorten, stage_of
from ..state.monitored_metric import guess_higher_is_better
from .curves_page import render_notebook_part, render_page
from .plot_panel import Panel, Points
from .svg import FAINT, GRID, INK, choose_color, count_columns, render_svg


class Picture:
    """Panels to show and save; notebooks display it."""

    def __init__(self, panels: list[Panel], title: str = "Learning curves") -> None:
        self.panels = panels
        self.title = title

    def svg(self) -> str:
        """Return an SVG document."""
        return render_svg(self.panels)

    _repr_svg_ = render_svg

    def html(self) -> str:
        """Return a self-contained page with a table of the best and the last values."""
        return render_page(self.panels, self.title)

    def _repr_html_(self) -> str:
        return render_notebook_part(self.panels, self.title)

    def figure(self) -> Any:
        """Return a matplotlib figure. Raises ImportError without matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "a PNG needs matplotlib, which is not installed: pip install matplotlib; "
                ".svg and .html need no package"
            ) from error
        columns = count_columns(len(self.panels))
        rows = -(-len(self.panels) // columns)
        figure = Figure(figsize=(4.6 * columns, 3.0 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, axis in zip(self.panels, axes, strict=False):
            _draw(panel, axis)
        for axis in axes[len(self.panels) :]:
            axis.set_visible(False)
        return figure

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write .html, .svg or .png by the name's ending, atomically."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replacement = path.with_name(f".{path.name}.new")
        if path.suffix == ".html":
            replacement.write_text(self.html(), encoding="utf-8")
        elif path.suffix == ".svg":
            replacement.write_text(self.svg(), encoding="utf-8")
        elif path.suffix in (".png", ".pdf", ".jpg"):
            self.figure().savefig(replacement, format=path.suffix[1:], dpi=150)
        else:
            raise ValueError(f"a plot can be saved as .html, .svg or .png, not {path.name!r}")
        os.replace(replacement, path)
        return path


def plot(run: Any, path: str | os.PathLike[str] | None = None) -> Picture:
    """Plot the learning curves of a run or its history; save them if given a path.

    Raises ValueError before the first epoch.

    >>> history = [{"epoch": i, "loss": 1 / i, "valid_loss": 1.5 / i} for i in (1, 2, 3)]
    >>> plot(history).save("curves.html").name
    'curves.html'
    >>> [(panel.title, list(panel.lines)) for panel in plot(history).panels]
    [('loss', ['train', 'valid'])]
    """
    history = run if isinstance(run, list) else run.history
    if not history:
        raise ValueError("no epoch has finished yet")
    epochs = f"{len(history)} epoch{'s' if len(history) > 1 else ''}"
    picture = Picture(build_panels(history), f"Learning curves, {epochs}")
    if path is not None:
        picture.save(path)
    return picture


def build_panels(history: list[dict[str, Any]]) -> list[Panel]:
    """Return a panel for each metric of a history, the loss first, with a line for each stage."""
    curves: dict[str, dict[str, Points]] = {}
    for row in history:
        for name, value in list_scalars({k: v for k, v in row.items() if k != "epoch"}).items():
            stage, metric = stage_of(name)
            points = curves.setdefault(metric, {}).setdefault(stage, [])
            points.append((float(row["epoch"]), value))
    panels = []
    for metric, lines in sorted(curves.items(), key=lambda item: "loss" not in item[0]):
        ordered = {stage: lines[stage] for stage in STAGES if stage in lines}
        if metric.startswith("lr"):  # a setting, not a result
            ordered = {"lr": ordered["train"]} if "train" in ordered else ordered
        panel = Panel(metric, ordered, log_y=_has_wide_range(ordered))
        judged_stage = "valid" if "valid" in ordered else next(iter(ordered))
        best = _find_best(metric, ordered[judged_stage])
        if best is not None:
            panel.best[judged_stage] = best
        panels.append(panel)
    return panels


def _has_wide_range(lines: dict[str, Points]) -> bool:
    """Whether values span more than two powers of ten, which a linear axis would flatten."""
    values = [y for points in lines.values() for _, y in points if y == y]
    return bool(values) and min(values) > 0 and max(values) > 100 * min(values)


def _find_best(metric: str, points: Points) -> tuple[float, float] | None:
    is_higher_better = guess_higher_is_better(metric)
    defined = [point for point in points if point[1] == point[1]]
    if not defined or len(points) < 2 or is_higher_better is None:
        return None
    return (max if is_higher_better else min)(defined, key=lambda point: point[1])


def _draw(panel: Panel, axis: Any) -> None:
    """Draw a panel on matplotlib's axes."""
    for index, (label, points) in enumerate(panel.lines.items()):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        color = choose_color(label, index)
        axis.plot(xs, ys, color=color, linewidth=1.6, marker="o" if len(xs) <= 60 else "",
                  markersize=2.5)
        if label in panel.best:
            x, y = panel.best[label]
            axis.plot(x, y, "o", color=color, markersize=7, fillstyle="none")
            if x != xs[-1]:
                axis.annotate(f"{panel.mark} {shorten(y)}", (x, y), (0, 8),
                              textcoords="offset points", ha="center", color=color, fontsize=8)
    axis.set_xscale("log" if panel.log_x else "linear")
    axis.set_yscale("log" if panel.log_y else "linear")
    if panel.whole_x and not panel.log_x:
        axis.set_xticks([place for place, _ in panel.place_x_ticks()])
    axis.set_xlabel(panel.x_label, color=INK)
    axis.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", color=INK)
    axis.grid(axis="y", color=GRID)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(FAINT)
    axis.tick_params(which="both", length=0, colors=FAINT, labelsize=8)
    _name_lines(panel, axis)


def _name_lines(panel: Panel, axis: Any) -> None:
    """Label lines at their ends on matplotlib's axes, spread so that labels do not overlap."""
    bottom, top = axis.get_ylim()
    to_axis = axis.transScale + axis.transLimits
    names: list[list[Any]] = []
    for index, label in enumerate(panel.lines):
        visible = [(x, y) for x, y in panel.lines[label] if panel.place(x, y)]
        if visible:
            height = float(to_axis.transform(visible[-1])[1])
            names.append([height, f"{label} {shorten(visible[-1][1])}", choose_color(label, index)])
    names.sort(key=lambda name: name[0])
    for below, above in zip(names, names[1:], strict=False):
        above[0] = max(above[0], below[0] + 0.085)
    highest = 0.98
    for above in reversed(names):
        above[0] = min(above[0], highest)
        highest = above[0] - 0.085
    for height, text, color in names:
        axis.annotate(text, (1.02, height), xycoords="axes fraction", color=color, fontsize=9,
                      fontweight="bold", va="center")
    axis.set_ylim(bottom, top)


class PlotCurves:
    """Keep `curves.html`, and with matplotlib `curves.png`, up to date in a folder.

    Draws after every `every`-th epoch, unless that would take more than 2 % of the time since the
    last picture, and at the end of the run, also after an error.

    >>> import os
    >>> from flambeau.train import Trainer
    >>> x, plot = torch.zeros(4, 2), PlotCurves("pictures")
    >>> trainer = Trainer(nn.Linear(2, 1), "sgd", "mse", compile=False, callbacks=[plot])
    >>> _ = trainer.fit((x, x[:, :1]), epochs=2)
    >>> "curves.html" in os.listdir("pictures")
    True
    """

    band = Band.IO
    share = 0.02  # of the run's time, at most

    def __init__(
        self, folder: str | os.PathLike[str], every: int = 1, name: str = "curves"
    ) -> None:
        if every < 1:
            raise ValueError(f"PlotCurves: every must be at least 1, not {every}")
        self.folder = Path(folder)
        self.every = every
        self.stem = name
        self._drawn, self._cost = -math.inf, 0.0

    def on_epoch_end(self, run: Any) -> None:
        """Draw when due; the history does not have the ending epoch yet."""
        is_due = time.perf_counter() - self._drawn >= self._cost / self.share
        if run.state.epoch % self.every == 0 and is_due:
            self._save([*run.history, {"epoch": run.state.epoch, **run.state.metrics}])

    def on_run_end(self, run: Any) -> None:
        """Draw the complete history."""
        self._save(run.history)

    def on_run_error(self, run: Any) -> None:
        """Draw the history up to the failure."""
        self._save(run.history)

    def _save(self, history: list[dict[str, Any]]) -> None:
        rows = {row["epoch"]: row for row in history}  # the ending epoch may be in it twice
        if not rows or not build_panels([*rows.values()]):
            return
        start_s = time.perf_counter()
        picture = plot([*rows.values()])
        picture.save(self.folder / f"{self.stem}.html")
        if importlib.util.find_spec("matplotlib") is not None:
            picture.save(self.folder / f"{self.stem}.png")
        self._drawn = time.perf_counter()
        self._cost = self._drawn - start_s
