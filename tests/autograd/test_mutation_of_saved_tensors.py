"""allow_mutation_on_saved_tensors: backward sees tensors as they were saved."""

import pytest

import flambeau as torch
from flambeau.autograd.graph import allow_mutation_on_saved_tensors


def test_backward_sees_what_was_saved():
    a = torch.rand(2, 3, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        b = a.clone()
        squares = (b**2).sum()
        b.sin_()
        y = a.exp()
        exponentials = y.sum()
        y.mul_(0)
        gradients = torch.autograd.grad(squares + exponentials, a)[0]
    assert torch.allclose(gradients, 2 * a + a.exp())


def test_outside_of_it_the_write_is_refused():
    a = torch.rand(2, requires_grad=True)
    b = a.clone()
    y = (b**2).sum()
    b.sin_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_it_is_not_nested_and_ends():
    a = torch.rand(2, requires_grad=True)
    with allow_mutation_on_saved_tensors() as context:
        with pytest.raises(RuntimeError, match="cannot be nested"):
            allow_mutation_on_saved_tensors().__enter__()
        y, z = (a.clone() ** 2).sum(), (a.clone() ** 2).sum()
        context.clear()
        with pytest.raises(AssertionError, match="outside of the 'allow_mutation"):
            z.backward()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation"):
        y.backward()


def test_second_derivatives():
    a = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        b = a.clone()
        y = (b**3).sum()
        b.zero_()
        (first,) = torch.autograd.grad(y, a, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), a)
    assert torch.allclose(second, 6 * a)


def test_a_tensor_is_copied_at_its_first_write_only():
    a = torch.rand(3, requires_grad=True)
    with allow_mutation_on_saved_tensors() as context:
        b = a.clone()
        first, second = b**2, b[:2] ** 2
        assert len(context.cloned) == 0
        b.sin_()
        assert len(context.cloned) == 2
        b.sin_()
        torch.sin(a.detach(), out=b.detach())
        assert len(context.cloned) == 2
        del first
        assert len(context.cloned) == 1
        second.sum().backward()
        assert len(context.cloned) == 0
    assert torch.equal(a.grad, torch.cat([2 * a[:2], torch.zeros(1)]))


def test_windows_that_begin_at_one_place_are_different_tensors():
    a = torch.rand(4, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        b = a.clone()
        parts = [(b[:n] ** 2).sum() for n in (2, 3, 4)]  # temporaries, which may share an id
        b.zero_()
        sum(parts).backward()
    assert torch.allclose(a.grad, 2 * a * torch.tensor([3.0, 3.0, 2.0, 1.0]))
