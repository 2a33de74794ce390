"""The pytest fixture `doctor`: fails a test that makes a certain mistake.

Load it with `pytest_plugins = ["flambeau.doctor.pytest_plugin"]`; an installed flambeau loads it
automatically.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import Doctor, Level


@pytest.fixture
def doctor() -> Iterator[Doctor]:
    """Watch the test; `doctor.findings` lists the findings so far."""
    watcher = Doctor(quiet=True)
    with watcher:
        yield watcher
    certain = [f for f in watcher.findings if f.level is Level.CERTAIN]
    if certain:
        pytest.fail("\n".join(f.text() for f in certain), pytrace=False)
