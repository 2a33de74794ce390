"""Backward through an operator that has a kernel for the CPU and no derivative."""

import itertools
import warnings

import pytest

_count = itertools.count()


@pytest.fixture
def define(torch):
    """Return a function that defines an operator with a kernel for the CPU."""
    lib = torch.library.Library(f"fallback{next(_count)}", "FRAGMENT")

    def add(schema, kernel, key="CPU"):
        lib.define(schema)
        name = schema.partition("(")[0]
        lib.impl(name, kernel, key)
        return getattr(getattr(torch.ops, lib.ns), name).default

    yield add
    lib._destroy()


MESSAGE = "an autograd kernel was not registered"


def test_a_result_without_history_stops_backward(torch, define):
    op = define("foo(Tensor a) -> Tensor", lambda a: a.detach().clone())
    x = torch.ones(2, requires_grad=True)
    y = op(x)
    assert y.requires_grad
    with pytest.warns(UserWarning, match=MESSAGE):
        y.sum().backward()
    assert x.grad is None


def test_a_recorded_result_keeps_its_gradient(torch, define):
    op = define("foo(Tensor[] a) -> (Tensor, Tensor)", lambda a: (a[0] * 2, a[0] > 0))
    x = torch.ones(2, requires_grad=True)
    y, positive = op([x])
    assert not positive.requires_grad
    with pytest.warns(UserWarning, match=MESSAGE):
        y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_nothing_is_said_where_nothing_is_silent(torch, define):
    composite = define("foo(Tensor a) -> Tensor", lambda a: a * 2, "CompositeImplicitAutograd")
    written = define("bar(Tensor(a!) a, Tensor b) -> Tensor(a!)",
                     lambda a, b: a.copy_(b.detach()))
    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        composite(x).sum().backward()
        assert not written(torch.zeros(2), x).requires_grad
        with torch.no_grad():
            assert not written(torch.zeros(2), x).requires_grad


def test_mode_nothing(torch, define):
    op = define("foo(Tensor a) -> Tensor", lambda a: a.detach().clone())
    before = torch._C._get_autograd_fallback_mode()
    torch._C._set_autograd_fallback_mode("nothing")
    try:
        assert not op(torch.ones(2, requires_grad=True)).requires_grad
    finally:
        torch._C._set_autograd_fallback_mode(before)
    assert before == "warn"
