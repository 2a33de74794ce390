"""Modules of the library that a step creates and calls, such as `nn.MSELoss()(x, y)`.

Such steps are proved, and what decides how the modules compute is guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

X = torch.arange(12.0).reshape(3, 4)
SETTINGS: dict[str, Any] = {}
STEPS: dict[str, Callable[[], Any]] = {
    "loss": lambda: nn.MSELoss(reduction="sum")(X, X * 2),
    "activations": lambda: nn.Softmax(dim=1)(nn.ReLU()(X - 5)),
    "in a variable": lambda: (lambda pool: pool(X) + pool(X * 2))(nn.AvgPool1d(2)),
    "sequence": lambda: nn.Sequential(nn.Tanh(), nn.Flatten(0))(X),
    "draws": lambda: nn.Dropout(0.5)(X),
    "parameters": lambda: nn.Linear(4, 2)(X).detach(),
}
CHANGED: dict[str, Callable[[], Any]] = {
    "argument": lambda: nn.Softmax(dim=SETTINGS["dim"])(X),
    "keywords": lambda: nn.Softmax(**SETTINGS)(X),
    "attribute": lambda: _with_attribute(nn.Softmax(dim=0))(X),
    "training": lambda: nn.Dropout(1.0).train(SETTINGS["dim"] == 1)(X),
    "module of the program inside": lambda: nn.Sequential(nn.ReLU(), _Scale())(X),
}


class _Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (SETTINGS["dim"] + 2)


def _with_attribute(module: Any) -> Any:
    module.dim = SETTINGS["dim"]
    return module


def _run(step: Callable, is_compiled: bool, changes: bool) -> list[Any]:
    SETTINGS["dim"] = 0
    torch.manual_seed(0)
    call = torch.compile(step, options={"mode": "now"}) if is_compiled else step
    values = []
    for i in range(12):
        if changes and i == 7:
            SETTINGS["dim"] = 1
        values.append(call().tolist())
    if is_compiled and not changes:
        assert "proved harmless" in call.explain(), call.explain()
    return values


@pytest.mark.parametrize("name", STEPS)
def test_the_step_is_proved(name: str) -> None:
    eager, compiled = (_run(STEPS[name], is_compiled, False) for is_compiled in (False, True))
    assert len(eager) == len(compiled)
    for a, b in zip(eager, compiled, strict=True):
        assert _close(a, b)


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_is_seen(name: str) -> None:
    eager, compiled = (_run(CHANGED[name], is_compiled, True) for is_compiled in (False, True))
    assert _close(eager, compiled)


REPLACED: dict[str, tuple[type, str, Callable[[], Any]]] = {
    "forward": (nn.Tanh, "forward", lambda: nn.Tanh()(X)),
    "forward of an inner module": (nn.Tanh, "forward", lambda: nn.Sequential(nn.Tanh())(X)),
    "forward of a module that a constructor creates": (
        nn.Linear, "forward", lambda: nn.TransformerEncoderLayer(4, 1, 8, 0.0)(X)),
    "the call": (nn.Tanh, "__call__", lambda: nn.Tanh()(X)),
    "the constructor": (nn.ReLU, "__init__", lambda: nn.ReLU()(X)),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_method_of_the_class_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, step = REPLACED[name]
    compiled = torch.compile(step, options={"mode": "now"})
    for _ in range(6):
        compiled()
    calls = []
    original = getattr(kind, method)
    monkeypatch.setattr(kind, method, lambda *args, **kwargs: (
        calls.append(method), original(*args, **kwargs))[1], raising=False)
    for count in (1, 2):
        compiled()
        assert len(calls) >= count


def _close(a: Any, b: Any) -> bool:
    return torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-5)
