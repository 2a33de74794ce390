"""What all tests share: pytest turns warnings into errors, except those that flambeau silences."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path

import pytest

# Machine code made by tests is kept apart from the user's.
os.environ.setdefault("FLAMBEAU_CACHE_DIR", str(Path(tempfile.gettempdir()) / "flambeau-tests"))


@pytest.fixture(autouse=True)
def _numpy_may_compute_inf():
    """Inside flambeau NumPy's floating-point warnings are ignored, as importing it arranges."""
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning, module=r"flambeau\.(ops|autograd|optim|train\.metrics)"
    )


@pytest.fixture(autouse=True)
def _no_precedents(monkeypatch):
    """How many calls are recorded does not depend on the tests that ran before."""
    monkeypatch.setattr("flambeau.compiler.precedent._hope", lambda function: None)
