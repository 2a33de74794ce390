"""Operators that raise for some values, and whose results nobody reads: eager mode raises, and so
must a program, although nothing depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F

EYE = torch.eye(3)
COUNTS = torch.tensor([1, 1, 2])
# name: the operator, values it takes, values it refuses
CALLS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "inv": (torch.linalg.inv, EYE, 0 * EYE),
    "inv_ex": (lambda x: torch.linalg.inv_ex(x, check_errors=True), EYE, 0 * EYE),
    "cholesky": (torch.linalg.cholesky, EYE, -EYE),
    "solve": (lambda x: torch.linalg.solve(x, EYE), EYE, 0 * EYE),
    "eigvals": (torch.linalg.eigvals, EYE, float("nan") * EYE),
    "svd": (torch.linalg.svd, EYE, float("nan") * EYE),
    "histc": (torch.histc, EYE, float("nan") * EYE),
    "remainder": (lambda x: 12 % x, COUNTS, 0 * COUNTS),
    "floor_divide": (lambda x: COUNTS // x, COUNTS, 0 * COUNTS),
    "fmod": (lambda x: torch.fmod(COUNTS, x), COUNTS, 0 * COUNTS),
    "embedding_bag": (lambda x: F.embedding_bag(x[None], EYE), COUNTS, 9 * COUNTS),
    "masked_scatter": (lambda x: EYE.masked_scatter(x > 3, EYE[0]), EYE, EYE + 9),
    "gaussian_nll_loss": (lambda x: F.gaussian_nll_loss(EYE, EYE, x), EYE, -EYE),
    "istft": (lambda x: torch.istft(torch.ones(5, 4) + 0j, 8, window=x), torch.ones(8),
              torch.zeros(8)),
    "max_unpool1d": (lambda x: F.max_unpool1d(EYE, x.expand(3, 3), 2), COUNTS, 9 * COUNTS),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("reads_result", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("follows", [False, True], ids=["proved", "followed"])
def test_values_that_an_operator_refuses_raise(
    name: str, reads_result: bool, follows: bool, capsys: pytest.CaptureFixture
) -> None:
    call, good, bad = CALLS[name]
    written = torch.zeros(3)

    def step(x: Any) -> Any:
        result = call(x)
        written.add_(1)
        if follows:
            print("a step that prints is followed")
        return result if reads_result else x * 2

    fast = torch.compile(step, mode="now")
    for _ in range(6):
        fast(good.clone())
    assert follows or fast._programs
    with pytest.raises((IndexError, RuntimeError, ValueError)) as wanted:
        step(bad)
    with pytest.raises((IndexError, RuntimeError, ValueError)) as raised:
        fast(bad)
    assert raised.type is wanted.type
    assert str(raised.value) == str(wanted.value)
    assert written.tolist() == [6.0] * 3
