"""Docstrings are composed from signatures, which a stub of an earlier test would hide."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _plain(plain_functions_of_a_module):
    """See tests/conftest.py."""
