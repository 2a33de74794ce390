"""What a function may not do while a transform runs it: PyTorch's errors, and what they spare."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vmap


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return WithContext.apply(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return WithContext.apply(x), in_dims[0]


@pytest.mark.parametrize("transform", [
    vmap, grad, jacrev, jacfwd, grad_and_value, hessian, functionalize])
def test_functions_need_setup_context(transform):
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        transform(lambda x: WithContext.apply(x).sum())(torch.randn(3))


def test_a_functions_own_code_runs_below_transforms():
    x = torch.randn(3)
    assert torch.equal(grad(lambda x: Outer.apply(x).sum())(x), torch.full((3,), 2.))
    assert torch.equal(vmap(Outer.apply)(x), 2 * x)


@pytest.mark.parametrize("transform", [grad, jacrev, grad_and_value, hessian])
def test_saved_tensor_hooks_are_refused(transform):
    def inside(x):
        with torch.autograd.graph.save_on_cpu():
            return x.sin().sum()

    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(inside)(x)
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"), \
            torch.autograd.graph.save_on_cpu():
        transform(lambda x: x.sin().sum())(x)
    with torch.autograd.graph.save_on_cpu():  # allowed again
        pass


def test_saved_tensor_hooks_in_vjp_and_jvp():
    def inside(x):
        with torch.autograd.graph.save_on_cpu():
            return x.sin()

    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        torch.func.vjp(inside, x)
    assert torch.equal(jvp(inside, (x,), (x,))[1], x.cos() * x)


@pytest.mark.parametrize("transform", [vmap, grad, jacfwd])
def test_requires_grad_is_refused(transform):
    def by_method(x):
        x.requires_grad_()
        return x.sin().sum()

    def by_attribute(x):
        x.requires_grad = True
        return x.sin().sum()

    def by_new_tensors(x):
        return (x * torch.ones(3, requires_grad=True) * torch.nn.Parameter(torch.ones(3))).sum()

    x = torch.randn(2, 3)
    with pytest.raises(RuntimeError, match=r"attempting to call Tensor.requires_grad_\(\)"):
        transform(by_method)(x)
    transform(by_attribute)(x)
    transform(by_new_tensors)(x)


def test_retain_grad_is_refused():
    def f(x):
        y = x.sin()
        y.retain_grad()
        return y.sum()

    with pytest.raises(RuntimeError, match=r"attempting to call Tensor.retain_grad\(\)"):
        grad(f)(torch.randn(3))


@pytest.mark.parametrize("transform", [vmap, grad])
def test_functional_derivatives_are_refused(transform):
    for derivative in (
        lambda x: torch.autograd.functional.jacobian(lambda x: x.sin().sum(), x),
        lambda x: torch.autograd.functional.vjp(lambda x: x.sin().sum(), x),
        lambda x: torch.autograd.functional.jvp(
            lambda x: x.sin().sum(), (x,), (torch.ones_like(x),)),
    ):
        with pytest.raises(RuntimeError, match=r"torch\.autograd\.functional"):
            transform(derivative)(torch.randn(5, 3) if transform is vmap else torch.randn(()))
