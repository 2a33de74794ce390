"""Programs as tutorials have them print the same numbers under PyTorch and under flambeau.

Each of `tests/programs/` is an ordinary script on `import torch`. Here they run under flambeau and
must end; where PyTorch is installed their lines are compared, numbers to three digits.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
QUICK = ("checkpoints", "hooks", "custom_function", "schedulers", "transformer_lm")
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")


def run(program: str, *launcher: str) -> str:
    """What a program prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *launcher, f"{program}.py"], cwd=FOLDER, env=environment, text=True,
        capture_output=True, timeout=300, check=False,
    )
    if "No module named 'tensorboard'" in done.stderr:
        pytest.skip("needs tensorboard")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def assert_alike(expected: str, actual: str) -> None:
    """Compares two printouts: words by letters, numbers with a tolerance."""
    for a, b in zip(expected.splitlines(), actual.splitlines(), strict=True):
        assert NUMBER.sub("#", a) == NUMBER.sub("#", b)
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True):
            assert float(y) == pytest.approx(float(x), rel=2e-3, abs=2e-4), (a, b)


@pytest.mark.parametrize("program", QUICK)
def test_runs(program):
    assert run(program, "-m", "flambeau")


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in QUICK])
def test_all_run(program):
    assert run(program, "-m", "flambeau")


@pytest.mark.parity
@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_what_pytorch_prints(program):
    pytest.importorskip("torch")
    assert_alike(run(program), run(program, "-m", "flambeau"))
