"""How the benchmarks start PyTorch and flambeau: which interpreter, how many threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")


def python_with_torch(given: str | None = None) -> str:
    """The interpreter given, or this one, or that of .venv-parity: the first that has torch."""
    parity = Path(__file__).resolve().parent.parent / ".venv-parity" / "bin" / "python"
    candidates = [given] if given else [sys.executable, str(parity)]
    search = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    for python in candidates:
        try:
            if subprocess.run([python, "-c", search], check=False, cwd="/").returncode == 0:
                return python
        except OSError:
            continue
    sys.exit(
        f"no PyTorch in {' or '.join(candidates)}: `make parity` installs it, "
        "or name an interpreter that has it with --torch-python"
    )
