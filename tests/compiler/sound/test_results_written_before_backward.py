"""The caller writes to what a compiled call returned, then calls backward: it raises, or not, and
gives what it gives eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn

from ..step_comparison import compiled, runs

class SavesBoth(torch.autograd.Function):
    """It saves an input and an output."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 3
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * x * y


def _twice(x: Any) -> Any:
    y = x.exp()
    return y, y * x, y.sin()


def _detached(x: Any) -> Any:
    y = x.exp()
    return y.sum(), y.detach()


def _two_views(x: Any) -> Any:
    y = x.exp()
    return y[:2], y[1:]


def _of_argument(x: Any) -> Any:
    return x * x, x.detach()


def _written_inside(x: Any) -> Any:
    y = x * 2
    y.add_(1)
    return y, y.exp()


def _steps(w: Any) -> dict[str, Callable[[Any], Any]]:
    return {
        "saved by its node": lambda x: (x.exp(),),
        "saved by nobody": lambda x: (x * 2, (x * 2).sum()),
        "saved by three": _twice,
        "views": _two_views,
        "a view saved by nobody": lambda x: ((x * 2).view(3, 1), (x * 2).view(1, 3)[0]),
        "a view": lambda x: (x.tanh().view(3, 1),),
        "a view that is saved": lambda x: (lambda v: (v, v.square()))((x * 2).view(3, 1)),
        "detached": _detached,
        "a detached argument": _of_argument,
        "written inside": _written_inside,
        "an outside tensor": lambda x: (x * w, w.detach()),
        "maximum and its index": lambda x: x.max(0, keepdim=True),
        "sorted": lambda x: x.sort(),
        "softmax": lambda x: (x.softmax(0), x * 1),
        "two that share nothing": lambda x: (x.exp(), x.sin()),
        "one for each input": lambda x: (x.exp() * 1, w.exp()),
        "a mask": lambda x: (lambda m: (x.masked_fill(m, 0.0), m.float()))(x > 1),
        "an index": lambda x: (lambda i: (x[i], i))((x * 1).argsort()),
        "a function of its own": lambda x: (SavesBoth.apply(x), x * 1),
        "in a dict": lambda x: {"a": x.exp(), "b": x.sum()},
    }


def _scale(y: Any) -> None:
    y.mul_(3)


def _scale_without_graph(y: Any) -> None:
    with torch.no_grad():
        y.mul_(3)


def _scale_detached(y: Any) -> None:
    y.detach().mul_(3)


def _scale_part(y: Any) -> None:
    with torch.no_grad():
        y.view(-1)[:1].mul_(3)


def _read(y: Any) -> None:
    y.sum()


WRITES = (_scale, _scale_without_graph, _scale_detached, _scale_part, _read)


def _observe(
    step: Callable, weight: Any, write: Callable, written: int, used: int | None
) -> Any:
    """The error's text up to its hint, or the gradients."""
    x = torch.tensor([0.5, 1.5, -1.0], requires_grad=True)
    weight.grad = None
    results = step(x)
    results = [*results.values()] if isinstance(results, dict) else [*results]
    try:
        write(results[written % len(results)])
        if used is None:
            sum(y.sum() for y in results if y.requires_grad).backward()
        else:
            results[used % len(results)].sum().backward()
    except RuntimeError as error:
        return str(error).split(" Hint:")[0]
    return [None if t.grad is None else _rounded(t.grad.tolist()) for t in (x, weight)]


@pytest.mark.parametrize("used", [None, 0, 1])
@pytest.mark.parametrize("name", _steps(None))
def test_a_result_is_written_before_backward(name: str, used: int | None) -> None:
    weights = [torch.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(2)]
    steps = [_steps(weight)[name] for weight in weights]
    fast = steps[1] = compiled(steps[1])
    for step, weight in zip(steps, weights, strict=True):
        for _ in range(4):
            _observe(step, weight, _read, 0, None)
    for written in range(3):
        for write in WRITES:
            expected, actual = (_observe(step, weight, write, written, used)
                                for step, weight in zip(steps, weights, strict=True))
            assert actual == expected, (write, written)
    if name != "a function of its own":
        assert runs(fast) > 4


def _rounded(seen: Any) -> Any:
    if isinstance(seen, list):
        return [_rounded(part) for part in seen]
    return round(seen, 4) if isinstance(seen, float) else seen


@pytest.mark.parametrize("inputs", [0, 1])
def test_only_nodes_that_lead_to_the_inputs_are_asked(inputs: int) -> None:
    def step(x: Any, w: Any) -> Any:
        y, z = x.exp(), w.exp()
        return y + z, y.detach(), z.detach()

    fast, seen = compiled(step), []
    for function in (step, fast):
        for _ in range(4):
            leaves = [torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)]
            total, *parts = function(*leaves)
            parts[0].zero_()
            try:
                seen.append(torch.autograd.grad(total.sum(), leaves[inputs])[0].tolist())
            except RuntimeError as error:
                seen.append(str(error)[:150])
    assert seen[:4] == seen[4:]
    assert seen[0].__class__ is (list if inputs else str)


def test_the_graph_is_retained_and_written_in_between() -> None:
    fast = compiled(lambda x: x.exp())
    for _ in range(4):
        x = torch.ones(3, requires_grad=True)
        y = fast(x)
        y.sum().backward(retain_graph=True)
        total = y.sum()
        y.detach().mul_(2)
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
            total.backward()


def test_a_module_whose_output_is_normalized_in_place() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    fast = compiled(net)
    for function in (net, *[fast] * 4):
        y = function(torch.ones(2, 3))
        y /= y.detach().norm()
        with pytest.raises(RuntimeError, match="output 0 of Tanh, is at version 1"):
            y.sum().backward()


def test_results_do_not_live_longer_for_it() -> None:
    import gc
    import weakref

    fast = compiled(lambda x: x.exp())
    gc.disable()
    try:
        for _ in range(4):
            y = fast(torch.ones(3, requires_grad=True))
            alive = weakref.ref(y)
            del y
            assert alive() is None
    finally:
        gc.enable()


def test_a_write_that_no_version_counts_shows_as_it_does_eagerly() -> None:
    def step(x: Any) -> Any:
        return x.exp()

    fast, seen = compiled(step), []
    for function in (step, *[fast] * 4):
        x = torch.ones(3, requires_grad=True)
        y = function(x)
        y.data.mul_(3)
        y.sum().backward()
        seen.append(_rounded(x.grad.tolist()))
    assert seen == [seen[0]] * 5
