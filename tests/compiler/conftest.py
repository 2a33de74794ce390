"""Compiled and followed steps are tested with functions that wear no stubs of earlier tests."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _plain(plain_functions_of_a_module):
    """See tests/conftest.py."""


@pytest.fixture(autouse=True, scope="module")
def _little_to_scan():
    """What earlier files left lives on: a recording takes 30 ns for each object not frozen."""
    gc.collect()
    gc.freeze()
