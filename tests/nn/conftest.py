"""The library under test, as the fixture `torch`: flambeau always, PyTorch itself where installed.

Every test that uses it so runs against PyTorch too, which checks the test.
"""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(params=["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def torch(request):
    """The library that plays `torch`, seeded."""
    if request.param == "torch":
        library = pytest.importorskip("torch")
    else:
        library = importlib.import_module("flambeau")
    library.manual_seed(0)
    yield library
    library.set_default_dtype(library.float32)
    library.set_grad_enabled(True)


@pytest.fixture
def nn(torch):
    return torch.nn


@pytest.fixture
def own():
    """flambeau alone, for what PyTorch does not do."""
    return importlib.import_module("flambeau")
