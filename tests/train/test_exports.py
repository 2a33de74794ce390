"""What flambeau.train exports is there, and comes only when asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flambeau.train


@pytest.mark.parametrize("name", flambeau.train.__all__)
def test_exported(name):
    assert getattr(flambeau.train, name) is not None


def test_callbacks_are_imported_when_asked_for():
    program = (
        "import flambeau.train, sys; print([m for m in ('flambeau.train.loggers', "
        "'flambeau.utils.tensorboard', 'flambeau.train.reporting.learning_curves', "
        "'importlib.metadata') "
        "if m in sys.modules]); flambeau.train.CSVLogger"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True,
                          text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        flambeau.train.Nothing  # noqa: B018
