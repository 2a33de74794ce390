"""HigherOrderOperator: the base class of operators that take functions, and how its rules are
chosen."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def base(torch):
    return importlib.import_module(f"{torch.__name__}._ops").HigherOrderOperator


def operator(base, name):
    class Plain(base):
        def __init__(self):
            super().__init__(name)

        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs)

    return Plain()


def key(torch, name):
    return getattr(importlib.import_module(f"{torch.__name__}._C").DispatchKey, name)


def test_the_base_class_is_not_instantiated(base):
    with pytest.raises(TypeError, match="abstract class HigherOrderOperator"):
        base("direct")


def test_the_rule_of_autograd_goes_first(torch, base):
    total = operator(base, "total_of_both")
    total.py_impl(key(torch, "AutogradCPU"))(lambda f, x: f(x).sum())
    total.py_impl(key(torch, "CPU"))(lambda f, x: f(x) * 0)
    x = torch.ones(3, requires_grad=True)
    y = total(torch.exp, x)
    y.backward()
    assert torch.allclose(x.grad, x.exp())
    assert str(total) == total.name() == "total_of_both"
    assert total.namespace == "higher_order"


def test_a_mode_with_a_rule_of_its_own_gets_the_call(torch, base):
    twice = operator(base, "twice_logged")
    twice.py_impl(key(torch, "CPU"))(lambda f, x: f(f(x)))
    modes = importlib.import_module(f"{torch.__name__}.utils._python_dispatch")

    class Log(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    seen = []

    @twice.py_impl(Log)
    def logged(mode, f, x):
        seen.append(f)
        return twice(f, x)

    with torch.inference_mode(), Log():
        assert twice(torch.neg, torch.ones(2)).tolist() == [1.0, 1.0]
    assert seen == [torch.neg]


def test_a_call_without_a_rule_is_refused(torch, base):
    with pytest.raises(NotImplementedError, match="HigherOrderOperator"):
        operator(base, "without_rules")(torch.neg, torch.ones(2))


def test_its_rules_compute_within_vmap_and_grad(torch):
    base = importlib.import_module(f"{torch.__name__}._ops").HigherOrderOperator
    if torch.__name__ == "torch":
        pytest.skip("PyTorch wants rules for its transforms")
    squares = operator(base, "squares_of_f")
    squares.py_impl(key(torch, "CompositeExplicitAutograd"))(lambda f, x: (f(x) ** 2).sum())
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.vmap(lambda v: squares(torch.neg, v))(x).tolist() == [5.0, 25.0]
    assert torch.func.grad(lambda v: squares(torch.neg, v))(x).tolist() == (2 * x).tolist()
