"""Functions assigned to attributes of Tensor are called by programs, not by operators and their
derivatives, which are C++ in PyTorch."""

from __future__ import annotations

import contextlib

import pytest


@contextlib.contextmanager
def assigned(cls, name, function):
    """A method of a class that is replaced meanwhile."""
    before, is_inherited = getattr(cls, name), name not in vars(cls)
    setattr(cls, name, function)
    try:
        yield before
    finally:
        if is_inherited:  # as most of PyTorch's are
            delattr(cls, name)
        else:
            setattr(cls, name, before)


def _one_more(method):
    return lambda *args, **kwargs: method(*args, **kwargs) + 1


def test_a_program_gets_the_assigned_method(torch):
    x = torch.full((2,), 3.0)
    with assigned(torch.Tensor, "__mul__", _one_more(torch.Tensor.__mul__)):
        assert (x * 2).tolist() == [7.0, 7.0]
        assert torch.Tensor.__mul__(x, 2).tolist() == [7.0, 7.0]
    assert (x * 2).tolist() == [6.0, 6.0]


def test_the_class_shows_what_was_assigned(torch):
    function = _one_more(torch.Tensor.sum)
    with assigned(torch.Tensor, "sum", function) as before:
        assert torch.Tensor.sum is function
    assert torch.Tensor.sum is before


@pytest.mark.parametrize("name", ["__mul__", "__neg__", "__truediv__", "__add__", "__matmul__",
                                  "sum", "mean", "exp", "__getitem__", "add_"])
def test_derivatives_do_not_call_it(torch, name):
    if name == "__getitem__" and torch.__name__ == "torch":
        pytest.skip("an assignment makes a sequence of PyTorch's Tensor for good")
    x = torch.rand(3, 3) + 0.5
    x.requires_grad_()

    def loss():
        y = torch.softmax(x, 1) / x + x.exp() * 2 - (x @ x).tanh()
        return (y[1:] ** 3).mean() + torch.nn.functional.layer_norm(y, (3,)).std()

    (expected,) = torch.autograd.grad(loss(), x)
    result = loss()
    with assigned(torch.Tensor, name, _one_more(getattr(torch.Tensor, name))):
        (g,) = torch.autograd.grad(result, x)
    torch.testing.assert_close(g, expected)


def test_functions_do_not_call_it(torch):
    with assigned(torch.Tensor, "sum", _one_more(torch.Tensor.sum)):
        assert torch.ones(3).sum().item() == 4
        assert torch.sum(torch.ones(3)).item() == 3
        assert torch.ones(3).mean().item() == 1


def test_a_hook_calls_it(torch):
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 3)
    y = (x * 2).sum()
    with assigned(torch.Tensor, "__mul__", _one_more(torch.Tensor.__mul__)):
        y.backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_deleted_attribute_that_a_program_added(torch):
    torch.Tensor.twice = lambda self: self + self
    assert torch.ones(1).twice().item() == 2
    torch.Tensor.twice = lambda self: self * 4
    assert torch.ones(1).twice().item() == 4
    del torch.Tensor.twice
    assert not hasattr(torch.Tensor, "twice")


def test_undone_assignments_leave_no_lookup_behind():
    """Reading `Tensor.name` goes through a function only while something is assigned."""
    import flambeau
    from flambeau.native.foundation.method_patches import PatchableType as kind

    with assigned(flambeau.Tensor, "sum", _one_more(flambeau.Tensor.sum)):
        assert "__getattribute__" in vars(kind)
    assert "__getattribute__" not in vars(kind)


def test_a_step_that_reads_the_class_has_its_program():
    """Libraries that replace `Tensor.__repr__` for good do not keep steps from being proved."""
    import flambeau

    net = flambeau.nn.Linear(3, 2)

    @flambeau.compile(mode="now")
    def step(x):
        return net(x).relu() if isinstance(x, flambeau.Tensor) else None

    with assigned(flambeau.Tensor, "__repr__", lambda self: "a tensor"), flambeau.no_grad():
        for _ in range(3):
            y = step(flambeau.ones(1, 3))
        assert "its python runs" not in step.explain().lower()
    flambeau.testing.assert_close(y, net(flambeau.ones(1, 3)).relu())
