"""Steps that call custom autograd Functions are proved.

What `forward` and `backward` read, store in their context and change counts as in any code of the
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

SETTINGS: dict[str, Any] = {}
CALLS: list[str] = []


class Surrogate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g / (1 + x.abs()) ** 2


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.rate = SETTINGS["rate"]
        return x * ctx.rate

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.rate * 3


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, rate: float) -> Any:
        return x * rate

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.rate = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g * ctx.rate + x if ctx.needs_input_grad[0] else None), None


class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        CALLS.append("forward")
        ctx.shape = x.shape
        return x.sum()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        CALLS.append("backward")
        return g.expand(ctx.shape) * SETTINGS["rate"]


class OfValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.total = float(x.sum())
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.total


class Branching(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.is_steep = SETTINGS["rate"] > 3
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 10 if ctx.is_steep else g


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "saved tensors": Surrogate.apply,
    "attributes": Scaled.apply,
    "setup_context": lambda w: WithSetup.apply(w, SETTINGS["rate"]),
    "effects": Counted.apply,
    "numbers of tensors": OfValues.apply,
    "a branch in backward": Branching.apply,
}
FOLLOWED = ("numbers of tensors",)


def _run(name: str, is_compiled: bool, changes: bool) -> list[Any]:
    torch.manual_seed(0)
    SETTINGS["rate"] = 2.0
    CALLS.clear()
    w, function = torch.randn(4, requires_grad=True), FUNCTIONS[name]

    def step() -> Any:
        loss = (function(w) * 2).sum()
        loss.backward()
        gradient, w.grad = w.grad, None
        return loss, gradient

    call = torch.compile(step, options={"mode": "now"}) if is_compiled else step
    values: list[Any] = []
    for i in range(12):
        if changes and i == 8:
            SETTINGS["rate"] = 5.0
        values += [*(x.tolist() for x in call()), len(CALLS)]
    if is_compiled and not changes:
        assert ("proved harmless" in call.explain()) != (name in FOLLOWED), call.explain()
    return values


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_a_step_with_a_custom_function(name: str, changes: bool) -> None:
    for actual, expected in zip(_run(name, True, changes), _run(name, False, changes), strict=True):
        assert actual == pytest.approx(expected, rel=1e-5)


def test_a_context_from_outside_is_not_taken_for_a_new_one() -> None:
    contexts, w = [], torch.ones(3, requires_grad=True)

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rate = 1.0
            contexts.append(ctx)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.rate

    loss = Kept.apply(w).sum()

    def step() -> Any:
        loss.backward(retain_graph=True)
        gradient, w.grad = w.grad, None
        return gradient

    call = torch.compile(step, options={"mode": "now"})
    values = []
    for i in range(12):
        if i == 8:
            contexts[0].rate = 7.0
        values.append(call()[0].item())
    assert values == [1.0] * 8 + [7.0] * 4


@pytest.mark.parametrize("name", ["forward", "setup_context", "backward"])
def test_a_replaced_method_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = torch.ones(3, requires_grad=True)
    SETTINGS["rate"] = 2.0

    def step() -> Any:
        WithSetup.apply(w, SETTINGS["rate"]).sum().backward()
        gradient, w.grad = w.grad, None
        return gradient

    compiled = torch.compile(step, options={"mode": "now"})
    for _ in range(6):
        compiled()
    calls = []
    original = WithSetup.__dict__[name].__func__
    monkeypatch.setattr(WithSetup, name, staticmethod(
        lambda *args: (calls.append(name), original(*args))[1]))
    for count in (1, 2):
        compiled()
        assert len(calls) >= count
