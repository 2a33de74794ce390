"""The modules that a function refers to by name, whatever its wrappers look like."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.compiler.driver.named_modules import find_named_modules

NET = nn.Linear(2, 2)


def inner(x: torch.Tensor) -> torch.Tensor:
    return NET(x)


def test_a_function_that_wraps_itself() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return NET(x)

    step.__wrapped__ = step  # type: ignore[attr-defined]
    assert find_named_modules(step) == [NET]
    compiled, x = torch.compile(step, mode="now", fullgraph=True), torch.ones(2, 2)
    assert all(torch.equal(compiled(x), step(x)) for _ in range(4))


def test_functions_that_wrap_each_other() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        return x

    def second(x: torch.Tensor) -> torch.Tensor:
        return x

    first.__wrapped__, second.__wrapped__ = second, first  # type: ignore[attr-defined]
    assert find_named_modules(first) == []
    second.__wrapped__ = inner  # type: ignore[attr-defined]
    assert find_named_modules(first) == [NET]


def test_an_object_that_wraps_itself() -> None:
    class Step:
        def __init__(self) -> None:
            self.__wrapped__, self.net = self, NET

        def __call__(self, x: Any) -> Any:
            return self.net(x)

    compiled, x = torch.compile(Step(), mode="now"), torch.ones(2, 2)
    assert all(torch.equal(compiled(x), NET(x)) for _ in range(4))
