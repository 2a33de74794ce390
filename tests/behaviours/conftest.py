"""The library under test, as the fixture `torch`: flambeau always, PyTorch itself where installed.

Every test of this folder so runs against PyTorch too, which checks the tests.
"""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(params=["flambeau", pytest.param("torch", marks=pytest.mark.parity)])
def torch(request):
    """The library that plays `torch`; its default dtype, grad mode and print options are kept."""
    if request.param == "torch":
        library = pytest.importorskip("torch")
    else:
        library = importlib.import_module("flambeau")
    library.manual_seed(0)
    yield library
    library.set_default_dtype(library.float32)
    library.set_grad_enabled(True)
    library.set_printoptions(profile="default")
