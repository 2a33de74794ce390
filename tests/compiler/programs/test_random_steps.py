"""Random programs of pointwise work, views, writes in place and reductions, on aliasing inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import flambeau as torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ..step_comparison import compiled, runs, same

# Explaining traces the lines of a step, which compiled calls then leave to the tracer.
PHASES = [phase for phase in Phase if phase is not Phase.explain]

# Each takes the values so far by number and gives a new one, or None for what does not fit.
_UNARY = (torch.exp, torch.tanh, torch.relu, torch.neg, torch.sigmoid, torch.abs, torch.square)
_BINARY = (torch.add, torch.sub, torch.mul, torch.maximum)


def _pointwise(draw) -> Callable:
    f = draw(st.sampled_from(_UNARY))
    g = draw(st.sampled_from(_BINARY))
    two = draw(st.booleans())

    def act(values, i, j):
        if two and values[i].shape == values[j].shape:
            return g(values[i], values[j])
        return f(values[i].clamp(-3, 3))

    return act


def _view(draw) -> Callable:
    kind = draw(st.sampled_from(["t", "row", "rows", "column", "flat", "none", "step", "expand"]))

    def act(values, i, j):
        x = values[i]
        if kind == "none" or x.ndim == 0:
            return x[None]
        if kind == "flat" and x.is_contiguous():
            return x.view(-1)
        if kind == "expand" and x.ndim == 1:
            return x.expand(2, x.shape[0])
        if x.ndim < 2:
            return x[::2] if kind == "step" else x[:1]
        views = {"t": lambda: x.transpose(0, 1), "row": lambda: x[0], "rows": lambda: x[1:],
                 "column": lambda: x[:, -1], "step": lambda: x[:, ::2]}
        return views.get(kind, lambda: x.unsqueeze(0))()

    return act


def _write(draw) -> Callable:
    kind = draw(st.sampled_from(["add_", "mul_", "copy_", "fill_", "setitem", "relu_", "masked"]))
    number = draw(st.integers(-3, 3)) / 2

    def act(values, i, j):
        x, y = values[i], values[j]
        if any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)):
            return None  # elements overlap: refused by eager code as well
        if kind == "add_":
            x.add_(y if y.shape == x.shape else number)
        elif kind == "mul_":
            x.mul_(number)
        elif kind == "copy_":
            x.copy_(y.sum())
        elif kind == "fill_":
            x.fill_(number)
        elif kind == "relu_":
            x.relu_()
        elif kind == "masked":
            x.masked_fill_(x > 0.5, number)
        elif x.ndim:
            x[..., 0] = number
        return None

    return act


def _fold(draw) -> Callable:
    kind = draw(st.sampled_from(["sum", "mean", "amax", "softmax", "matmul", "cumsum"]))

    def act(values, i, j):
        x = values[i]
        if kind == "matmul" and x.ndim == 2:
            return x @ x.transpose(0, 1)
        if kind == "matmul" or not x.ndim:
            return x.sum()
        if kind in ("softmax", "cumsum"):
            return getattr(x, kind)(-1)
        return getattr(x, kind)(-1, True)

    return act


@st.composite
def _programs(draw, writes=True):
    """A step: acts on numbered values."""
    acts = []
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(
            [_pointwise, _pointwise, _view, _view, _fold, *[_write] * (2 * writes)]))
        acts.append((kind(draw), draw(st.integers(0, 100)), draw(st.integers(0, 100))))
    outputs = draw(st.lists(st.integers(0, 100), min_size=1, max_size=3))

    def step(*args):
        values = list(args)
        for act, i, j in acts:
            value = act(values, i % len(values), j % len(values))
            if value is not None and value.numel() < 400:
                values.append(value)
        return [values[k % len(values)] for k in outputs]

    return step


def _inputs(draw_aliasing: int) -> tuple:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    if draw_aliasing == 1:
        return x, x
    if draw_aliasing == 2:
        return x, x[1:3]
    if draw_aliasing == 3:
        return x.t(), y
    return x, y


@settings(max_examples=40, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.too_slow], phases=PHASES)
@given(_programs(), st.integers(0, 3))
def test_random_programs_compute_what_they_compute_eagerly(step, aliasing):
    torch.compiler.reset()
    fast = compiled(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nothing here may stay eager
        for i in range(4):
            torch.manual_seed(i)
            first = _inputs(aliasing)
            torch.manual_seed(i)
            second = _inputs(aliasing)
            same(fast(*first), step(*second), 1e-4)
            same(first, second, 1e-4)
    assert runs(fast) >= 1


@settings(max_examples=20, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.too_slow], phases=PHASES)
@given(_programs(writes=False))
def test_random_programs_have_the_same_gradients(step):
    weight = torch.nn.Parameter(torch.ones(4, 6))

    def training(x, y):
        weight.grad = None
        loss = sum(v.sum() for v in step(x * weight, y))
        if loss.requires_grad:
            loss.backward()
        return loss.detach()

    fast = compiled(training)
    for i in range(4):
        results = []
        for function in (fast, training):
            torch.manual_seed(i)
            value = function(torch.randn(4, 6) / 4, torch.randn(4, 6) / 4)
            results.append((value, None if weight.grad is None else weight.grad.clone()))
        same(*results, bound=1e-3)
