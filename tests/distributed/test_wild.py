"""Libraries that train in several processes: unmodified, they give PyTorch's losses.

They depend on the distribution `torch`, so that no extra has them: install them with
`pip install --no-deps accelerate lightning pytorch-lightning torchmetrics lightning-utilities
pytorch-ignite` and what these need.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .ranks import ROOT, environment, needs_gloo

pytestmark = [needs_gloo, pytest.mark.slow]
SCRIPTS = Path(__file__).parent / "wild"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
# What the scripts print with PyTorch 2.13.0.
LOSSES = {
    "accelerate": [0.738177, 0.676757, 0.694559, 0.622291, 0.700343, 0.645287, 0.671558, 0.580567],
    "lightning": [0.660694, 0.660133, 0.625956, 0.611459, 0.634562, 0.792355, 0.611779, 0.619365],
    "ignite": [0.738177, 0.676757, 0.694559, 0.622291, 0.700343, 0.645287, 0.671558, 0.580567],
}


@pytest.mark.parametrize("library", LOSSES)
def test_two_processes_have_pytorchs_losses(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    launcher = () if library == "ignite" else TORCHRUN
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", *launcher, str(SCRIPTS / f"with_{library}.py")],
        env=environment(PYTHONPATH=path), text=True, capture_output=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.split(" ")[1:2] == ["2"])
    losses = [float(word) for word in line.split()[2:]]
    assert losses == pytest.approx(LOSSES[library], abs=2e-6)
