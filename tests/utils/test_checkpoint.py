"""Checkpointing: the same gradients, less kept, the function run again with its random numbers."""

from __future__ import annotations

import weakref

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

BOTH = pytest.mark.parametrize("use_reentrant", [True, False])


def leaves():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    w = torch.full((3, 3), 0.5).requires_grad_()
    return x, w


@BOTH
def test_gradients_are_the_same(use_reentrant):
    def block(x, w):
        return (x @ w) * (x * x)

    x, w = leaves()
    block(x, w).sum().backward()
    a, b = leaves()
    y = checkpoint(block, a, b, use_reentrant=use_reentrant)
    y.sum().backward()
    assert a.grad.tolist() == x.grad.tolist()
    assert b.grad.tolist() == w.grad.tolist()


@BOTH
def test_random_numbers_come_again(use_reentrant):
    draws = []

    def noisy(x):
        noise = torch.rand(3)
        draws.append(noise.tolist())
        return (x * noise) * x

    x = torch.ones(3, requires_grad=True)
    torch.manual_seed(1)
    y = checkpoint(noisy, x, use_reentrant=use_reentrant)
    after = torch.rand(1).item()
    y.sum().backward()
    torch.manual_seed(1)
    torch.rand(3)
    assert torch.rand(1).item() == after
    assert draws[0] == draws[1]
    assert x.grad.tolist() == pytest.approx([2 * n for n in draws[0]])


def test_intermediate_tensors_are_not_kept():
    seen = []

    def block(x):
        middle = x * x
        seen.append(weakref.ref(middle))
        return middle * middle

    x = torch.ones(3, requires_grad=True)
    y = checkpoint(block, x, use_reentrant=False)
    assert seen[0]() is None
    y.sum().backward()
    assert x.grad.tolist() == [4, 4, 4]
    assert all(ref() is None for ref in seen)


def test_gradients_of_gradients():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = checkpoint(lambda x: x * x * x, x, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert g.tolist() == [12, 27]
    assert gg.tolist() == [12, 18]


def test_retained_graph_and_nesting():
    x = torch.tensor([2.0], requires_grad=True)

    def inner(x):
        return x * x * x

    def outer(x):
        return checkpoint(inner, x * x, use_reentrant=False) * x

    y = checkpoint(outer, x, use_reentrant=False)
    y.backward(retain_graph=True)
    assert x.grad.item() == 7 * 2.0**6
    y.backward()
    assert x.grad.item() == 2 * 7 * 2.0**6


def test_early_stop_leaves_out_what_is_not_needed():
    runs = []

    def block(x):
        y = x * x
        runs.append("end")
        return y

    x = torch.ones(2, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    assert runs == ["end"]
    with set_checkpoint_early_stop(False):
        checkpoint(block, x, use_reentrant=False).sum().backward()
    assert runs == ["end"] * 3


def test_another_second_run_is_noticed():
    turns = []

    def changing(x):
        turns.append(0)
        return x * x if len(turns) == 1 else x + x

    def growing(x):
        turns.append(0)
        return x * torch.ones(len(turns), 2)

    x = torch.ones(2, requires_grad=True)
    y = checkpoint(changing, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="A different number of tensors"):
        y.sum().backward()
    turns.clear()
    y = checkpoint(growing, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()


def test_keywords_contexts_and_no_grad():
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(lambda x, scale: x * x * scale, x, scale=3, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == [6, 6]
    with torch.no_grad():
        assert not checkpoint(lambda x: x * x, x, use_reentrant=False).requires_grad
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(lambda x: x, x, scale=3, use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda x: x * x, x)


@BOTH
def test_sequential(use_reentrant):
    steps = [lambda x: x * x, lambda x: x + 1, lambda x: x * 3, lambda x: x * x, lambda x: -x]
    x = torch.tensor([2.0], requires_grad=True)
    y = checkpoint_sequential(steps, 2, x, use_reentrant=use_reentrant)
    y.sum().backward()
    assert y.item() == -225
    assert x.grad.item() == -2 * 15 * 3 * 4


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("nested", [1, 2])
def test_second_derivatives(torch, early_stop, nested):
    def block(x):
        return x.exp().sigmoid().sin() * x.tanh()  # saves outputs and inputs

    def wrapped(x):
        return checkpoint(block, x, use_reentrant=False)

    def outer(x):
        return checkpoint(lambda y: wrapped(wrapped(y)), x, use_reentrant=False)

    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True)
    plain, checkpointed = ((block, wrapped), (lambda y: block(block(y)), outer))[nested - 1]
    results = []
    with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
        for function in (plain, checkpointed):
            (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
            results.append(torch.autograd.grad(first.sum(), x)[0])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("early_stop", [True, False])
def test_backward_inside_of_the_function(torch, early_stop):
    def slope(x):
        y = x.sin().exp().sin()
        return torch.autograd.grad(y.sum(), x, create_graph=True)[0].sum()

    x = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
    with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
        y = torch.utils.checkpoint.checkpoint(slope, x, use_reentrant=False)
        (gradient,) = torch.autograd.grad(y, x)
    torch.testing.assert_close(gradient, torch.autograd.grad(slope(x), x)[0])


def test_debug_lists_the_operators_of_both_runs() -> None:
    """Where the runs differ, the error names what each of them computed."""
    runs = []

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return x.sin().exp() if len(runs) == 1 else x.cos() * torch.ones(2)

    x = torch.ones(1, requires_grad=True)
    y = checkpoint(block, x, use_reentrant=False, debug=True)
    with pytest.raises(RuntimeError, match="because you passed `debug=True`") as error:
        y.sum().backward()
    assert "aten.exp" in str(error.value) and "aten.cos" in str(error.value)


def test_the_second_run_has_the_autocast_of_the_first() -> None:
    """Else it would save float32 where the first run saved bfloat16."""
    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(lambda x: torch.mm(x, x) @ x, x, use_reentrant=False)
    y.sum().backward()
    assert not torch.is_autocast_enabled("cpu") and x.grad is not None


def test_reentrant_refuses_grad() -> None:
    """Its backward sends gradients to all leaves, which grad() does not want."""
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="is incompatible with .grad"):
        torch.autograd.grad(checkpoint(torch.exp, x, use_reentrant=True).sum(), (x,))
    checkpoint(torch.exp, x, use_reentrant=True).sum().backward()


class _ReadsTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        ctx.saved_tensors  # noqa: B018
        with pytest.raises(RuntimeError, match="already unpacked once"):
            ctx.saved_tensors  # noqa: B018
        return g * 2


def test_saved_tensors_are_given_out_once_a_backward() -> None:
    """They are freed when they are read; a second reading would run the function again."""
    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda x: _ReadsTwice.apply(x.sin()), x, use_reentrant=False).sum().backward()


def test_reentrant_function_that_returns_its_argument():
    x = torch.ones(3, requires_grad=True)
    y, z = checkpoint(lambda a, b: (a, a * b), x, 2.0, use_reentrant=True)
    y.sum().backward(retain_graph=True)
    z.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_mode_that_changes_results_changes_recomputed_ones(reentrant: bool) -> None:
    class Halve(torch.overrides.TorchFunctionMode):
        reaches_recomputation = True

        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **kwargs or {})
            return result / 2 if func is torch.sin else result

    x = torch.tensor([0.5, 1.0], requires_grad=True)
    with Halve():
        y = checkpoint(lambda v: torch.sin(v).square().sum(), x, use_reentrant=reentrant)
        y.backward()
    assert x.grad.tolist() == pytest.approx((x.sin() * x.cos() / 2).tolist())
    assert torch.overrides._get_current_function_mode() is None
