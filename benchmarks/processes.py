"""How the benchmarks start PyTorch and flambeau: which interpreter, how many threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")


def python_with(module: str, path: str | None = None) -> str | None:
    """The interpreter given, or this one, or that of .venv-parity: the first that has a module."""
    parity = Path(__file__).resolve().parent.parent / ".venv-parity" / "bin" / "python"
    candidates = [path] if path else [sys.executable, str(parity)]
    search = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    for python in candidates:
        try:
            if subprocess.run([python, "-c", search], check=False, cwd="/").returncode == 0:
                return python
        except OSError:
            continue
    return None


def python_with_torch(path: str | None = None) -> str:
    """The first of them that has torch; where none has, that is said and the program ends."""
    python = python_with("torch", path)
    if python is not None:
        return python
    candidates = [path] if path else [sys.executable, ".venv-parity/bin/python"]
    sys.exit(
        f"no PyTorch in {' or '.join(candidates)}: `make parity` installs it, "
        "or name an interpreter that has it with --torch-python"
    )
