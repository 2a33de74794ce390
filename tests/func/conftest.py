"""The library under test, as the fixture `torch`: flambeau always, PyTorch itself where installed.

Tests that take it so run against PyTorch too, which checks the tests.
"""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(params=["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def torch(request):
    """The library that plays `torch`, with grad mode on."""
    if request.param == "torch":
        library = pytest.importorskip("torch")
    else:
        library = importlib.import_module("flambeau")
    library.manual_seed(0)
    yield library
    library.set_grad_enabled(True)
    library.autograd.set_detect_anomaly(False)
