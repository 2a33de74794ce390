"""deepcopy of tensors of one's own class: attributes in slots are copied too."""

from __future__ import annotations

import copy
from typing import Any

import pytest


@pytest.mark.parametrize("is_parameter", [False, True])
def test_slots_are_copied(torch: Any, is_parameter: bool) -> None:
    class Logging(torch.Tensor):
        __slots__ = ("log",)

        @staticmethod
        def __new__(cls, data: Any, log: Any = None) -> Any:
            x = torch.Tensor._make_subclass(cls, data)
            x.log = [] if log is None else log
            return x

        def new_empty(self, shape: Any) -> Any:
            return type(self)(torch.empty(shape))

    x = Logging(torch.ones(2), ["a"])
    log = x.log
    if is_parameter:
        x = torch.nn.Parameter(x)
        x.log = log
    twin = copy.deepcopy(x)
    assert type(twin) is Logging
    assert twin.log == ["a"]
    assert twin.log is not log
    assert twin.tolist() == [1.0, 1.0]
