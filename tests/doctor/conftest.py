"""Watched programs run with functions that wear no stubs of earlier tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _plain(plain_functions_of_a_module):
    """See tests/conftest.py."""
