"""The advice in the warning for a step that stays eager: it follows from the kind of reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau.compiler.ir.reasons import Advice, Reason, advise

SETTINGS = {"scale": 0}


def branch(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


def scale_by_value(x: Any) -> Any:
    return x.mul(x.sum().item())


def scale_by_setting(x: Any) -> Any:
    return x * len("x" * SETTINGS["scale"])


AVERAGE = torch.zeros(3)


def replace_data(x: Any) -> Any:
    AVERAGE.data = AVERAGE.data * 0.9 + x * 0.1
    return AVERAGE.sum()


@pytest.mark.parametrize(("step", "advice"), [
    (branch, Advice.READ_OUTSIDE), (scale_by_value, Advice.READ_OUTSIDE),
    (scale_by_setting, Advice.PASS_TENSOR), (replace_data, Advice.COPY_DATA),
])
def test_warnings_end_with_advice(step: Callable[[Any], Any], advice: Advice) -> None:
    compiled = torch.compile(step, options={"mode": "now", "follow": False})
    with pytest.warns(UserWarning, match=f"stays eager: .*{re.escape(advice.value)}$"):
        for i in range(12):
            SETTINGS["scale"] = i
            compiled(torch.ones(3))


def test_a_reason_keeps_its_advice_when_a_place_is_added() -> None:
    reason = Reason("a key depends on a tensor's values", Advice.READ_OUTSIDE)
    assert advise(reason + ", in library.py:3") == Advice.READ_OUTSIDE.value
    assert advise("it warns") == ""
