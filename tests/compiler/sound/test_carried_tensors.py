"""Most steps that take tensors over from the call before are proved (see test_scenes.py)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import flambeau as torch

from . import (
    carried_alias_scenes, carried_grad_scenes, carried_history_scenes, carried_order_scenes,
)
from .carried_scenes import SCENES
from .scenario import assert_python_is_skipped

assert all((carried_alias_scenes, carried_grad_scenes, carried_history_scenes,
            carried_order_scenes))  # they register their scenes

FOLLOWED = (
    "a buffer", "slots", "a property with a setter", "a setter that logs", "builtins read and set",
    "other objects with state", "a kalman filter", "a replaced field", "deleted and set", "growing",
    "growing without gradients", "a state that is not detached",
    "backward within without detaching", "a leaf replaced after backward", "replaced data",
    "without gradients at times", "in inference mode at times", "replaced between all calls",
    "replaced by views between calls", "a bare reference to the state", "a tensor in a set",
    "a state whose graph is retained", "a state measured with its graph",
    "gradients of the detached state", "a state trained at times",
)


@pytest.mark.parametrize("name", [name for name in SCENES if name not in FOLLOWED])
def test_python_is_skipped(name: str) -> None:
    assert_python_is_skipped(SCENES[name])


class Holder:
    def __init__(self, h: Any) -> None:
        self.h = h


def test_a_replaced_owner_of_a_carried_tensor_dies() -> None:
    state = Holder(Holder(torch.zeros(3)))

    def step(x: torch.Tensor) -> torch.Tensor:
        state.h.h = torch.tanh(state.h.h + x)
        return state.h.h

    compiled = torch.compile(step, mode="now")
    for _ in range(6):
        compiled(torch.ones(3))
    assert "Python is skipped" in compiled.explain()
    owner, tensor = weakref.ref(state.h), weakref.ref(state.h.h)
    state.h = Holder(torch.ones(3))
    compiled(torch.ones(3))
    gc.collect()
    assert owner() is None
    assert tensor() is None
    for _ in range(6):
        compiled(torch.ones(3))
    assert "Python is skipped" in compiled.explain()
