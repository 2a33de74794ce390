"""Two ways to draw random numbers, whose bits are the same."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from flambeau.tensor.random import native


@pytest.fixture
def by_arrays(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, has array code make all draws."""

    def choose() -> None:
        monkeypatch.setattr(native, "MIN_DRAW_KERNEL_ELEMENTS", 1 << 62)
        monkeypatch.setattr(native, "MAX_PYTHON_LIBM_CALLS", 1 << 62)
        monkeypatch.setattr(native, "_ready", {})  # of few numbers, kernels that are there draw all

    return choose


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Called, has kernels make all draws, and waits until they are there."""
    asked = native.get_kernel

    def waited(name: str, dtype: np.dtype | None = None) -> int | None:
        end = time.monotonic() + 120
        while asked(name, dtype) is None:
            assert time.monotonic() < end, name
            time.sleep(0.001)
        return asked(name, dtype)

    def choose() -> None:
        monkeypatch.setattr(native, "MIN_DRAW_KERNEL_ELEMENTS", 1)
        monkeypatch.setattr(native, "MAX_PYTHON_LIBM_CALLS", 1)
        monkeypatch.setattr(native, "get_kernel", waited)

    return choose
