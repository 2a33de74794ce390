"""The four styles are the same training; a GAN with two optimisers learns its ring."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.train import fused

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
STYLES = ("decorators", "hooks", "callbacks", "generators")


@pytest.fixture
def output(monkeypatch, capsys):
    """What an example prints. One thread: beside other tests, several wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.setattr(sys, "argv", ["example"])
    # A compiled step takes over when it is ready, and may differ in a last bit: compare eager ones.
    monkeypatch.setattr(fused.compiler, "compile", lambda step: step)

    def run(name):
        runpy.run_path(str(EXAMPLES / f"train_{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    yield run
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore:Trainer. the step is not compiled")
def test_four_styles(output):
    first, *others = (output(style) for style in STYLES)
    assert "epoch 1: loss fell by 2." in first
    assert float(re.findall(r"accuracy (\S+)%", first)[-1]) > 93.5
    assert first.endswith(" steps\n")
    assert others == [first] * 3


@pytest.mark.parametrize("style", STYLES)
def test_under_forty_lines(style):
    assert (EXAMPLES / f"train_{style}.py").read_text().count("\n") < 40


@pytest.mark.slow
def test_gan(output):
    off = [float(value) for value in re.findall(r"off the ring by (\S+)", output("gan"))]
    assert len(off) == 6
    assert off[-1] < 0.1 < off[0]
