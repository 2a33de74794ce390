"""Results with named fields (`torch.return_types`) in compiled steps: read, unpacked, returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

X = torch.arange(20.0).reshape(4, 5).sin()
STEPS: dict[str, Callable[[], Any]] = {
    "field": lambda: torch.max(X, 1).values * 2,
    "other field": lambda: X.max(1).indices + 1,
    "item": lambda: X.max(1)[0] * 2,
    "unpacked": lambda: sum(X.max(1)),
    "starred": lambda: torch.stack([*X.topk(2)][:1]),
    "returned": lambda: X.min(1),
    "nested": lambda: {"a": [X.median(1)]},
    "computed by SciPy": lambda: torch.linalg.svd(X).S * 2,
    "returned from SciPy": lambda: torch.linalg.qr(X),
    "argument": lambda: torch.cat(X.kthvalue(2, 1)),
}


def _flatten(x: Any) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x]
    return [leaf for part in (x.values() if isinstance(x, dict) else x) for leaf in _flatten(part)]


@pytest.mark.parametrize("name", STEPS)
def test_the_step_is_proved(name: str) -> None:
    step = STEPS[name]
    compiled = torch.compile(step, options={"mode": "now"})
    for _ in range(8):
        actual = compiled()
    expected = step()
    assert type(actual) is type(expected)
    for a, b in zip(_flatten(actual), _flatten(expected), strict=True):
        torch.testing.assert_close(a, b)
    assert "proved harmless" in compiled.explain(), compiled.explain()
