"""The page of a step: what it holds, that nothing in it is fetched, and that a browser draws it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.report.figures import BOUNDS, PHASES

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def page_of(path: Path) -> tuple[str, dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    return text, json.loads(match[1])


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Of a whole training step."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(),
                        nn.Linear(40, 3))
    optimizer = torch.optim.Adam(net.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    fast = torch.compile(step, mode="now")
    for _ in range(4):
        fast(torch.randn(16, 12), torch.randint(3, (16,)))
    path = tmp_path_factory.mktemp("page") / "step.html"
    text = fast.explain(html=path)
    assert text.startswith("step: ")
    return path


def test_the_figures_are_all_there(page) -> None:
    _, data = page_of(page)
    assert data["name"] == "step"
    assert {kernel["phase"] for kernel in data["kernels"]} == set(PHASES)
    for kernel in data["kernels"]:
        assert kernel["bound"] in BOUNDS
        assert kernel["seconds"] >= 0
        assert 0 <= kernel["share"] <= 1
        assert kernel["name"] in data["loops"][kernel["loops"]]
    products = [kernel for kernel in data["kernels"] if kernel["operator"] == "linear"]
    assert {kernel["module"] for kernel in products} == {f"Sequential.{k}" for k in (0, 2, 4)}
    assert all("test_page.py:" in kernel["line"] for kernel in products)
    texts = {data["sources"][kernel["line"]] for kernel in products}
    assert texts == {"loss = F.cross_entropy(net(x), y)"}
    origins = {origin for kernel in data["kernels"] for origin in kernel["origins"]}
    places = {origin.rpartition(" at ")[2] for origin in origins if " at " in origin}
    assert places <= set(data["sources"])
    assert 0 < data["unique"] <= len(data["kernels"])
    assert sum(kernel["seconds"] for kernel in data["kernels"]) > 0


def test_nothing_is_fetched(page) -> None:
    text, _ = page_of(page)
    assert "default-src 'none'" in text
    assert set(re.findall(r"""(?:src|href)=["']?([^"'>]*)""", text)) == {"data:,"}
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_backward_of_a_module_is_on_the_same_page(tmp_path) -> None:
    net = torch.compile(nn.Linear(4, 4), mode="now")
    for _ in range(4):
        net(torch.ones(2, 4)).sum().backward()
    net.explain(html=tmp_path / "step.html")
    _, data = page_of(tmp_path / "step.html")
    assert {kernel["program"] for kernel in data["kernels"]} == {0, 1}
    assert {kernel["phase"] for kernel in data["kernels"] if kernel["program"]} == {"backward"}


def test_a_kernel_names_no_other_layer_for_a_constant_that_both_use(tmp_path) -> None:
    layers = [nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)]
    net = torch.compile(nn.Sequential(*layers), mode="now")
    for _ in range(4):
        net(torch.ones(8, 16)).sum().backward()
    net.explain(html=tmp_path / "step.html")
    _, data = page_of(tmp_path / "step.html")
    for kernel in data["kernels"]:
        if kernel["operator"] == "linear":
            layer = kernel["module"].split(".")[1]
            named = re.findall(r" in Sequential\.(\d)", " ".join(kernel["origins"]))
            assert layer in named
            assert set(named) <= {layer, str(int(layer) - 1)}  # whose output it reads


def test_names_cannot_break_out() -> None:
    from flambeau.compiler.report.figures import StepFigures
    from flambeau.compiler.report.page import render_page

    nothing = StepFigures(0.0, [], 0, 1, (1.0, 1.0))
    text = render_page([nothing], "</script><b>", ["<i>"])
    assert "</script><b>" not in text
    assert "<i>" not in text
    assert "<title>&lt;/script&gt;&lt;b&gt;" in text


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium here")
def test_a_browser_draws_it(page, tmp_path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    run = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )
    _, data = page_of(page)
    assert "CONSOLE" not in run.stderr, run.stderr
    assert 'data-ready="yes"' in run.stdout
    kernels = len(data["kernels"])
    assert len(set(re.findall(r'<g class="box[^"]*" data-kernel="(\d+)"', run.stdout))) == kernels
    assert run.stdout.count("<tr data-kernel=") + run.stdout.count("<tr class=") >= kernels
