"""Inference tensors: what a step makes inside an inference mode of its own is what eager makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

HOLDER: dict[str, Any] = {}


@torch.inference_mode()
def predict(x: torch.Tensor) -> Any:
    return x.cos() * 2


def switch_within(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x.cos() * 2
    return y, x + 1, y[:2], y.detach(), x[1:]


def leave_mode(x: torch.Tensor) -> Any:
    y = x + 1
    with torch.inference_mode(False):
        return y, x.cos() * 2


def store(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        HOLDER["y"] = x.cos() * 2
    return x + 1


def list_flags(result: Any) -> list[bool]:
    tensors = result if isinstance(result, tuple) else (result,)
    return [t.is_inference() for t in (*tensors, *HOLDER.values())]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("step", [predict, switch_within, leave_mode, store])
def test_results_are_of_the_mode_they_were_made_in(
    step: Callable[..., Any], around: bool, follow: bool,
) -> None:
    HOLDER.clear()
    compiled = torch.compile(step, options={"mode": "now", "follow": follow})
    for i in range(6):
        x = torch.full((4,), float(i))
        with torch.inference_mode(around):
            expected = list_flags(step(x))
            assert list_flags(compiled(x)) == expected, i


def test_a_prediction_cannot_be_saved_for_backward() -> None:
    compiled = torch.compile(predict, mode="now")
    weight = torch.ones(4, requires_grad=True)
    for _ in range(4):
        y = compiled(torch.ones(4))
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            weight * y
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            y.add_(1)
    assert "1 kernel" in str(compiled.explain())
