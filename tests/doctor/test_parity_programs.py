"""The doctor finds nothing in the programs that are compared with PyTorch, which are healthy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_nothing_is_found(program: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", "--doctor", "--json", str(report), str(program)],
        cwd=program.parent, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if "No module named 'tensorboard'" in done.stderr:
        pytest.skip("TensorBoard is not installed")
    assert done.returncode == 0, done.stderr
    findings = json.loads(report.read_text())["findings"]
    assert [f for f in findings if f["level"] != "hint"] == []
