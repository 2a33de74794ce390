"""A browser draws the page of a flame graph, and a click on a bar shows it alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.profiler import profile, write_flame_graph

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
# Runs at the end of a page: clicks the bar, then presses Escape if asked to.
_CLICK = """<script>
[...document.querySelectorAll(".bar")].find(e => e.textContent.startsWith("nn.Module")).click();
</script>"""
_ESCAPE = '<script>dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));</script>'

pytestmark = pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium here")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU()), torch.ones(32, 64)
    with profile(with_modules=True) as prof, torch.profiler.record_function("a <b> label"):
        model(x).sum().backward()
    path = tmp_path_factory.mktemp("flame") / "graph.html"
    write_flame_graph(prof, str(path), "Training")
    return path


def draw(page: Path, folder: Path, script: str = "") -> list[str]:
    """Return the names of the bars that a browser draws, the outermost first."""
    copy = folder / "page.html"
    copy.write_text(page.read_text().replace("</html>", script + "</html>"))
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    run = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder}", "--dump-dom", copy.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )
    assert "CONSOLE" not in run.stderr, run.stderr
    return re.findall(r'class="bar" title="(.*?): [\d.]+ [mu]?s, ', run.stdout)


def test_a_browser_draws_the_bars(page: Path, tmp_path: Path) -> None:
    bars = draw(page, tmp_path)
    assert bars[0] == "Training"
    assert bars[1].replace("&lt;", "<").replace("&gt;", ">") == "a <b> label"
    assert "nn.Module: Sequential_0" in bars
    assert any(name.startswith("aten::") for name in bars)


def test_a_click_shows_a_bar_alone_and_escape_goes_back(page: Path, tmp_path: Path) -> None:
    clicked = draw(page, tmp_path, _CLICK)
    assert clicked[0] == "nn.Module: Sequential_0"
    assert not any("Backward" in name for name in clicked)
    assert draw(page, tmp_path, _CLICK + _ESCAPE) == draw(page, tmp_path)
