"""The loss curve of every example lies on PyTorch's: same seed, both in processes of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
EXAMPLES = ("mnist", "mlp", "char_gpt", "lstm", "autograd_tour")


@pytest.fixture(scope="module")
def parity():
    """benchmarks/parity.py as a module: the test and the picture take the same measure."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("parity", BENCHMARKS / "parity.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parity
@pytest.mark.parametrize("example", EXAMPLES)
def test_loss_curve(parity, example):
    pytest.importorskip("torch")
    theirs, ours = parity.curves(example, 100, sys.executable)
    assert len(theirs) == len(ours) == 100
    apart = parity.distances(theirs, ours)
    assert max(apart[:20]) <= 1e-4
    assert max(apart) <= 1e-2


@pytest.mark.parity
def test_a_shifted_curve_is_noticed(parity):
    """The measure is not blind: the same curve, one step late, is out of bounds."""
    pytest.importorskip("torch")
    theirs = parity.losses([sys.executable], "mlp", 20)
    assert max(parity.distances(theirs, theirs[1:] + theirs[:1])) > 1e-2


def test_every_example_is_compared(parity):
    programs = {path.stem for path in (BENCHMARKS.parent / "examples").glob("*.py")}
    engine = {name for name in programs if name.startswith("train_")} | {"kfold", "resume"}
    shared = {"progress", "mnist_data", "text_data"}
    # They need torchvision (tests/test_torchvision.py) and Optuna.
    libraries = {"transfer_learning", "optuna_search"}
    beside = shared | engine | libraries  # PyTorch has no training engine
    assert programs - beside == set(parity.EXAMPLES)
    assert set(EXAMPLES) == set(parity.EXAMPLES)
