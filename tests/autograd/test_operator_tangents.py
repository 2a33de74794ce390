"""Forward mode over PyTorch's whole operator database: tangents beside PyTorch's and quotients."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "operator_tangents.py"
SAMPLES = 3  # of each operator
# PyTorch's own tangents are 1e-6 to 1e-5 off the difference quotients; flambeau's lie on them.
INEXACT_IN_PYTORCH = {"cholesky_inverse", "logcumsumexp"}


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """What the script wrote with PyTorch, and with flambeau."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("tangents")
    env = os.environ | {"OMP_NUM_THREADS": "1", "FLAMBEAU_THREADS": "1",
                        "PYTHONHASHSEED": "0"}  # some samples come from sets of strings
    files = [folder / f"{library}.pickle" for library in ("torch", "flambeau")]
    runs = [subprocess.Popen([sys.executable, str(SCRIPT), file.stem, str(file), str(SAMPLES)],
                             env=env) for file in files]
    assert [run.wait(timeout=900) for run in runs] == [0, 0]
    return [pickle.loads(file.read_bytes()) for file in files]


def distance(a, b):
    """The largest difference of arrays, over 1 + their size; infinite for other shapes, or where
    only one of them is finite."""
    largest = 0.0
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or (np.isfinite(x) != np.isfinite(y)).any():
            return np.inf
        apart = np.abs(x - y) / (1 + np.abs(x))
        largest = max(largest, apart[np.isfinite(apart)].max(initial=0))
    return largest


def verdict(theirs, ours):
    """What is wrong with a sample: "" for nothing, "inexact" where only PyTorch is."""
    if "error" in theirs:
        return ""
    if "error" in ours:
        return ours["error"]
    if distance(theirs["results"], ours["results"]) > 1e-9:
        return "another result"
    if (apart := distance(theirs["tangents"], ours["tangents"])) <= 1e-7:
        return ""
    exact = distance(ours["tangents"], ours["differences"])
    if exact < apart / 3 and exact < 1e-5:
        return "inexact"
    return f"tangents differ by {apart:.1e}, ours from their quotients by {exact:.1e}"


@pytest.mark.parity
@pytest.mark.slow
def test_tangents_of_all_operators(pushed):
    theirs, ours = pushed
    verdicts = {(name, i): verdict(a, b) for name in theirs
                for i, (a, b) in enumerate(zip(theirs[name], ours[name], strict=True))}
    wrong = {key: text for key, text in verdicts.items() if text not in ("", "inexact")}
    assert not wrong
    assert {name for (name, _), text in verdicts.items() if text} <= INEXACT_IN_PYTORCH
    compared = [name for name in theirs if any("error" not in sample for sample in theirs[name])]
    assert len(compared) > 500


@pytest.mark.parity
@pytest.mark.slow
def test_tangents_lie_on_difference_quotients(pushed):
    """As closely as PyTorch's: quotients of operators with steps or state are no slopes."""
    theirs, ours = pushed
    for name, samples in ours.items():
        for a, b in zip(theirs[name], samples, strict=True):
            if "error" not in a:
                apart = distance(b["tangents"], b["differences"])
                assert apart <= max(1e-5, 1.1 * distance(a["tangents"], a["differences"])), name
