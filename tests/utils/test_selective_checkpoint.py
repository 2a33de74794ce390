"""Selective checkpointing: gradients are those of the whole function; kept operators run once."""

import functools

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import (
    CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts,
)

MM, SIN = torch.ops.aten.mm.default, torch.ops.aten.sin.default


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)


def function(x, w):
    return ((x @ w).sin() @ w).relu().sum()


def checkpointed(policy, x, w, f=function, **options):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return checkpoint(f, x, w, use_reentrant=False, context_fn=contexts)


@pytest.mark.parametrize("policy", [[], [MM], [SIN], [MM, SIN]])
def test_gradients_are_those_of_the_function(policy):
    x, w = inputs()
    wanted = torch.autograd.grad(function(x, w), (x, w))
    gradients = torch.autograd.grad(checkpointed(policy, x, w), (x, w))
    assert all(map(torch.equal, gradients, wanted))


def test_the_policy_is_asked_in_the_first_run_only():
    seen = []

    def policy(context, operator, *args, **kwargs):
        seen.append((context.is_recompute, operator))
        return CheckpointPolicy.MUST_SAVE if operator is MM else CheckpointPolicy.PREFER_RECOMPUTE

    x, w = inputs()
    checkpointed(policy, x, w).backward()
    assert [op for _, op in seen][:3] == [MM, SIN, MM]
    assert not any(again for again, _ in seen)


def test_each_call_of_an_operator_has_its_own_decision():
    calls = iter(range(100))

    def policy(context, operator, *args, **kwargs):
        is_second = operator is MM and next(calls) == 1
        return CheckpointPolicy.MUST_SAVE if is_second else CheckpointPolicy.MUST_RECOMPUTE

    x, w = inputs()
    wanted = torch.autograd.grad(function(x, w), (x, w))
    gradients = torch.autograd.grad(checkpointed(policy, x, w), (x, w))
    assert all(map(torch.equal, gradients, wanted))


def test_an_operator_that_only_the_second_run_calls_is_named():
    runs = iter(range(2))

    def f(x, w):
        return (x.cos() if next(runs) else x).sin().sum() + w.sum()

    x, w = inputs()
    y = checkpointed([MM], x, w, f)
    with pytest.raises(RuntimeError, match="cos.default encountered during backward but not found"):
        y.backward()


def test_kept_operators_are_not_computed_again(monkeypatch):
    x, w = inputs()
    y = checkpointed([MM], x, w)
    computed = []

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            computed.append(func)
            return func(*args, **(kwargs or {}))

    with Count():
        y.backward()
    # Of the second run nothing but sin and relu; four products are backward's own.
    assert computed.count(SIN) == 1 and computed.count(MM) == 4


def test_a_kept_tensor_must_not_be_written_to():
    def writes(x, w):
        return (x @ w).mul_(2).sin().sum()

    x, w = inputs()
    with pytest.raises(RuntimeError, match="has been mutated"):
        checkpointed([MM], x, w, writes).backward()
    checkpointed([MM], x, w, writes, allow_cache_entry_mutation=True).backward()


def test_only_once():
    x, w = inputs()
    y = checkpointed([MM], x, w)
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        y.backward()


def test_what_is_no_overload_is_refused():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([torch.mm])
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)


@pytest.mark.parametrize(("operator", "fix"), [
    (2, "of type <class 'int'>"), (torch.ops.aten.sin, "update the OpOverloadPacket"),
])
def test_an_operator_without_an_overload_is_refused(operator, fix):
    with pytest.raises(ValueError, match="to be an OpOverload but got") as raised:
        create_selective_checkpoint_contexts([operator])
    assert fix in str(raised.value)
