"""Followed calls above stubs that look for sparse and quantized tensors, and those of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.ops.interception.code_patching import is_anything_swapped, swap_of


class Tagged(torch.Tensor):
    """Counts what goes by its class."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})


def dense(x: Any, weight: Any) -> Any:
    return torch.add(F.linear(x, weight).relu(), x).sum()


def class_in_the_middle(x: Any, weight: Any) -> Any:
    tagged = (x + 1).as_subclass(Tagged)
    return (torch.add(tagged, x) * weight).sum().as_subclass(torch.Tensor)


def class_of_an_argument(x: Any, weight: Any) -> Any:
    hidden = x * weight
    return hidden.sum() + torch.stack([hidden[0] + 1, TAGGED]).as_subclass(torch.Tensor).sum()


def mode_in_the_middle(x: Any, weight: Any) -> Any:
    hidden = x * weight
    with Doubling():
        return (hidden + x).sum()


def sparse_argument(x: Any, weight: Any) -> Any:
    hidden = x * weight
    return (torch.sparse.mm(EYE, hidden) + hidden).sum()


def sparse_operand(x: Any, weight: Any) -> Any:
    return (EYE @ (x * weight) * x).sum()


def sparse_in_the_middle(x: Any, weight: Any) -> Any:
    return ((x * weight).to_sparse().to_dense() * x).sum()


def sparse_gradient(x: Any, weight: Any) -> Any:
    return (F.embedding(torch.tensor([0, 2]), weight * 2, sparse=True) * x[:2]).sum()


def quantized_in_the_middle(x: Any, weight: Any) -> Any:
    hidden = x * weight
    grid = torch.quantize_per_tensor(hidden.detach() + 1, 0.1, 0, torch.quint8)
    return (hidden + grid.dequantize()).sum()


class Doubling(torch.overrides.TorchFunctionMode):
    """Every sum is twice as large."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if getattr(func, "__name__", "") == "sum" else result


TAGGED = torch.ones(3).as_subclass(Tagged)
EYE = torch.eye(3).to_sparse()
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f for f in (
        dense, class_in_the_middle, class_of_an_argument, mode_in_the_middle, sparse_argument,
        sparse_operand, sparse_in_the_middle, sparse_gradient, quantized_in_the_middle)
}


@pytest.mark.parametrize("formula", STEPS.values(), ids=STEPS)
def test_a_step_beside_foreign_tensors(formula: Callable[[Any, Any], Any]) -> None:
    torch.ones(3).as_subclass(Tagged)  # from here on functions wear stubs
    assert is_anything_swapped()

    def run(weight, compiled):
        calls = iter(range(100))

        def step(x):
            weight.grad = None
            loss = formula(x, weight)
            loss.backward()
            next(calls)
            return loss

        options = {"mode": "now", "follow": True}
        f = torch.compile(step, options=options, backend="evaluate") if compiled else step
        seen = []
        for i in range(8):
            Tagged.seen.clear()
            loss = f(torch.linspace(-1, i, 9).reshape(3, 3))
            if i >= 3:  # earlier ones are recorded
                seen.append((loss.tolist(), weight.grad.to_dense().tolist(), Tagged.seen.copy()))
        return seen, f

    wanted, _ = run(nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3)), False)
    actual, step = run(nn.Parameter(torch.linspace(-1, 1, 9).reshape(3, 3)), True)
    for (loss, grad, calls), (loss_, grad_, calls_) in zip(wanted, actual, strict=True):
        assert loss_ == pytest.approx(loss, rel=1e-5)
        torch.testing.assert_close(torch.tensor(grad_), torch.tensor(grad))
        assert calls_ == calls
    if formula is dense:
        assert step._fallback.followed.programs[0].calls >= 4


def test_explain_says_that_replaced_functions_keep_calls_eager() -> None:
    counts = iter(range(100))

    def step(x):
        next(counts)
        return x * 2

    followed = torch.compile(step, options={"mode": "now", "follow": True}, backend="evaluate")
    for _ in range(6):
        followed(torch.ones(3))
    swap = swap_of(torch.add, lambda original, args, kwargs: original(*args, **kwargs))
    swap.start()
    try:
        assert followed.explain().startswith("step is eager for now")
        program = followed._fallback.followed.programs[0]
        calls = program.calls
        assert followed(torch.ones(3)).tolist() == [2.0] * 3
        assert program.calls == calls
    finally:
        swap.restore()
    followed(torch.ones(3))
    assert program.calls == calls + 1
    assert "step is followed" in followed.explain()
