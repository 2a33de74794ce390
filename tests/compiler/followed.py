"""Whether a compiled step is followed, and why it is not skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def reason(step: Any) -> str:
    """Why the Python of a step runs on every call; empty where it is skipped."""
    text: str = step.explain()
    return text if " is followed: " in text else ""


@contextmanager
def followed(step: Any, why: str = "") -> Iterator[None]:
    """Asserts that a step is followed after what is inside, for a reason."""
    yield
    assert re.search(why, reason(step)) and reason(step), step.explain()
