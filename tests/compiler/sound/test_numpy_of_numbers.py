"""NumPy's functions of plain numbers are pure; of tensors, arrays and what warns they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

KNOWN: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda x: x / np.sqrt(4),
    "log": lambda x: x * np.log(2),
    "prod": lambda x: x.reshape(int(np.prod(x.shape))),
    "maximum": lambda x: x * np.maximum(1, 2),
    "clip": lambda x: x * np.clip(3, 0, 1),
    "a scalar": lambda x: x * np.float32(0.5),
    "an integer": lambda x: x[: np.int64(1)],
}
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "of a tensor": lambda x: x * float(np.sqrt(x)[0, 0]),
    "of a number that a tensor holds": lambda x: x * np.sqrt(x.sum().item()),
}


def _compile(step: Callable[..., Any], **options: Any) -> Any:
    compiled = torch.compile(step, options={"mode": "now", **options})
    for k in range(5):
        x = torch.ones(2, 3) + k
        result, expected = compiled(x), step(x)
        assert result.dtype is expected.dtype
        assert torch.allclose(result, expected)
    return compiled


@pytest.mark.parametrize("name", KNOWN)
def test_python_is_skipped(name: str) -> None:
    assert "is followed" not in _compile(KNOWN[name]).explain()


@pytest.mark.parametrize("name", UNKNOWN)
def test_python_runs(name: str) -> None:
    assert "is followed" in _compile(UNKNOWN[name], follow=True).explain()


def test_what_it_takes_is_guarded() -> None:
    width, shape, cells = [4.0], [2, 3], np.array([1.0, 2.0])
    steps = (lambda x: x / np.sqrt(width[0]), lambda x: x * np.prod(shape),
             lambda x: x * np.sqrt(cells[1]),
             lambda x: x * np.maximum(width[0], 10) if np.sqrt(width[0]) > 3 else x)
    compiled = [_compile(step) for step in steps]
    width[0], cells[1] = 25.0, 9.0
    shape.append(4)
    for step, fast in zip(steps, compiled, strict=True):
        x = torch.randn(2, 3)
        assert torch.allclose(fast(x), step(x))


def test_a_replaced_function_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = _compile(KNOWN["sqrt"])
    monkeypatch.setattr(np, "sqrt", np.cbrt)
    assert torch.allclose(compiled(torch.ones(2, 3)), KNOWN["sqrt"](torch.ones(2, 3)))


def test_what_warns_warns_in_every_call() -> None:
    compiled = torch.compile(lambda x: x * float(np.log(0.0)), mode="now")
    for _ in range(5):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            compiled(torch.ones(2))
