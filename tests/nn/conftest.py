"""What tests of modules take beside the library: its `nn`, and flambeau alone."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def nn(torch):
    return torch.nn


@pytest.fixture
def own():
    """flambeau alone, for what PyTorch does not do."""
    return importlib.import_module("flambeau")
