"""The pytest fixture `doctor`: a test that uses it fails where a mistake is certain.

Loaded by `pytest_plugins = ["flambeau.doctor.pytest_plugin"]`, or by itself where flambeau is
installed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import Doctor, Level


@pytest.fixture
def doctor() -> Iterator[Doctor]:
    """Watch the test; `doctor.findings` has what was found so far."""
    watcher = Doctor(quiet=True)
    with watcher:
        yield watcher
    certain = [f for f in watcher.findings if f.level is Level.CERTAIN]
    if certain:
        pytest.fail("\n".join(f.text() for f in certain), pytrace=False)
